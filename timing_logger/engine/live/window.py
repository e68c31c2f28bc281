"""Put the latest digests of all hosts together: the last seconds of a run, in one table of timings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

import pandas as pd

from timing_logger.engine.live.digest import Digest, Key, Process
from timing_logger.engine.live.one_axis import Clocks, on_one_axis
from timing_logger.reading.alignment import Alignment, alignments
from timing_logger.reading.shared_facts import SharedFacts
from timing_logger.run_info import TimingFile

LEAST_STEPS = 40
"""The steps that a window has at least: a rank is named for a dozen slow ones, beside others."""

_LONGEST_S = 1800.0


class Window:
    """The last seconds of a run.

    Args:
        window_s: how many, back from the newest row; more, where so few hold less than ``LEAST_STEPS`` steps.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._digests: dict[str, list[Digest]] = defaultdict(list)
        self._newest: dict[str, Digest] = {}

    def add(self, digest: Digest) -> None:
        """Take in the next digest of a host."""
        self._newest[digest.source] = digest
        if len(digest.rows):
            self._digests[digest.source].append(_of_times(digest))

    @property
    def processes(self) -> list[Process]:
        """Where the newest process of each rank is, in the order of ranks."""
        by_age = sorted((process for _, process in self._told().values()), key=lambda one: one.key)
        return list({process.rank: process for process in by_age}.values())

    def _told(self) -> dict[Key, tuple[str, Process]]:
        """Return what was told last of each process of the run that began last, and which source did."""
        digests = sorted(self._newest.values(), key=lambda digest: digest.unix_s)
        told = {one.key: (digest.source, one) for digest in digests for one in digest.processes}
        began = {_run_of(one): one.sidecar.get("started_unix_ns") or 0 for _, one in told.values()}
        latest = max(began, key=lambda run: began[run], default="")
        return {key: one for key, one in told.items() if _run_of(one[1]) in ("", latest)}

    @property
    def last(self) -> list[pd.DataFrame]:
        """The last rows of the processes of which these are known."""
        return [rows for digest in self._newest.values() for rows in digest.last]

    def counted(self) -> dict[int, list[Process]]:
        """Return for each rank what the digests in the window say of its newest process."""
        wanted = {one.key for one in self.processes}
        found: dict[int, list[Process]] = defaultdict(list)
        for digest in self._all():
            for process in digest.processes:
                if process.n_rows and process.key in wanted:
                    found[process.rank].append(process)
        return found

    def timings(self) -> pd.DataFrame:
        """Return the rows of all ranks, of the steps that all digests chose, on one axis.

        The table is as that of ``read_timings``, with the columns of digests. Digests that lie before the
        window are forgotten.
        """
        self._forget()
        processes, told = self.processes, self._told()
        clocks: Clocks = {
            (told[one.key][0], one.key): clock
            for one, clock in zip(processes, _clocks(processes), strict=True)
        }
        timings = on_one_axis(list(self._all()), clocks, self._begin_unix_s()).table()
        timings.attrs["files"] = SharedFacts(
            {"rank": one.rank, "incarnation": one.incarnation, "sidecar": one.sidecar or None}
            for one in processes
        )
        return timings

    def _forget(self) -> None:
        """Forget the digests whose rows all lie before the window."""
        since_unix_s = self._begin_unix_s()
        for source, digests in self._digests.items():
            self._digests[source] = [one for one in digests if not _newest_unix_s(one) < since_unix_s]

    def _begin_unix_s(self) -> float:
        steps_s = min(LEAST_STEPS * self._step_s(), _LONGEST_S)
        return self._newest_unix_s() - max(self._window_s, steps_s)

    def _step_s(self) -> float:
        """Return how long a step takes, by the rows of all digests; 0.0 if there are too few."""
        spans_s, steps = 0.0, 0
        for counted in self.counted().values():
            spans_s += max(one.until_s for one in counted) - min(one.since_s for one in counted)
            steps += sum(one.n_iterations for one in counted)
        return spans_s / steps if steps else 0.0

    def _newest_unix_s(self) -> float:
        return max((_newest_unix_s(digest) for digest in self._all()), default=math.nan)

    def _all(self) -> Iterator[Digest]:
        return chain.from_iterable(self._digests.values())


def _of_times(digest: Digest) -> Digest:
    """Return a digest with what is needed of all in a window, and not only of the newest."""
    return digest._replace(processes=[one._replace(sidecar={}) for one in digest.processes], last=())


def _newest_unix_s(digest: Digest) -> float:
    return max((one.until_s + one.wall_offset_s for one in digest.processes if one.n_rows), default=-math.inf)


def _clocks(processes: Sequence[Process]) -> list[Alignment]:
    return alignments([(TimingFile(one.rank, one.incarnation), one.sidecar or None) for one in processes])


def _run_of(process: Process) -> str:
    return process.sidecar.get("run_id") or ""

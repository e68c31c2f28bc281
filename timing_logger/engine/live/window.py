"""Put the latest digests of all hosts together: the last seconds of a run, in one table of timings."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias, cast

import numpy as np
import pandas as pd

from timing_logger.engine.live.digest import ADDED, COLUMNS, Digest, Process
from timing_logger.engine.live.sampled_steps import of_fewer_steps
from timing_logger.engine.live.tails import no_rows
from timing_logger.reading.alignment import Alignment, alignments
from timing_logger.reading.shared_facts import SharedFacts
from timing_logger.run_info import TimingFile

Key: TypeAlias = tuple[int, int, int]
"""The rank, incarnation and generation of a process."""

_Clocks: TypeAlias = "dict[tuple[str, Key], Alignment]"
"""The clock of each process, by the source that told of it last."""


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
            self._digests[digest.source].append(digest)

    @property
    def processes(self) -> list[Process]:
        """Where the newest process of each rank is, in the order of ranks."""
        by_age = sorted((process for _, process in self._told().values()), key=_key)
        return list({process.rank: process for process in by_age}.values())

    def _told(self) -> dict[Key, tuple[str, Process]]:
        """Return what was told last of each process of the run that began last, and which source did."""
        digests = sorted(self._newest.values(), key=lambda digest: digest.unix_s)
        told = {_key(one): (digest.source, one) for digest in digests for one in digest.processes}
        began = {_run_of(one): one.sidecar.get("started_unix_ns") or 0 for _, one in told.values()}
        latest = max(began, key=lambda run: began[run], default="")
        return {key: one for key, one in told.items() if _run_of(one[1]) in ("", latest)}

    @property
    def last(self) -> list[pd.DataFrame]:
        """The last rows of the processes of which these are known."""
        return [rows for digest in self._newest.values() for rows in digest.last]

    def counted(self) -> dict[int, list[Process]]:
        """Return for each rank what the digests in the window say of its newest process."""
        wanted = set(map(_key, self.processes))
        found: dict[int, list[Process]] = defaultdict(list)
        for digest in self._all():
            for process in digest.processes:
                if process.n_rows and _key(process) in wanted:
                    found[process.rank].append(process)
        return found

    def timings(self) -> pd.DataFrame:
        """Return the rows of all ranks, of the steps that all digests chose, on one axis.

        The table is as that of ``read_timings``, with the columns of digests. Digests that lie before the
        window are forgotten.
        """
        self._forget()
        processes, told = self.processes, self._told()
        clocks = {
            (told[_key(one)][0], _key(one)): clock
            for one, clock in zip(processes, _clocks(processes), strict=True)
        }
        every = max((digest.every for digest in self._all()), default=1)
        since_unix_s = self._begin_unix_s()
        tables = [_table(digest, every, clocks, since_unix_s) for digest in self._all()]
        rows = pd.concat([_no_table(), *tables], ignore_index=True)
        timings: pd.DataFrame = rows.sort_values(["rank", "incarnation"], kind="stable", ignore_index=True)
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


def _newest_unix_s(digest: Digest) -> float:
    return max((one.until_s + one.wall_offset_s for one in digest.processes if one.n_rows), default=-math.inf)


def _table(digest: Digest, every: int, clocks: _Clocks, since_unix_s: float) -> pd.DataFrame:
    """Return the rows of the window of processes of which nobody told later, on one time axis."""
    rows = of_fewer_steps(digest, every).rows
    processes = {(one.rank, one.incarnation): one for one in digest.processes}
    starts_s, ends_s = (rows[name].to_numpy(np.float64) for name in ("start_counter", "end_counter"))
    on_axis = np.full((3, len(rows)), np.nan)
    inside = np.zeros(len(rows), np.bool_)
    for key, its in rows.groupby(["rank", "incarnation"]).indices.items():
        process = processes[cast("tuple[int, int]", key)]
        clock = clocks.get((digest.source, _key(process)))
        if clock is not None:
            inside[its] = ~(starts_s[its] < since_unix_s - process.wall_offset_s)
            on_axis[:, its] = _on_axis(clock, starts_s[its], ends_s[its])
    table: pd.DataFrame = rows.assign(**dict(zip(ADDED, on_axis, strict=True)))[inside]
    return table


def _on_axis(clock: Alignment, starts_s: Any, ends_s: Any) -> tuple[Any, Any, Any]:
    uncertainty_s = np.fmax(clock.uncertainty_at(starts_s), clock.uncertainty_at(ends_s))
    return clock.on_the_axis(starts_s), clock.on_the_axis(ends_s), uncertainty_s


def _clocks(processes: Sequence[Process]) -> list[Alignment]:
    return alignments([(TimingFile(one.rank, one.incarnation), one.sidecar or None) for one in processes])


def _run_of(process: Process) -> str:
    return process.sidecar.get("run_id") or ""


def _key(process: Process) -> Key:
    return process.rank, process.incarnation, process.generation


def _no_table() -> pd.DataFrame:
    table: pd.DataFrame = no_rows()[list(COLUMNS)].assign(**dict.fromkeys(ADDED, pd.array([], "float64")))
    return table

"""Put the latest digests of all hosts together: the last seconds of a run, in one table of timings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
import pandas as pd

from timing_logger.engine.live.digest import Digest, Process
from timing_logger.engine.live.sampled_steps import of_fewer_steps
from timing_logger.reading.alignment import Alignment, alignments
from timing_logger.run_info import TimingFile

Key = tuple[int, int, int]
"""The rank, incarnation and generation of a process."""


class Window:
    """The last seconds of a run.

    Args:
        window_s: how many, back from the newest row.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._digests: dict[str, list[Digest]] = defaultdict(list)
        self._newest: dict[str, Digest] = {}

    def add(self, digest: Digest) -> None:
        """Take in the next digest of a host."""
        self._newest[digest.host] = digest
        if len(digest.rows):
            self._digests[digest.host].append(digest)

    @property
    def processes(self) -> list[Process]:
        """Where the newest process of each rank is, in the order of ranks."""
        by_age = sorted(chain.from_iterable(digest.processes for digest in self._newest.values()), key=_key)
        return list({process.rank: process for process in by_age}.values())

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
        processes = self.processes
        clocks = dict(zip(map(_key, processes), _clocks(processes), strict=True))
        every = max((digest.every for digest in self._all()), default=1)
        tables = [(digest, self._table(digest, every, clocks)) for digest in self._all()]
        newest_s = max((table["start_s"].max() for _, table in tables), default=np.nan)
        since_s = newest_s - self._window_s
        self._forget({id(digest) for digest, table in tables if not (table["start_s"] >= since_s).any()})
        rows = [table[~(table["start_s"] < since_s)] for _, table in tables if len(table)]
        timings: pd.DataFrame = pd.concat(rows, ignore_index=True) if rows else _no_table()
        timings = timings.sort_values(["rank", "incarnation"], kind="stable", ignore_index=True)
        timings.attrs["files"] = [
            {"rank": one.rank, "incarnation": one.incarnation, "sidecar": one.sidecar or None}
            for one in processes
        ]
        return timings

    def _all(self) -> Iterator[Digest]:
        return chain.from_iterable(self._digests.values())

    def _forget(self, digests: set[int]) -> None:
        for host, its in self._digests.items():
            self._digests[host] = [digest for digest in its if id(digest) not in digests]

    @staticmethod
    def _table(digest: Digest, every: int, clocks: dict[Key, Alignment]) -> pd.DataFrame:
        """Return the rows of the processes that are known still, with their instants on one axis."""
        rows = of_fewer_steps(digest, every).rows
        generations = {(one.rank, one.incarnation): one.generation for one in digest.processes}
        starts_s, ends_s = (rows[name].to_numpy(np.float64) for name in ("start_counter", "end_counter"))
        on_axis = np.full((3, len(rows)), np.nan)
        known = np.zeros(len(rows), np.bool_)
        for key, its in rows.groupby(["rank", "incarnation"]).indices.items():
            rank, incarnation = cast("tuple[int, int]", key)
            clock = clocks.get((rank, incarnation, generations[rank, incarnation]))
            if clock is not None:
                known[its] = True
                on_axis[:, its] = _on_axis(clock, starts_s[its], ends_s[its])
        names = ("start_s", "end_s", "clock_uncertainty_s")
        table: pd.DataFrame = rows.assign(**dict(zip(names, on_axis, strict=True)))[known]
        return table


def _on_axis(clock: Alignment, starts_s: Any, ends_s: Any) -> tuple[Any, Any, Any]:
    uncertainty_s = np.fmax(clock.uncertainty_at(starts_s), clock.uncertainty_at(ends_s))
    return clock.on_the_axis(starts_s), clock.on_the_axis(ends_s), uncertainty_s


def _clocks(processes: Sequence[Process]) -> list[Alignment]:
    return alignments([(TimingFile(one.rank, one.incarnation), one.sidecar or None) for one in processes])


def _key(process: Process) -> Key:
    return process.rank, process.incarnation, process.generation


def _no_table() -> pd.DataFrame:
    from timing_logger.engine.live.digest import ADDED, COLUMNS
    from timing_logger.engine.live.tails import no_rows

    nothing = dict.fromkeys(ADDED, pd.array([], "float64"))
    table: pd.DataFrame = no_rows()[list(COLUMNS)].assign(**nothing)
    return table

"""What a monitor knows of the processes of a host for some seconds: where they are, and rows of some steps.

A digest has the rows of whole steps as they were recorded, only fewer of them. So it is judged as the timing
files are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import pandas as pd

from timing_logger.live.counter_rows import CounterRows
from timing_logger.live.row_arrays import RowArrays

Key: TypeAlias = tuple[int, int, int]
"""The rank, incarnation and generation of a process."""


class ProcessPlace(NamedTuple):
    """Where a process is.

    Attributes:
        rank, incarnation: of the process.
        generation: how many files of this name were there before: a folder may be emptied for another run.
        sidecar: what it said last of itself; empty if it has said nothing.
        n_rows: the number of rows that were read since the digest before.
        n_iterations: the number of iterations in which these are.
        since_s, until_s: when the first of them began, and the last one ended, on the clock of the process;
            NaN without any.
        wall_offset_s: the time since 1970 less the time on that clock, by these rows; NaN without any.
        iteration, epoch: of its latest row; None if it states none.
        written: the number of rows that it has written, as far as is known; None if that is unknown.
        counted: whether it states no iteration. Then its collectives count as steps where some are left out,
            and the iteration of a row is the number of the next of these.
        unfinished: the number of calls that are open.
        changed_unix_s: when its file was last written to.
    """

    rank: int
    incarnation: int
    generation: int
    sidecar: dict[str, Any]
    n_rows: int
    n_iterations: int
    since_s: float
    until_s: float
    wall_offset_s: float
    iteration: int | None
    epoch: int | None
    written: int | None
    counted: bool
    unfinished: int
    changed_unix_s: float

    @property
    def key(self) -> Key:
        """What tells it from all others."""
        return self.rank, self.incarnation, self.generation


class Digest(NamedTuple):
    """What is known of some processes, such as those of a host.

    Attributes:
        source: the name of the host, or of another source of digests.
        number: how many digests of this source came before.
        unix_s: when it was made.
        every: of how many steps one was chosen.
        processes: where each process is.
        rows: rows of the chosen steps, those of each process together.
        last: the last rows of each process, as ``last_rows`` returns them.
        counters: what the host counted meanwhile.
    """

    source: str
    number: int
    unix_s: float
    every: int
    processes: Sequence[ProcessPlace]
    rows: RowArrays
    last: Sequence[pd.DataFrame] = ()
    counters: CounterRows = CounterRows.joined([])

"""What a monitor knows of the processes of a host for some seconds: where they are, and rows of some steps.

A digest has the rows of whole steps as they were recorded, only fewer of them. So it is judged as the timing
files are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.arrays import Bools, Floats, Ints
from timing_logger.live.row_arrays import RowArrays
from timing_logger.reading.alignment import Alignment
from timing_logger.reading.host_rows import COUNTED
from timing_logger.schema.host_counters import INSTANTS


class CounterRows(NamedTuple):
    """Rows of files of counters; one for each second of each process.

    Attributes:
        rank, incarnation: of the process.
        values: rows x ``COUNTED``; NaN where something is not known.
    """

    rank: Ints
    incarnation: Ints
    values: Floats

    @classmethod
    def joined(cls, several: Sequence[CounterRows]) -> CounterRows:
        """Put rows one after the other."""
        none = np.zeros(0, np.int64)
        return cls(
            np.concatenate([none, *(rows.rank for rows in several)]),
            np.concatenate([none, *(rows.incarnation for rows in several)]),
            np.concatenate([np.zeros((0, len(COUNTED))), *(rows.values for rows in several)]),
        )

    def only(self, wanted: Bools) -> CounterRows:
        """Return the rows that are wanted."""
        return CounterRows(self.rank[wanted], self.incarnation[wanted], self.values[wanted])

    def table(self, process: Ints, clocks: Sequence[Alignment]) -> pd.DataFrame:
        """Return a table as ``read_host_counters`` does, without the wall clock.

        Args:
            process: for each row the number of its process.
            clocks: for each process how its instants are put on the axis of all.
        """
        on_axis = np.empty((len(INSTANTS), len(process)))
        for number in np.unique(process):
            its = process == number
            for axis, counter_s in zip(on_axis, self.values.T, strict=False):
                axis[its] = clocks[number].on_the_axis(counter_s[its])
        names = {"rank": self.rank, "incarnation": self.incarnation}
        axes = dict(zip(("start_s", "end_s"), on_axis, strict=True))
        columns = {**names, **axes, **dict(zip(COUNTED, self.values.T, strict=True))}
        table: pd.DataFrame = pd.DataFrame(columns)
        return table


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

"""What hosts counted in the last seconds, beside the rows of timings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.table_types import Bools, Floats, Ints
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

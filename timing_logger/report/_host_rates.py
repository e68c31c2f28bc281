"""What hosts counted as values over time: rates of what grows, and levels, on the axis of the timings."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.schema.host_counters import BY_NAME, Counter

if TYPE_CHECKING:
    import pandas as pd

COMMON_AXIS, OWN_AXIS = ("start_s", "end_s"), ("start_counter", "end_counter")
"""The columns that timings and counters have in common: the axis of all ranks, and that of the process."""


def axis_in(columns: Collection[str]) -> tuple[str, str] | None:
    """Return the axis that a table of timings has, that of all ranks if possible; None if it has neither."""
    return next((axis for axis in (COMMON_AXIS, OWN_AXIS) if axis[0] in columns), None)


class Held(NamedTuple):
    """The values of one counter of one process, each with the time for which it holds.

    Attributes:
        counter: which.
        start_s, end_s: the interval of each value, in s, ascending; no two overlap.
        values: per second for a counter that grows; for a level, what it was at the start of the interval.
    """

    counter: Counter
    start_s: Floats
    end_s: Floats
    values: Floats

    @classmethod
    def of(cls, counter: Counter, start_s: Floats, end_s: Floats, counted: Floats) -> Held:
        """Return the values that are known.

        Args:
            counter: which.
            start_s, end_s: the interval of each line, in s.
            counted: what the lines state of it; NaN where it is not known.
        """
        known = ~np.isnan(counted) & (start_s < end_s)
        start_s, end_s, counted = start_s[known], end_s[known], counted[known]
        if counter.kind == "difference":
            return cls(counter, start_s, end_s, counted / (end_s - start_s))
        # A level was read at the end of its interval. The last one is held for as long as its own lasted.
        until_s = np.append(end_s[1:], 2 * end_s[-1:] - start_s[-1:])
        return cls(counter, end_s, until_s, counted)

    def until_after(self, instant_s: float) -> Held:
        """Return only the values that hold beyond an instant."""
        later = self.end_s > instant_s
        return self._replace(start_s=self.start_s[later], end_s=self.end_s[later], values=self.values[later])

    def means(self, begin_s: Floats, end_s: Floats) -> Floats:
        """Return the mean value over each of some spans of time, of the part that is known; else NaN."""
        if not len(self.values):
            return np.full(len(begin_s), np.nan)
        lengths_s = self.end_s - self.start_s
        known_s = self._between(lengths_s, begin_s, end_s)
        summed = self._between(self.values * lengths_s, begin_s, end_s)
        found: Floats = np.where(known_s > 0, summed / np.where(known_s > 0, known_s, 1.0), np.nan)
        return found

    def _between(self, grown: Floats, begin_s: Floats, end_s: Floats) -> Floats:
        """Return by how much that grows which grew so much in each interval, evenly."""
        edges_s = np.stack([self.start_s, self.end_s], axis=1).ravel()
        total = np.cumsum(grown)
        at_edges = np.stack([total - grown, total], axis=1).ravel()
        return np.interp(end_s, edges_s, at_edges) - np.interp(begin_s, edges_s, at_edges)


class HostTable:
    """What one process wrote of its host.

    Args:
        table: rows of one process, as ``read_host_counters`` returns them.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self._table = table
        self.process = int(table["rank"].iloc[0]), int(table["incarnation"].iloc[0])
        """Rank and incarnation."""

    def held(self, name: str, axis: tuple[str, str]) -> Held:
        """Return the values of a counter on one of the axes."""
        start_s, end_s, counted = (self._table[each].to_numpy(np.float64) for each in (*axis, name))
        return Held.of(BY_NAME[name], start_s, end_s, counted)

    def first_known(self, names: Collection[str], axis: tuple[str, str]) -> Held | None:
        """Return the values of the first of these counters that is known at all; None if none is."""
        return next((held for held in (self.held(name, axis) for name in names) if len(held.values)), None)


def host_tables(counters: pd.DataFrame | None) -> Iterator[HostTable]:
    """Yield what each process wrote of its host, by rank and incarnation.

    Args:
        counters: what ``read_host_counters`` returns; None if nothing is known.
    """
    if counters is not None:
        yield from (HostTable(table) for _, table in counters.groupby(["rank", "incarnation"]))

"""Put the times in which lines are blocked one after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.table_types import Bools, Floats, Ints


class Holds(NamedTuple):
    """The times in which lines were held, line by line in the order of time; they do not overlap.

    Attributes:
        row: the row of each hold.
        line: its line.
        start_s, end_s: in seconds.
    """

    row: Ints
    line: Ints
    start_s: Floats
    end_s: Floats

    def only(self, wanted: Bools) -> Holds:
        """Return the holds that are ``wanted``."""
        return Holds._make(values[wanted] for values in self)


def holds_of(
    line: Ints, holds: Bools, start_s: Floats, end_s: Floats, until_s: Floats | None = None
) -> Holds:
    """Return the holds of all lines.

    Args:
        line: the line of each row.
        holds: whether the row holds its line.
        start_s, end_s: when each row began and ended, in seconds.
        until_s: until when each row waited, where that is known. Of rows that cover the same time, as those
            of one call that waits for several operations, the one that waited longest holds the line.
    """
    row = np.flatnonzero(holds & (end_s > start_s))
    waited_s = np.zeros(len(row)) if until_s is None else np.nan_to_num(until_s[row], nan=-np.inf)
    row = row[np.lexsort((-waited_s, -end_s[row], start_s[row], line[row]))]
    starts_s, ends_s = apart(line[row], start_s[row], end_s[row])
    found = Holds(row, line[row], starts_s, ends_s)
    return found.only(ends_s > starts_s)


def apart(line: Ints, start_s: Floats, end_s: Floats) -> tuple[Floats, Floats]:
    """Return starts and ends with which the intervals of each line do not overlap.

    None begins before the one before it has ended; of one inside of another, nothing is left.

    Args:
        line: the line of each interval, ascending; those of a line are in the order of their starts.
        start_s, end_s: the intervals, in seconds; none ends before it starts.
    """
    starts_s, ends_s = start_s.copy(), end_s.copy()
    follows = line[1:] == line[:-1]
    overlaps = follows & (start_s[1:] < end_s[:-1])
    for number in np.unique(line[1:][overlaps]).tolist():
        its = slice(*np.searchsorted(line, [number, number + 1]).tolist())
        ends_s[its] = np.maximum.accumulate(end_s[its])
    starts_s[1:] = np.where(follows, np.maximum(start_s[1:], ends_s[:-1]), start_s[1:])
    return starts_s, ends_s

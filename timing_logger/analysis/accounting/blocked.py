"""Divide the time in which lines were blocked: waiting, for whom, and transfers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.axis import OneAxis
from timing_logger.analysis.accounting.loops import UNKNOWN, origins
from timing_logger.analysis.accounting.ties import Needs
from timing_logger.analysis.rows.arrays import in_few_bytes
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.table_types import Bools, Floats, Ints

TRANSFER, WAITING, NOT_MATCHED = range(3)
"""What a line that was blocked did in a stretch of time."""

NO_RANK = -1


class Blocked(NamedTuple):
    """The stretches of time in which lines were blocked.

    Attributes:
        row: the row that blocked the line.
        start_s, end_s: on the axis of all ranks, in seconds.
        what: ``TRANSFER``, ``WAITING`` or ``NOT_MATCHED``.
        rank: the rank for which the line waited; ``NO_RANK`` where it waited for a transfer between others,
            and where it did not wait.
    """

    row: Ints
    start_s: Floats
    end_s: Floats
    what: Ints
    rank: Ints

    @property
    def ms(self) -> Floats:
        """How long each stretch lasted, in ms."""
        return 1e3 * (self.end_s - self.start_s)


def blocked_times(
    axis: OneAxis, needs: Needs, is_whole: Bools, line: Ints, holds: Bools, blocks: Bools
) -> Blocked:
    """Divide the time in which lines were blocked.

    Args:
        axis: the rows of communication, on one axis.
        needs: what each of them waited for.
        is_whole: for each row whether all ranks of its collective have rows; else it may have waited for
            another.
        line: the line of each row.
        holds, blocks: as those of ``lines.Roles``.
    """
    start_s, end_s, _ = instants(axis.frame)
    found = holds_of(line, holds, start_s, end_s, needs.until_s)
    until_s, by = needs.until_s[found.row], needs.row[found.row]
    needed = np.where(by >= 0, line[by], -1)
    first = np.searchsorted(found.line, np.arange(int(line.max(initial=-1)) + 2))
    waits_until_s = np.minimum(np.where(np.isnan(until_s), found.start_s, until_s), found.end_s)
    order = np.argsort(waits_until_s, kind="stable")
    hold, begins_s, ends_s, leads_to = origins(
        first, found.start_s, found.end_s, until_s, needed, order, blocks[found.row]
    )
    waits = begins_s < until_s[hold]
    is_known = (leads_to != UNKNOWN) & (waits | is_whole[found.row[hold]])
    what = np.where(is_known, np.where(waits, WAITING, TRANSFER), NOT_MATCHED)
    rank_of_line = np.full(len(first), NO_RANK)
    rank_of_line[line] = axis.frame["rank"].to_numpy()
    rank = np.where(waits & (leads_to >= 0), rank_of_line[leads_to], NO_RANK)
    row, what, rank = (in_few_bytes(values) for values in (found.row[hold], what, rank))
    return Blocked(row, begins_s, ends_s, what, rank)


# -- put the times in which lines are blocked one after the other ----------------------------------------


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

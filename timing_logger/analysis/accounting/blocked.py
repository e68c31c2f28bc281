"""Divide the time in which lines were blocked: waiting, for whom, and transfers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.axis import OneAxis
from timing_logger.analysis.accounting.lines import AccountLines, Roles
from timing_logger.analysis.accounting.loops import UNKNOWN, innermost, origins
from timing_logger.analysis.accounting.ties import Needs
from timing_logger.analysis.rows.arrays import Bools, Floats, Frame, Ints, in_few_bytes, numbers
from timing_logger.analysis.rows.intervals import instants

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


# -- divide the time in which a line was not blocked: its own work, row by row, and what no row covers ---


NO_ROW = -1


class Rest(NamedTuple):
    """The stretches of time in which lines were not blocked.

    Attributes:
        line: the line.
        start_s, end_s: on the clock of its process, in seconds.
        row: the row that covers the stretch; where none does, the row after it, or ``NO_ROW`` at the end.
        before: the row before a stretch that no row covers; ``NO_ROW`` at the beginning, and for others.
        is_timed: whether a row covers the stretch.
    """

    line: Ints
    start_s: Floats
    end_s: Floats
    row: Ints
    before: Ints
    is_timed: Bools


def rest_of(frame: Frame, lines: AccountLines, roles: Roles) -> Rest:
    """Return how all lines that have an account spent the time in which they were not blocked.

    Args:
        frame: the rows of whole processes.
        lines, roles: as ``lines_of`` returned them.
    """
    start_s, end_s = numbers(frame, "start_counter"), numbers(frame, "end_counter")
    holds = holds_of(roles.line, roles.holds, start_s, end_s)
    holds = holds.only(roles.blocks[holds.row])
    works = np.flatnonzero(roles.works & (end_s > start_s))
    intervals = Holds(works, roles.line[works], start_s[works], end_s[works])
    found = [
        _of_line(line, lines, own, blocked)
        for line, own, blocked in _by_line(lines, intervals, holds)
        if lines.has_account[line]
    ]
    if not found:
        none = np.zeros(0, np.int64)
        return Rest(none, np.zeros(0), np.zeros(0), none, none, np.zeros(0, np.bool_))
    return Rest._make(np.concatenate(column) for column in zip(*found, strict=True))


def _by_line(lines: AccountLines, works: Holds, holds: Holds) -> Iterator[tuple[int, Holds, Holds]]:
    own, blocked = (_split(intervals, len(lines.process)) for intervals in (works, holds))
    yield from zip(range(len(lines.process)), own, blocked, strict=True)


def _split(intervals: Holds, n_lines: int) -> Iterator[Holds]:
    order = np.argsort(intervals.line, kind="stable")
    ends = np.searchsorted(intervals.line[order], np.arange(1, n_lines + 1))
    for begin, end in pairwise([0, *ends.tolist()]):
        yield Holds._make(values[order[begin:end]] for values in intervals)


def _of_line(
    line: int, lines: AccountLines, works: Holds, holds: Holds
) -> tuple[Ints, Floats, Floats, Ints, Ints, Bools]:
    row = np.concatenate([works.row, holds.row])
    start_s, end_s = (
        np.concatenate([a, b]) for a, b in ((works.start_s, holds.start_s), (works.end_s, holds.end_s))
    )
    is_hold = np.arange(len(row)) >= len(works.row)
    order = np.lexsort((is_hold, -end_s, start_s))
    begins_s, ends_s, of_piece = innermost(start_s[order], end_s[order], is_hold[order])
    owner = order[of_piece]
    own = ~is_hold[owner]
    gap_starts_s = np.concatenate([lines.begin_s[[line]], ends_s])
    gap_ends_s = np.concatenate([begins_s, lines.end_s[[line]]])
    gap = gap_ends_s > gap_starts_s
    after, before = np.append(row[owner], NO_ROW)[gap], np.insert(row[owner], 0, NO_ROW)[gap]
    n_own, n_gaps = int(own.sum()), int(gap.sum())
    return (
        np.full(n_own + n_gaps, line),
        np.concatenate([begins_s[own], gap_starts_s[gap]]),
        np.concatenate([ends_s[own], gap_ends_s[gap]]),
        np.concatenate([row[owner[own]], after]),
        np.concatenate([np.full(n_own, NO_ROW), before]),
        np.repeat([True, False], [n_own, n_gaps]),
    )

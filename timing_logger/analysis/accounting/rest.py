"""Divide the time in which a line was not blocked: its own work, row by row, and what no row covers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.blocked import Holds, holds_of
from timing_logger.analysis.accounting.lines import AccountLines, Roles
from timing_logger.analysis.accounting.loops import innermost
from timing_logger.analysis.rows.arrays import numbers
from timing_logger.analysis.rows.table_types import Bools, Floats, Frame, Ints

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

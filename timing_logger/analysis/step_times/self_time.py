"""Compute a rank's self time: the time of its rows without that in which they waited for other ranks.

A row of a rank's own work (``BACKWARD``) may enclose calls that wait for other ranks, and further
rows of work. Each instant is charged to the innermost row of its thread, as profilers count
exclusive time, so nothing is counted twice and waiting is not counted as work.
"""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.arrays import dense_codes
from timing_logger.analysis.grouping import first_above, order_by, rows_of_each
from timing_logger.analysis.intervals import has_overlaps
from timing_logger.analysis.table_types import Floats, Ints


def exclusive_ms(elapsed_ms: Floats, starts_s: Floats, ends_s: Floats, lanes: Ints) -> Floats:
    """Return the time of each row without that of the rows inside it, in ms.

    Args:
        elapsed_ms: durations of the rows.
        starts_s, ends_s: intervals on one clock, in seconds; rows without them keep their duration.
        lanes: the lane of each row (a thread and its clock); rows enclose each other only within a lane.
    """
    alone = elapsed_ms.copy()
    rows = np.flatnonzero(starts_s < ends_s)  # those of zero or unknown length take nothing from others
    lane = dense_codes(lanes[rows])
    overlaps = has_overlaps(lane, starts_s[rows], ends_s[rows], int(lane.max(initial=-1)) + 1)
    rows, lane = rows[overlaps[lane]], dense_codes(lane[overlaps[lane]])
    if len(rows):
        order = _outer_first(lane, starts_s[rows], ends_s[rows])
        rows, lane = rows[order], lane[order]
        alone[rows] -= 1000 * _enclosed_s(lane, starts_s[rows], ends_s[rows])
    exclusive: Floats = np.maximum(alone, 0.0)
    return exclusive


def _outer_first(lane: Ints, starts: Floats, ends: Floats) -> Ints:
    """Return the order by lane and start; of intervals that start together, the longest comes first."""
    order = order_by(lane, starts)
    alike = (np.diff(starts[order]) == 0) & (np.diff(lane[order]) == 0)
    return np.lexsort((-ends, starts, lane)) if alike.any() else order


def _enclosed_s(lane: Ints, starts: Floats, ends: Floats) -> Floats:
    """Return how much of each interval in s lies under intervals further in: those that started later.

    The intervals are in the order of :func:`_outer_first`.
    """
    own_ends, around = ends, _around(lane, starts, ends)
    crossing = (around >= 0) & (ends[around] < ends)
    if crossing.any():
        own_ends = ends.copy()
        crossed = np.isin(lane, lane[crossing])
        for rows in rows_of_each(dense_codes(lane[crossed])):
            its = np.flatnonzero(crossed)[rows]
            own_ends[its] = _uncrossed(starts[its], ends[its])
        around = _around(lane, starts, own_ends)
    inner = np.flatnonzero(around >= 0)
    within_s = np.bincount(around[inner], (own_ends - starts)[inner], minlength=len(starts))
    enclosed: Floats = ends - own_ends + within_s
    return enclosed


def _around(lane: Ints, starts: Floats, ends: Floats) -> Ints:
    """Return for each interval the innermost one that it begins in; -1 if it begins in none.

    Where intervals cross, it is one that crosses.
    """
    n_lanes = int(lane.max()) + 1
    begin = np.searchsorted(lane, np.arange(n_lanes + 1))
    ended = first_above(begin, ends[order_by(lane, ends)], lane, starts)
    depth = np.arange(len(starts)) - ended  # those under way when it starts
    around = np.full(len(starts), -1)
    for level in range(int(depth.max())):
        outer, inner = np.flatnonzero(depth == level), np.flatnonzero(depth == level + 1)
        around[inner] = outer[np.searchsorted(outer, inner) - 1]
    return around


def _uncrossed(starts: Floats, ends: Floats) -> Floats:
    """Return ends with which intervals lie inside each other or apart.

    An interval that crosses into a later one ends where that one starts. Rows of ``record_timing`` cross by a
    moment: each is placed at the call, some time after its end.
    """
    uncrossed = ends.tolist()
    under_way: list[int] = []  # the innermost last, which ends first
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        while under_way and uncrossed[under_way[-1]] <= start:
            under_way.pop()
        while under_way and uncrossed[under_way[-1]] < end:
            uncrossed[under_way.pop()] = start
        under_way.append(row)
    return np.array(uncrossed)

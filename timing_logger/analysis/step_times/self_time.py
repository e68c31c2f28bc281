"""Compute a rank's self time: the time of its rows without that in which they waited for other ranks.

A row of a rank's own work (``BACKWARD``) may enclose calls that wait for other ranks, and further
rows of work. Each instant is charged to the innermost row of its thread, as profilers count
exclusive time, so nothing is counted twice and waiting is not counted as work.
"""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.table_types import Floats, Ints


def exclusive_ms(elapsed_ms: Floats, starts_s: Floats, ends_s: Floats, lanes: Ints) -> Floats:
    """Return the time of each row without that of the rows inside it, in ms.

    Args:
        elapsed_ms: durations of the rows.
        starts_s, ends_s: intervals on one clock, in seconds; rows without them keep their duration.
        lanes: the lane of each row (a thread and its clock); rows enclose each other only within a lane.
    """
    alone = elapsed_ms.copy()
    placed = starts_s < ends_s  # rows of zero or unknown length take nothing from other rows
    for lane in np.unique(lanes[placed]):
        rows = np.flatnonzero(placed & (lanes == lane))
        alone[rows] -= 1000 * _enclosed_s(starts_s[rows], ends_s[rows])
    exclusive: Floats = np.maximum(alone, 0.0)
    return exclusive


def _enclosed_s(starts: Floats, ends: Floats) -> Floats:
    """Return how much of each interval in s lies under intervals further in: those that started later."""
    if (starts[1:] >= ends[:-1]).all():  # one after the other
        return np.zeros(len(starts))
    order = np.lexsort((-ends, starts))
    starts, ends = starts[order], ends[order]
    own_ends, depth = ends, _depths(starts, ends)
    if _cross(ends, depth):
        own_ends = _uncrossed(starts, ends)
        depth = _depths(starts, own_ends)
    enclosed = ends - own_ends
    for level in range(int(depth.max(initial=0))):
        outer, inner = depth == level, depth == level + 1
        if inner.any():
            enclosed[outer] += covered_s(starts[outer], own_ends[outer], starts[inner], own_ends[inner])
    in_order = np.empty_like(enclosed)
    in_order[order] = enclosed
    return in_order


def _depths(starts: Floats, ends: Floats) -> Ints:
    """Count the intervals that are under way when each one starts; ``starts`` are ascending."""
    return np.arange(len(starts)) - np.searchsorted(np.sort(ends), starts, side="right")


def _cross(ends: Floats, depth: Ints) -> bool:
    """Tell whether any interval ends after the one that it began in; the depths are then of little use."""
    for level in range(int(depth.max(initial=0))):
        outer, inner = np.flatnonzero(depth == level), np.flatnonzero(depth == level + 1)
        around = outer[np.searchsorted(outer, inner) - 1]
        if (ends[around] < ends[inner]).any():
            return True
    return False


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


def covered_s(from_s: Floats, to_s: Floats, starts: Floats, ends: Floats) -> Floats:
    """Return how much of each span ``[from_s, to_s]`` the union of the intervals covers, in seconds.

    Args:
        from_s, to_s: the spans, in seconds.
        starts, ends: the intervals, in seconds.
    """
    if not len(starts):
        return np.zeros(len(from_s))
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    latest_end = np.maximum.accumulate(ends)
    begin = np.maximum(starts, np.concatenate([starts[:1], latest_end[:-1]]))
    lengths = np.maximum(latest_end - begin, 0.0)
    before = np.cumsum(lengths) - lengths

    def until(instants: Floats) -> Floats:
        at = np.searchsorted(begin, instants, side="right") - 1
        return np.where(at < 0, 0.0, before[at] + np.minimum(instants - begin[at], lengths[at]))

    return until(to_s) - until(from_s)

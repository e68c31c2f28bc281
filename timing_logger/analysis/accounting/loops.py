"""Loops of the account, which go through rows one by one.

They are plain Python over NumPy arrays of numbers, and say nothing of tables: what they mean stands in the
modules that call them.
"""

from __future__ import annotations

from bisect import bisect_right
from math import isnan

import numpy as np

from timing_logger.analysis.tables import Bools, Floats, Ints

TRANSFER = -1
"""In place of a line: the time passed in communication, for which nobody was late."""

UNKNOWN = -2
"""In place of a line: it is unknown for whom a line waited."""


def innermost(start_s: Floats, end_s: Floats, holds: Bools) -> tuple[list[float], list[float], list[int]]:
    """Give each instant of one line to one of the intervals that cover it.

    It goes to the interval that began last; but one that ``holds`` the line keeps its time, since a thread
    that is blocked does nothing else.

    Args:
        start_s, end_s: the intervals, in seconds, in the order of their starts.
        holds: for each interval whether the line is blocked in it; such intervals do not overlap.

    Returns:
        Starts, ends and the number of the interval of each piece, in the order of time.
    """
    starts: list[float] = []
    ends: list[float] = []
    owners: list[int] = []
    under_way: list[int] = []  # the innermost last
    begin_s, until_s, holding = start_s.tolist(), end_s.tolist(), holds.tolist()  # faster, one by one
    n = len(begin_s)
    now = begin_s[0] if n else 0.0
    for i in range(n + 1):
        until = begin_s[i] if i < n else float("inf")
        while under_way and now < until:
            top = under_way[-1]
            end = until_s[top]
            if end > now:
                piece_end = end if end < until else until
                starts.append(now)
                ends.append(piece_end)
                owners.append(top)
                now = piece_end
            if end <= now:
                under_way.pop()
        if i < n:
            if until > now:
                now = until
            if under_way and holding[under_way[-1]] and until_s[under_way[-1]] > now:
                under_way.insert(len(under_way) - 1, i)
            else:
                under_way.append(i)
    return starts, ends, owners


def apart(line: Ints, start_s: Floats, end_s: Floats) -> tuple[Floats, Floats]:
    """Return starts and ends with which the intervals of each line do not overlap.

    None begins before the one before it has ended; of one inside of another, nothing is left.

    Args:
        line: the line of each interval; those of a line follow each other, in the order of their starts.
        start_s, end_s: the intervals, in seconds.
    """
    lines, starts_s, ends_s = line.tolist(), start_s.tolist(), end_s.tolist()
    for i in range(1, len(lines)):
        if lines[i] == lines[i - 1]:
            starts_s[i] = max(starts_s[i], ends_s[i - 1])
            ends_s[i] = max(starts_s[i], ends_s[i])
    return np.array(starts_s, np.float64), np.array(ends_s, np.float64)


def origins(
    first: Ints, start_s: Floats, end_s: Floats, until_s: Floats, needed: Ints, order: Ints, wanted: Bools
) -> tuple[list[int], list[float], list[float], list[int]]:
    """Find for each instant in which a line was blocked what it waited for in the end.

    A line that is blocked waits for the line that it needs, until that has come; then the operation itself
    takes its time. Where the line that it needs is blocked, too, at that instant, it waits for whatever that
    one waits for; so each instant of waiting leads to a line that does something itself.

    Args:
        first: for each line the position of its first hold, and at last the number of all holds.
        start_s, end_s: the holds of each line, in the order of time, which do not overlap; in seconds.
        until_s: when the needed line had come; NaN where it is unknown who is needed.
        needed: the line that is needed; negative for none.
        order: the holds in the order in which their waits end.
        wanted: the holds of which the result tells.

    Returns:
        For each piece its hold, its start and end in seconds, and the line that it leads to, ``TRANSFER`` or
        ``UNKNOWN``; hold by hold, in the order of time.
    """
    walk = _Walk(first.tolist(), start_s.tolist(), end_s.tolist())
    lasts_s, lines = until_s.tolist(), needed.tolist()
    for hold in order.tolist():
        walk.tell(hold, lasts_s[hold], lines[hold])
    return walk.told(np.flatnonzero(wanted).tolist())


class _Walk:
    """Tells of one hold after the other what its line waited for, in lists: arrays are slow one by one."""

    def __init__(self, first: list[int], start_s: list[float], end_s: list[float]) -> None:
        self._first, self._start_s, self._end_s = first, start_s, end_s
        self._pieces: list[tuple[float, float, int]] = []  # start, end, and the line that it leads to
        self._of_hold: list[slice | None] = [None] * len(start_s)

    def tell(self, hold: int, until_s: float, line: int) -> None:
        """Divide a hold: until a line had come, and the rest. NaN if it is unknown who was needed."""
        begin_s, end_s, n_before = self._start_s[hold], self._end_s[hold], len(self._pieces)
        waits_until_s = min(until_s, end_s) if until_s > begin_s else begin_s
        if waits_until_s > begin_s and line >= 0:
            self._follow(line, begin_s, waits_until_s)
        if end_s > waits_until_s:
            self._pieces.append((waits_until_s, end_s, UNKNOWN if isnan(until_s) else TRANSFER))
        self._of_hold[hold] = slice(n_before, len(self._pieces))

    def _follow(self, line: int, begin_s: float, until_s: float) -> None:
        """Tell what a line did in a stretch of time: something itself, or what it waited for."""
        stop = self._first[line + 1]
        hold, now_s = bisect_right(self._end_s, begin_s, self._first[line], stop), begin_s
        while now_s < until_s:
            held_from_s = min(self._start_s[hold], until_s) if hold < stop else until_s
            if held_from_s > now_s:
                self._pieces.append((now_s, held_from_s, line))
                now_s = held_from_s
            if now_s < until_s:
                held_until_s = min(self._end_s[hold], until_s)
                self._copy(hold, line, now_s, held_until_s)
                now_s, hold = held_until_s, hold + 1

    def _copy(self, hold: int, line: int, begin_s: float, end_s: float) -> None:
        """Tell what is known of a part of a hold; if clocks contradict the order, that is nothing yet."""
        known = self._of_hold[hold]
        if known is None:
            self._pieces.append((begin_s, end_s, line))
            return
        for start_s, stop_s, leads_to in self._pieces[known]:
            if stop_s > begin_s and start_s < end_s:
                self._pieces.append((max(start_s, begin_s), min(stop_s, end_s), leads_to))

    def told(self, holds: list[int]) -> tuple[list[int], list[float], list[float], list[int]]:
        """Return the pieces of some holds, in columns, each with its hold."""
        rows = [(hold, *piece) for hold in holds for piece in self._pieces[self._of_hold[hold] or slice(0)]]
        columns = zip(*rows, strict=True) if rows else ([], [], [], [])
        owner, starts_s, ends_s, leads_to = map(list, columns)
        return owner, starts_s, ends_s, leads_to


def ranked(
    line: list[int], gives: list[list[int]], needs: list[list[int]], before: list[int], end_s: list[float]
) -> tuple[list[int], list[int], int]:
    """Rank the nodes of all lines, and the meetings, so that each comes after what it needs.

    Args:
        line: the line of each node; those of a line follow each other, in the order of time.
        gives, needs: for each node the meetings to which it gives, and those that it needs.
        before: the meeting that each meeting comes after; -1 for none.
        end_s: when each node was left, in seconds.

    Returns:
        The rank of each node; that of each meeting; and the number of nodes that had to come before something
        that they need, as the rows contradict each other. Nodes of one rank are of different lines.
    """
    n = len(line)
    to_come = [0] * len(before)
    for node in range(n):
        for meeting in gives[node]:
            to_come[meeting] += 1
    of_node, of_meeting = [0] * n, [0] * len(before)
    waiting: dict[int, list[int]] = {}
    ready = [node for node in range(n) if node == 0 or line[node] != line[node - 1]]
    stuck: set[int] = set()
    forced = 0
    while ready or stuck:
        if not ready:
            ready.append(min(stuck, key=end_s.__getitem__))
            stuck.discard(ready[0])
            forced += 1
            for meeting in needs[ready[0]]:
                to_come[meeting] = min(to_come[meeting], 0)
        node = ready.pop()
        while node >= 0:
            lacking = [meeting for meeting in needs[node] if to_come[meeting] > 0]
            if lacking:
                waiting.setdefault(lacking[0], []).append(node)
                stuck.add(node)
                break
            after = of_node[node - 1] if node and line[node] == line[node - 1] else 0
            for meeting in needs[node]:
                if before[meeting] >= 0:
                    of_meeting[meeting] = max(of_meeting[meeting], of_meeting[before[meeting]] + 1)
                after = max(after, of_meeting[meeting])
            of_node[node] = after + 1
            for meeting in gives[node]:
                of_meeting[meeting] = max(of_meeting[meeting], after + 2)
                to_come[meeting] -= 1
                if to_come[meeting] == 0:
                    freed = [one for one in waiting.pop(meeting, ()) if one in stuck]
                    stuck.difference_update(freed)
                    ready += freed
            node = node + 1 if node + 1 < n and line[node + 1] == line[node] else -1
    return of_node, of_meeting, forced

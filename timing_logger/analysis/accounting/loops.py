"""Loops of the account, which go through rows one by one.

They are plain Python over NumPy arrays of numbers, and say nothing of tables: what they mean stands in the
modules that call them.
"""

from __future__ import annotations

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
    n = len(start_s)
    now = start_s[0] if n else 0.0
    for i in range(n + 1):
        until = start_s[i] if i < n else float("inf")
        while under_way and now < until:
            top = under_way[-1]
            end = end_s[top]
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
            if under_way and holds[under_way[-1]] and end_s[under_way[-1]] > now:
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
    starts_s, ends_s = start_s.copy(), end_s.copy()
    for i in range(1, len(line)):
        if line[i] == line[i - 1]:
            starts_s[i] = max(starts_s[i], ends_s[i - 1])
            ends_s[i] = max(starts_s[i], ends_s[i])
    return starts_s, ends_s


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
    n = len(start_s)
    begins = [0] * n
    counts = [-1] * n
    starts: list[float] = []
    ends: list[float] = []
    leads_to: list[int] = []
    for hold in order:
        begins[hold] = len(starts)
        begin, end = start_s[hold], end_s[hold]
        until, line = until_s[hold], needed[hold]
        if not until >= begin:  # also NaN
            until = begin
        if until > end:
            until = end
        if until > begin and line >= 0:
            low, high = first[line], first[line + 1]
            stop = high
            while low < high:  # the first hold of that line which ends later
                middle = (low + high) // 2
                if end_s[middle] > begin:
                    high = middle
                else:
                    low = middle + 1
            now = begin
            while now < until:
                if low >= stop or start_s[low] >= until:
                    starts.append(now)
                    ends.append(until)
                    leads_to.append(line)
                    break
                if start_s[low] > now:
                    starts.append(now)
                    ends.append(start_s[low])
                    leads_to.append(line)
                    now = start_s[low]
                upto = end_s[low] if end_s[low] < until else until
                if counts[low] < 0:  # the clocks contradict the order: nothing is known of it yet
                    starts.append(now)
                    ends.append(upto)
                    leads_to.append(line)
                else:
                    for piece in range(begins[low], begins[low] + counts[low]):
                        left = starts[piece] if starts[piece] > now else now
                        right = ends[piece] if ends[piece] < upto else upto
                        if right > left:
                            starts.append(left)
                            ends.append(right)
                            leads_to.append(leads_to[piece])
                now = upto
                low += 1
        if end > until:
            starts.append(until)
            ends.append(end)
            leads_to.append(TRANSFER if until_s[hold] == until_s[hold] else UNKNOWN)
        counts[hold] = len(starts) - begins[hold]
    pieces = [
        piece
        for hold in range(n)
        if wanted[hold]
        for piece in range(begins[hold], begins[hold] + counts[hold])
    ]
    owner = [hold for hold in range(n) if wanted[hold] for _ in range(counts[hold])]
    return owner, [starts[i] for i in pieces], [ends[i] for i in pieces], [leads_to[i] for i in pieces]


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

"""Loops of the account, which go through rows one by one where these depend on each other.

They are plain Python over NumPy arrays of numbers, and say nothing of tables: what they mean stands in the
modules that call them.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple, TypeAlias

import numpy as np

from timing_logger.analysis.rows.arrays import Bools, Floats, Ints
from timing_logger.analysis.rows.grouping import first_above

TRANSFER = -1
"""In place of a line: the time passed in communication, for which nobody was late."""

UNKNOWN = -2
"""In place of a line: it is unknown for whom a line waited."""

Ragged: TypeAlias = "tuple[list[int], list[int]]"
"""Lists of numbers, one after the other: where each begins, and at last where all end; and the numbers."""


def innermost(start_s: Floats, end_s: Floats, holds: Bools) -> tuple[Floats, Floats, Ints]:
    """Give each instant of one line to one of the intervals that cover it.

    It goes to the interval that began last; but one that ``holds`` the line keeps its time, since a thread
    that is blocked does nothing else.

    Args:
        start_s, end_s: the intervals, in seconds, in the order of their starts; each ends after it starts.
        holds: for each interval whether the line is blocked in it; such intervals do not overlap.

    Returns:
        Starts, ends and the number of the interval of each piece, in the order of time.
    """
    begins = np.append(True, start_s[1:] >= np.maximum.accumulate(end_s)[:-1])[: len(start_s)]
    alone = begins & np.append(begins[1:], True)[: len(start_s)]  # most are, and are one piece each
    if alone.all():
        return start_s, end_s, np.arange(len(start_s))
    whole, shared = np.flatnonzero(alone), np.flatnonzero(~alone)
    starts, ends, owners = _divided(start_s[shared].tolist(), end_s[shared].tolist(), holds[shared].tolist())
    starts_s, ends_s = np.concatenate([start_s[whole], starts]), np.concatenate([end_s[whole], ends])
    order = np.argsort(starts_s, kind="stable")
    return starts_s[order], ends_s[order], np.concatenate([whole, shared[owners]])[order]


def _divided(
    start_s: list[float], end_s: list[float], holds: list[bool]
) -> tuple[list[float], list[float], list[int]]:
    """Return the pieces of intervals of which some overlap, as :func:`innermost` does."""
    starts: list[float] = []
    ends: list[float] = []
    owners: list[int] = []
    under_way: list[int] = []  # the innermost last
    now = start_s[0]
    for i, until in enumerate([*start_s, float("inf")]):
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
        if until > now:
            now = until
        if under_way and holds[under_way[-1]] and end_s[under_way[-1]] > now:
            under_way.insert(len(under_way) - 1, i)
        else:
            under_way.append(i)
    return starts, ends, owners


def origins(
    first: Ints, start_s: Floats, end_s: Floats, until_s: Floats, needed: Ints, order: Ints, wanted: Bools
) -> tuple[Ints, Floats, Floats, Ints]:
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
    waits_until_s = np.where(until_s > start_s, np.minimum(until_s, end_s), start_s)
    follows = np.where(waits_until_s > start_s, needed, -1)
    rest = np.where(np.isnan(until_s), UNKNOWN, TRANSFER)
    next_hold = first_above(first, end_s, np.maximum(follows, 0), start_s)
    held = next_hold < first[np.maximum(follows, 0) + 1]
    held_from_s = np.where(held, np.append(start_s, np.inf)[next_hold], np.inf)
    # Mostly the line that is followed is free all the time, which needs no walk.
    is_plain = (follows < 0) | (held_from_s >= waits_until_s)
    plain = _plain_pieces(np.flatnonzero(is_plain), start_s, end_s, waits_until_s, follows, rest)
    if is_plain.all():
        hold, from_s, to_s, leads_to = plain
        chosen = wanted[hold]
        return hold[chosen], from_s[chosen], to_s[chosen], leads_to[chosen]
    walk = _Walk(first.tolist(), start_s.tolist(), end_s.tolist(), order, plain)
    walk.tell(order[~is_plain[order]].tolist(), waits_until_s, follows, rest)
    return walk.pieces_of(np.flatnonzero(wanted))


def _plain_pieces(
    holds: Ints, start_s: Floats, end_s: Floats, until_s: Floats, follows: Ints, rest: Ints
) -> tuple[Ints, Floats, Floats, Ints]:
    """Divide holds that follow no line or one that is free: into two pieces each, at most."""
    there = np.stack([follows >= 0, end_s > until_s], axis=1)[holds]
    return (
        np.repeat(holds, there.sum(axis=1)),
        np.stack([start_s, until_s], axis=1)[holds][there],
        np.stack([until_s, end_s], axis=1)[holds][there],
        np.stack([follows, rest], axis=1)[holds][there],
    )


class _Walk:
    """Tells of one hold after the other what its line waited for, in lists: arrays are slow one by one.

    Args:
        first, start_s, end_s, order: as for :func:`origins`.
        plain: the pieces of holds of which they are known already, hold by hold.
    """

    def __init__(
        self, first: list[int], start_s: list[float], end_s: list[float], order: Ints,
        plain: tuple[Ints, Floats, Floats, Ints],
    ) -> None:  # fmt: skip
        self._first, self._start_s, self._end_s = first, start_s, end_s
        self._from_s, self._to_s, self._leads_to = (values.tolist() for values in plain[1:])
        bounds = np.searchsorted(plain[0], np.arange(len(start_s) + 1))  # the pieces of each hold
        self._begin, self._stop = bounds[:-1].tolist(), bounds[1:].tolist()
        place = np.empty(len(start_s), np.int64)
        place[order] = np.arange(len(order))
        self._place: list[int] = place.tolist()
        self._now = -1

    def tell(self, order: list[int], until_s: Floats, follows: Ints, rest: Ints) -> None:
        """Divide the other holds: until when each follows a line, and what the rest of it leads to."""
        of_each = (values[order].tolist() for values in (until_s, follows, rest))
        for hold, until, line, rest_of_it in zip(order, *of_each, strict=True):
            self._now = self._place[hold]
            begin = len(self._from_s)
            self._follow(line, self._start_s[hold], until)
            if self._end_s[hold] > until:
                self._add(until, self._end_s[hold], rest_of_it)
            self._begin[hold], self._stop[hold] = begin, len(self._from_s)

    def _add(self, from_s: float, to_s: float, leads_to: int) -> None:
        self._from_s.append(from_s)
        self._to_s.append(to_s)
        self._leads_to.append(leads_to)

    def _follow(self, line: int, begin_s: float, until_s: float) -> None:
        """Tell what a line did in a stretch of time: something itself, or what it waited for."""
        stop = self._first[line + 1]
        hold, now_s = bisect_right(self._end_s, begin_s, self._first[line], stop), begin_s
        while now_s < until_s:
            held_from_s = min(self._start_s[hold], until_s) if hold < stop else until_s
            if held_from_s > now_s:
                self._add(now_s, held_from_s, line)
                now_s = held_from_s
            if now_s < until_s:
                held_until_s = min(self._end_s[hold], until_s)
                self._copy(hold, line, now_s, held_until_s)
                now_s, hold = held_until_s, hold + 1

    def _copy(self, hold: int, line: int, begin_s: float, end_s: float) -> None:
        """Tell what is known of a part of a hold; if clocks contradict the order, that is nothing yet."""
        if self._place[hold] >= self._now:
            self._add(begin_s, end_s, line)
            return
        for i in range(self._begin[hold], self._stop[hold]):
            start_s, stop_s = self._from_s[i], self._to_s[i]
            if stop_s > begin_s and start_s < end_s:
                self._add(max(start_s, begin_s), min(stop_s, end_s), self._leads_to[i])

    def pieces_of(self, holds: Ints) -> tuple[Ints, Floats, Floats, Ints]:
        """Return the pieces of some holds, in columns, each with its hold."""
        begin, stop = np.array(self._begin, np.int64)[holds], np.array(self._stop, np.int64)[holds]
        n = stop - begin
        piece = np.repeat(begin - (np.cumsum(n) - n), n) + np.arange(int(n.sum()))
        from_s, to_s = (np.array(values, np.float64)[piece] for values in (self._from_s, self._to_s))
        return np.repeat(holds, n), from_s, to_s, np.array(self._leads_to, np.int64)[piece]


def ranked(
    line: list[int], gives: Ragged, needs: Ragged, before: list[int], end_s: list[float]
) -> tuple[list[int], list[int]]:
    """Rank nodes and meetings as ``replay.ranked`` does, but one after the other.

    Where rows contradict each other, the node that was left first goes on without what it needs.
    """
    n = len(line)
    (gives_at, given), (needs_at, needed) = gives, needs
    to_come = [0] * len(before)
    for meeting in given:
        to_come[meeting] += 1
    of_node, of_meeting = [0] * n, [0] * len(before)
    waiting: dict[int, list[int]] = {}
    ready = [node for node in range(n) if node == 0 or line[node] != line[node - 1]]
    stuck: set[int] = set()
    while ready or stuck:
        if not ready:
            ready.append(min(stuck, key=end_s.__getitem__))
            stuck.discard(ready[0])
            for meeting in needed[needs_at[ready[0]] : needs_at[ready[0] + 1]]:
                to_come[meeting] = min(to_come[meeting], 0)
        node = ready.pop()
        its_line = line[node]
        after = of_node[node - 1] if node and line[node - 1] == its_line else 0
        while node < n and line[node] == its_line:
            its_needs = needed[needs_at[node] : needs_at[node + 1]]
            if its_needs and (lacking := [meeting for meeting in its_needs if to_come[meeting] > 0]):
                waiting.setdefault(lacking[0], []).append(node)
                stuck.add(node)
                break
            for meeting in its_needs:
                if before[meeting] >= 0:
                    of_meeting[meeting] = max(of_meeting[meeting], of_meeting[before[meeting]] + 1)
                if of_meeting[meeting] > after:
                    after = of_meeting[meeting]
            after += 1
            of_node[node] = after
            for meeting in given[gives_at[node] : gives_at[node + 1]]:
                if of_meeting[meeting] <= after:
                    of_meeting[meeting] = after + 1
                to_come[meeting] -= 1
                if to_come[meeting] == 0:
                    freed = [one for one in waiting.pop(meeting, ()) if one in stuck]
                    stuck.difference_update(freed)
                    ready += freed
            node += 1
    return of_node, of_meeting


class Order(NamedTuple):
    """What comes after what when a program is played.

    Attributes:
        turns: nodes and meetings in turn, each after all that it needs: a node by its number, a meeting by
            its number less that of all meetings.
        slot: for each node what it follows.
        before: for each meeting the one that it comes after; -1 for none.
        gives, needs: for each node the meetings to which it gives, and those that it needs.
    """

    turns: list[int]
    slot: list[int]
    before: list[int]
    gives: Ragged
    needs: Ragged


def played_one_by_one(
    order: Order, now_s: list[float], own_s: list[float], took_s: list[float], late_s: list[float]
) -> tuple[list[float], list[float]]:
    """Play a program once, as ``playing.InWaves.played`` does; ``now_s`` is changed on the way."""
    (gives_at, given), (needs_at, needed) = order.gives, order.needs
    slot, before = order.slot, order.before
    left_s, done_s = [0.0] * len(own_s), [float("-inf")] * len(took_s)
    for turn in order.turns:
        if turn < 0:
            if before[turn] >= 0 and done_s[before[turn]] > done_s[turn]:
                done_s[turn] = done_s[before[turn]]
            done_s[turn] += took_s[turn]
            continue
        at_s = now_s[slot[turn]] + own_s[turn]
        for need in range(needs_at[turn], needs_at[turn + 1]):
            if done_s[needed[need]] > at_s:
                at_s = done_s[needed[need]]
        at_s += late_s[turn]
        now_s[slot[turn]] = left_s[turn] = at_s
        for gift in range(gives_at[turn], gives_at[turn + 1]):
            if done_s[given[gift]] < at_s:
                done_s[given[gift]] = at_s
    return left_s, done_s

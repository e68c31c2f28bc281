"""Play the nodes of a program in order: wave by wave, or, where waves are short, one after the other.

Both say the same. A wave is an operation on arrays, which takes as long for one node as for thirty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.loops import Order, played_one_by_one
from timing_logger.analysis.accounting.nodes import Lists
from timing_logger.analysis.accounting.program import Program
from timing_logger.analysis.rows.arrays import Bools, Floats, Ints, in_few_bytes


class _Wave(NamedTuple):
    """The meetings and nodes of one rank, which do not need each other.

    Attributes:
        meetings: the meetings; ``follow`` are those of them that come after another in their group.
        nodes: the nodes.
        waits: the places of those nodes that need something, by ``needs``: the meetings, node by node, and
            where those of each node begin.
        gives: the meetings to which nodes give; ``by``: the places of these nodes, meeting by meeting, and
            where those of each meeting begin.
    """

    meetings: Ints
    follow: Ints
    nodes: Ints
    waits: Ints
    needs: tuple[Ints, Ints]
    gives: Ints
    by: tuple[Ints, Ints]


class InWaves:
    """Plays a program wave by wave, any number of times at once.

    Args:
        program: the program.
        slot: for each node what it follows: the number of its line, or of that in its segment.
        before: for each meeting the one that it comes after; -1 for none.
        of_node, of_meeting: their ranks, as of ``replay.ranked``.
    """

    def __init__(self, program: Program, slot: Ints, before: Ints, of_node: Ints, of_meeting: Ints) -> None:
        self._slot, self._before = slot, before
        self._waves = list(_waves(program, before, of_node, of_meeting))

    def played(self, now_s: Floats, own_s: Floats, took_s: Floats, late_s: Floats) -> tuple[Floats, Floats]:
        """Return when each node is left, and when each meeting is done, in seconds; one column for each time.

        Args:
            now_s: when each slot begins, slots x times; in seconds, as all others.
            own_s: how long the line of each node is on its own account before it, nodes x times.
            took_s: how long each meeting takes.
            late_s: how much later each node is left than it could be.
        """
        now_s, took_s, late_s = now_s.copy(), took_s[:, None], late_s[:, None]
        done_s = np.full((len(took_s), own_s.shape[1]), -np.inf)
        left_s = np.empty(own_s.shape)
        for wave in self._waves:
            if len(wave.follow):
                done_s[wave.follow] = np.maximum(done_s[wave.follow], done_s[self._before[wave.follow]])
            done_s[wave.meetings] += took_s[wave.meetings]
            slots = self._slot[wave.nodes]
            instants_s = now_s[slots] + own_s[wave.nodes]
            if len(wave.waits):
                needed_s = np.maximum.reduceat(done_s[wave.needs[0]], wave.needs[1], axis=0)
                instants_s[wave.waits] = np.maximum(instants_s[wave.waits], needed_s)
            instants_s += late_s[wave.nodes]
            now_s[slots] = left_s[wave.nodes] = instants_s
            if len(wave.gives):
                came_s = np.maximum.reduceat(instants_s[wave.by[0]], wave.by[1], axis=0)
                done_s[wave.gives] = np.maximum(done_s[wave.gives], came_s)
        return left_s, done_s


class OneByOne:
    """Plays a program node by node, and one time after the other. The arguments are those of ``InWaves``."""

    def __init__(self, program: Program, slot: Ints, before: Ints, of_node: Ints, of_meeting: Ints) -> None:
        rank = np.concatenate([of_meeting, of_node])  # meetings are done before nodes of their rank need them
        turns = np.argsort(rank, kind="stable") - len(of_meeting)
        self._order = Order(
            turns.tolist(), slot.tolist(), before.tolist(), program.gives.ragged(), program.needs.ragged()
        )

    def played(self, now_s: Floats, own_s: Floats, took_s: Floats, late_s: Floats) -> tuple[Floats, Floats]:
        """Return what ``InWaves.played`` does."""
        took, late = took_s.tolist(), late_s.tolist()
        each = [
            played_one_by_one(self._order, begins_s.tolist(), its_own_s.tolist(), took, late)
            for begins_s, its_own_s in zip(now_s.T, own_s.T, strict=True)
        ]
        left_s, done_s = (np.array(column, np.float64).T for column in zip(*each, strict=True))
        return left_s, done_s


def _waves(program: Program, before: Ints, of_node: Ints, of_meeting: Ints) -> Iterator[_Wave]:
    n_ranks = max(1, int(of_node.max(initial=-1)) + 1)
    meetings, nodes = _split(of_meeting, n_ranks), _split(of_node, n_ranks)
    place = np.empty_like(of_node)  # of each node among those of its rank
    place[np.concatenate(nodes)] = np.concatenate([np.arange(len(its)) for its in nodes])
    (giving, given), (needing, needed) = program.gives.pairs(), program.needs.pairs()
    needs = _grouped(of_node[needing], place[needing], needed, n_ranks)
    gives = _grouped(of_node[giving], given, place[giving], n_ranks)
    for its_meetings, its_nodes, its_needs, its_gives in zip(meetings, nodes, needs, gives, strict=True):
        follow = its_meetings[before[its_meetings] >= 0]
        yield _Wave(its_meetings, follow, its_nodes, its_needs[0], its_needs[1:], its_gives[0], its_gives[1:])


def _split(rank: Ints, n_ranks: int) -> list[Ints]:
    """Return the positions of each rank; a rank beyond the last counts as that."""
    order = in_few_bytes(np.argsort(rank, kind="stable"))
    return np.split(order, np.searchsorted(rank[order], np.arange(1, n_ranks)))


def _grouped(rank: Ints, key: Ints, values: Ints, n_ranks: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield for each rank its distinct keys, the values of all of them, and where those of each begin.

    All ranks are sorted at once, since there may be as many as rows of a process.
    """
    order = np.lexsort((key, rank))
    rank, key, values = rank[order], key[order], values[order]
    first = np.flatnonzero((np.diff(rank, prepend=-1) != 0) | (np.diff(key, prepend=-1) != 0))
    at = np.searchsorted(rank, np.arange(n_ranks))
    key_at = np.searchsorted(rank[first], np.arange(1, n_ranks))
    begins = in_few_bytes(first - at[rank[first]])
    yield from zip(
        np.split(key[first], key_at), np.split(values, at[1:]), np.split(begins, key_at), strict=True
    )


# -- divide a program where all its lines meet: what follows depends on nothing before it but when that was
# A line that has nothing to do between coming to a meeting and waiting for it leaves when all have come,
# whatever it did before. If all lines do so in one meeting, what they do until the next such meeting is a
# segment that can be played by itself, at the same time as all others.


class Segments(NamedTuple):
    """The segments of a program.

    Attributes:
        of_node: for each node the number of its segment, from 0.
        cuts: for each segment but the last the meeting that ends it.
        waits: for each of these meetings the nodes in which lines wait for it, segments x lines.
        before: for each meeting the one that comes before it in its group and segment; -1 for none.
    """

    of_node: Ints
    cuts: Ints
    waits: Ints
    before: Ints

    @classmethod
    def whole(cls, n_nodes: int, before: Ints) -> Segments:
        """Return the whole program as one segment."""
        none = np.zeros(0, np.int64)
        return cls(in_few_bytes(np.zeros(n_nodes, np.int64)), none, none.reshape(0, 0), before)


def segments_of(line: Ints, is_free: Bools, gives: Lists, needs: Lists, before: Ints) -> Segments:
    """Divide a program into segments.

    Args:
        line: the line of each node; those of a line follow each other, in the order of time.
        is_free: for each node whether its line does nothing on its own account before it.
        gives, needs: for each node the meetings to which it gives, and those that it needs.
        before: the meeting that each meeting comes after; -1 for none.
    """
    cuts, waits = _met_by_all(line, is_free, gives, needs, len(before))
    if not len(cuts):
        return Segments.whole(len(line), before)
    ends = np.zeros(len(line) + 1, np.int64)
    ends[waits.ravel() + 1] = 1
    so_far = np.cumsum(ends)[:-1]
    of_node = so_far - so_far[np.searchsorted(line, line)]
    # The segments, as far as every cut counts, of the first and last node of each meeting; -1 without nodes.
    first, last = np.full(len(before), len(of_node)), np.full(len(before), -1)
    for node, meeting in (gives.pairs(), needs.pairs()):
        np.minimum.at(first, meeting, of_node[node])
        np.maximum.at(last, meeting, of_node[node])
    first = np.where(last >= 0, first, 0)
    follows = _that_follow(first, last, cuts, before)
    goes_across = _across(first, last, before, follows, len(cuts))
    number = np.append(0, np.cumsum(~goes_across))
    before = np.where(follows & (number[first] == number[last[before]]), before, -1)
    return Segments(in_few_bytes(number)[of_node], cuts[~goes_across], waits[~goes_across], before)


def _met_by_all(line: Ints, is_free: Bools, gives: Lists, needs: Lists, n_meetings: int) -> tuple[Ints, Ints]:
    """Return the meetings that all lines come to and wait for at once, in order, and the nodes that do.

    Lines that meet nobody do not count. There are no such meetings if lines come to them in different orders.
    """
    (giving, given), (needing, needed) = gives.pairs(), needs.pairs()
    n_lines = len(np.unique(line[np.concatenate([giving, needing])]))
    gives_only = np.full(len(line), -1)
    gives_only[giving] = np.where(np.diff(gives.at)[giving] == 1, given, -1)
    came_just_before = gives_only[needing - 1] == needed
    of_one_line = line[needing - 1] == line[needing]
    at_once = came_just_before & of_one_line & is_free[needing] & (np.diff(needs.at)[needing] == 1)
    of_all, of_these = (np.bincount(those, minlength=n_meetings) for those in (needed, needed[at_once]))
    chosen = at_once & ((of_all == n_lines) & (of_these == n_lines))[needed]
    by_line = needed[chosen].reshape(n_lines, -1) if n_lines else np.zeros((1, 0), np.int64)
    if not (by_line == by_line[0]).all():
        by_line = by_line[:, :0]
        chosen[:] = False
    return by_line[0], needing[chosen].reshape(len(by_line), -1).T


def _that_follow(first: Ints, last: Ints, cuts: Ints, before: Ints) -> Bools:
    """Tell of each meeting whether it comes after another that may be done later than its segment begins."""
    is_cut = np.zeros(len(before), np.bool_)
    is_cut[cuts] = True
    there = (before >= 0) & (last >= 0) & (last[before] >= 0)
    return there & ~(is_cut[before] & (last[before] < first))


def _across(first: Ints, last: Ints, before: Ints, follows: Bools, n_cuts: int) -> Bools:
    """Tell of each cut whether a meeting has nodes on both sides, or comes after one on the other side."""
    follow = np.flatnonzero(follows)
    spans = [
        (first[last >= 0], last[last >= 0]),
        (np.minimum(first[follow], first[before[follow]]), np.maximum(last[follow], last[before[follow]])),
    ]
    begin, end = (np.concatenate(values) for values in zip(*spans, strict=True))
    opened, closed = (np.bincount(values, minlength=n_cuts + 1) for values in (begin, end))
    return np.cumsum(opened - closed)[:n_cuts] > 0

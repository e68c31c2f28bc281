"""Play the nodes of a program in order: wave by wave, or, where waves are short, one after the other.

Both say the same. A wave is an operation on arrays, which takes as long for one node as for thirty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.loops import Order, played_one_by_one
from timing_logger.analysis.accounting.program import Program
from timing_logger.analysis.rows.arrays import in_few_bytes
from timing_logger.analysis.rows.table_types import Floats, Ints


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
        of_node, of_meeting: their ranks, as of ``waves.ranked``.
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

"""Play a run again with other times of its lines: how long it would have lasted."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.program import Program
from timing_logger.analysis.tables import Floats, Ints

_AT_ONCE = 2**24
"""How many instants are held at once: the nodes of a program, for each time that it is played."""


class _Rank(NamedTuple):
    """The meetings and nodes of one rank, which do not need each other.

    Attributes:
        meetings: the meetings; ``before`` are those of them that come after another in their group.
        nodes: the nodes.
        waits: the places of those nodes that need something, by ``needs``: the meetings, node by node, and
            where those of each node begin.
        gives: the meetings to which nodes give; ``by``: the places of these nodes, meeting by meeting, and
            where those of each meeting begin.
    """

    meetings: Ints
    before: Ints
    nodes: Ints
    waits: Ints
    needs: tuple[Ints, Ints]
    gives: Ints
    by: tuple[Ints, Ints]


class Replay:
    """Plays a program again; what is the same each time is prepared once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._ranks = list(_ranks(program))
        self._by_step = np.argsort(program.step, kind="stable")

    def with_times(self, took_s: Floats, late_s: Floats) -> Replay:
        """Return what plays the same program with other times of its meetings.

        Args:
            took_s: how long each meeting takes.
            late_s: how much later each node is left than it could be.
        """
        other = copy(self)
        done = self._program.done._replace(took_s=took_s)
        other._program = self._program._replace(done=done, late_s=late_s)
        return other

    def ends_s(self, own_s: Floats) -> Floats:
        """Return when each step, and all before it, would have ended with other times of the lines.

        Args:
            own_s: for each node and each time that the run is played how long its line is on its own account
                before it (nodes x times), in seconds.

        Returns:
            In seconds, steps x times.
        """
        at_once = max(1, _AT_ONCE // max(1, len(own_s)))
        parts = [self._played(own_s[:, i : i + at_once]) for i in range(0, own_s.shape[1], at_once)]
        return np.concatenate(parts, axis=1)

    def _played(self, own_s: Floats) -> Floats:
        program, took_s, before = self._program, self._program.done.took_s[:, None], self._program.done.before
        now_s = np.repeat(program.start_s[:, None], own_s.shape[1], axis=1)
        done_s = np.full((len(before), own_s.shape[1]), -np.inf)
        left_s = np.empty(own_s.shape)
        late_s = program.late_s[:, None]
        for rank in self._ranks:
            if len(rank.before):
                done_s[rank.before] = np.maximum(done_s[rank.before], done_s[before[rank.before]])
            done_s[rank.meetings] += took_s[rank.meetings]
            lines = program.line[rank.nodes]
            instants_s = now_s[lines] + own_s[rank.nodes]
            if len(rank.waits):
                needed_s = np.maximum.reduceat(done_s[rank.needs[0]], rank.needs[1], axis=0)
                instants_s[rank.waits] = np.maximum(instants_s[rank.waits], needed_s)
            instants_s += late_s[rank.nodes]
            now_s[lines] = left_s[rank.nodes] = instants_s
            if len(rank.gives):
                came_s = np.maximum.reduceat(instants_s[rank.by[0]], rank.by[1], axis=0)
                done_s[rank.gives] = np.maximum(done_s[rank.gives], came_s)
        return self._ends_of_steps(left_s)

    def _ends_of_steps(self, left_s: Floats) -> Floats:
        program = self._program
        step = program.step[self._by_step]
        first = np.flatnonzero(np.diff(step, prepend=-1))
        ends_s = np.full((program.n_steps, left_s.shape[1]), -np.inf)
        ends_s[step[first]] = np.maximum.reduceat(left_s[self._by_step], first, axis=0)
        return np.maximum.accumulate(ends_s, axis=0)


def _ranks(program: Program) -> Iterator[_Rank]:
    n_ranks = max(1, int(program.rank.max(initial=-1)) + 1)
    meetings, nodes = _split(program.done.rank, n_ranks), _split(program.rank, n_ranks)
    place = np.empty(len(program.rank), np.int64)  # of each node among those of its rank
    place[np.concatenate(nodes)] = np.concatenate([np.arange(len(its)) for its in nodes])
    needing, giving = (
        np.repeat(np.arange(len(place)), np.diff(lists.at)) for lists in (program.needs, program.gives)
    )
    needs = _grouped(program.rank[needing], place[needing], program.needs.values, n_ranks)
    gives = _grouped(program.rank[giving], program.gives.values, place[giving], n_ranks)
    for its_meetings, its_nodes, needed, given in zip(meetings, nodes, needs, gives, strict=True):
        later = its_meetings[program.done.before[its_meetings] >= 0]
        yield _Rank(its_meetings, later, its_nodes, needed[0], needed[1:], given[0], given[1:])


def _split(rank: Ints, n_ranks: int) -> list[Ints]:
    """Return the positions of each rank; a rank beyond the last counts as that."""
    order = np.argsort(rank, kind="stable")
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
    begins = first - at[rank[first]]
    yield from zip(
        np.split(key[first], key_at), np.split(values, at[1:]), np.split(begins, key_at), strict=True
    )

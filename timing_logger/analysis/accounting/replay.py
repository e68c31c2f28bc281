"""Play a run again with other times of its lines: how long it would have lasted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from itertools import islice
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.program import Program
from timing_logger.analysis.accounting.segments import Segments, segments_of
from timing_logger.analysis.accounting.waves import ranked
from timing_logger.analysis.arrays import dense_codes, in_few_bytes
from timing_logger.analysis.table_types import Floats, Ints

_SAME_S = 1e-9
"""By how much instants may differ that are the same, as sums of the same times in another order."""

_AT_ONCE = 2**24
"""How many instants are held at once: the nodes of a program, for each time that it is played."""


class _Rank(NamedTuple):
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


class Replay:
    """Plays a program again; what is the same each time is prepared once.

    Args:
        program: the program.
        in_segments: whether what does not depend on each other is played at the same time.
    """

    def __init__(self, program: Program, *, in_segments: bool = True) -> None:
        self._program = program
        line, gives, needs, before = program.line, program.gives, program.needs, program.done.before
        self._segments = (
            segments_of(line, program.own_s <= 0, gives, needs, before)
            if in_segments
            else Segments.whole(len(line), before)
        )
        slot = self._segments.of_node.astype(np.int64) * len(program.start_s) + line
        self._slot = in_few_bytes(slot)  # of each line in each segment
        each = in_few_bytes(dense_codes(line, self._segments.of_node))
        ranks = ranked(each, gives, needs, self._segments.before, program.end_s)
        self._ranks = list(_ranks(program, self._segments.before, *map(in_few_bytes, ranks)))
        self._by_step = in_few_bytes(np.argsort(program.step, kind="stable"))
        self._whole: Replay | None = None

    def with_times(self, took_s: Floats, late_s: Floats) -> Replay:
        """Return what plays the same program with other times of its meetings.

        Args:
            took_s: how long each meeting takes.
            late_s: how much later each node is left than it could be.
        """
        other = copy(self)
        done = self._program.done._replace(took_s=took_s)
        other._program = self._program._replace(done=done, late_s=late_s)
        other._whole = None
        return other

    def ends_s(self, own_s: Iterable[Floats]) -> Floats:
        """Return when each step, and all before it, would have ended with other times of the lines.

        Args:
            own_s: for each time that the run is played: how long the line of each node is on its own account
                before it, in seconds.

        Returns:
            In seconds, steps x times.
        """
        at_once = max(1, _AT_ONCE // max(1, len(self._slot)))
        times = iter(own_s)
        parts = []
        while some := list(islice(times, at_once)):
            parts.append(self._played(np.stack(some, axis=1)))
        return np.concatenate(parts, axis=1)

    def _played(self, own_s: Floats) -> Floats:
        program, segments = self._program, self._segments
        took_s, late_s = program.done.took_s[:, None], program.late_s[:, None]
        now_s = self._begins_s(own_s.shape[1])
        done_s = np.full((len(took_s), own_s.shape[1]), -np.inf)
        left_s = np.empty(own_s.shape)
        for rank in self._ranks:
            if len(rank.follow):
                done_s[rank.follow] = np.maximum(done_s[rank.follow], done_s[segments.before[rank.follow]])
            done_s[rank.meetings] += took_s[rank.meetings]
            slots = self._slot[rank.nodes]
            instants_s = now_s[slots] + own_s[rank.nodes]
            if len(rank.waits):
                needed_s = np.maximum.reduceat(done_s[rank.needs[0]], rank.needs[1], axis=0)
                instants_s[rank.waits] = np.maximum(instants_s[rank.waits], needed_s)
            instants_s += late_s[rank.nodes]
            now_s[slots] = left_s[rank.nodes] = instants_s
            if len(rank.gives):
                came_s = np.maximum.reduceat(instants_s[rank.by[0]], rank.by[1], axis=0)
                done_s[rank.gives] = np.maximum(done_s[rank.gives], came_s)
        met_s = done_s[segments.cuts]
        if (left_s[segments.waits] > met_s[:, None] + late_s[segments.waits] + _SAME_S).any():
            self._whole = self._whole or Replay(program, in_segments=False)
            return self._whole._played(own_s)  # some line came late by itself
        since_s = np.concatenate([np.zeros((1, own_s.shape[1])), np.cumsum(met_s, axis=0)])
        return self._ends_of_steps(left_s + since_s[segments.of_node])

    def _begins_s(self, n_times: int) -> Floats:
        """Return when each line begins each segment: the first at its own time, others after all have met.

        Those are relative to that meeting.
        """
        program, waits = self._program, self._segments.waits
        begins_s = np.zeros((len(waits) + 1, len(program.start_s)))
        begins_s[0] = program.start_s
        after = np.arange(1, len(waits) + 1)[:, None]
        begins_s[after, program.line[waits]] = program.late_s[waits]
        return np.repeat(begins_s.reshape(-1, 1), n_times, axis=1)

    def _ends_of_steps(self, left_s: Floats) -> Floats:
        program = self._program
        step = program.step[self._by_step]
        first = np.flatnonzero(np.diff(step, prepend=-1))
        ends_s = np.full((program.n_steps, left_s.shape[1]), -np.inf)
        ends_s[step[first]] = np.maximum.reduceat(left_s[self._by_step], first, axis=0)
        return np.maximum.accumulate(ends_s, axis=0)


def _ranks(program: Program, before: Ints, of_node: Ints, of_meeting: Ints) -> Iterator[_Rank]:
    n_ranks = max(1, int(of_node.max(initial=-1)) + 1)
    meetings, nodes = _split(of_meeting, n_ranks), _split(of_node, n_ranks)
    place = np.empty_like(of_node)  # of each node among those of its rank
    place[np.concatenate(nodes)] = np.concatenate([np.arange(len(its)) for its in nodes])
    (giving, given), (needing, needed) = program.gives.pairs(), program.needs.pairs()
    needs = _grouped(of_node[needing], place[needing], needed, n_ranks)
    gives = _grouped(of_node[giving], given, place[giving], n_ranks)
    for its_meetings, its_nodes, its_needs, its_gives in zip(meetings, nodes, needs, gives, strict=True):
        follow = its_meetings[before[its_meetings] >= 0]
        yield _Rank(its_meetings, follow, its_nodes, its_needs[0], its_needs[1:], its_gives[0], its_gives[1:])


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

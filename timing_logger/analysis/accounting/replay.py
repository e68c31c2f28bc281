"""Play a run again with other times of its lines: how long it would have lasted."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.loops import ranked as ranked_one_by_one
from timing_logger.analysis.accounting.nodes import WAIT, Lists
from timing_logger.analysis.accounting.playing import InWaves, OneByOne, Segments, segments_of
from timing_logger.analysis.accounting.program import Program
from timing_logger.analysis.rows.arrays import Bools, Floats, Ints, dense_codes, in_few_bytes
from timing_logger.results import criteria


class OwnClock(NamedTuple):
    """The own clocks of a program's lines; one entry per node.

    Attributes:
        since_s: how long the line was on its own account since its step began, when it came to the node.
        usual_s: the median of that over the node's peers, its own line among them.
        others_s: the median over its peers without its own line; where it has none, its own.
        n_peers: the number of its peers, without its own line.
        part: the number of the line's part of the step; nodes of a part follow each other.
        peers: a number that is that of its peers.
        last: the last node up to it in its part that has peers; itself where there is none.
    """

    since_s: Floats
    usual_s: Floats
    others_s: Floats
    n_peers: Ints
    part: Ints
    peers: Ints
    last: Ints

    def others_without(self, left_out: Bools) -> Floats:
        """Return the median over those peers of a node that are not left out; without any, ``others_s``."""
        group, n_groups = self.peers, int(self.peers.max(initial=-1)) + 1
        order = in_few_bytes(np.lexsort((self.since_s, left_out, group)))
        first = np.searchsorted(group[order], np.arange(n_groups))
        n_left = np.bincount(group[~left_out], minlength=n_groups)
        median_s = self.since_s[order][first + np.maximum(n_left - 1, 0) // 2]
        found_s = np.where(n_left > 0, median_s, np.nan)[group]
        others_s = self.since_s + (found_s - self.since_s)[self.last]
        return np.where(np.isnan(others_s), self.others_s, others_s)

    def own_s(self, since_s: Floats) -> Floats:
        """Return for each node how long its line is on its own account before it, for other own clocks.

        Args:
            since_s: what the own clock of each node shall be; where it would go back, it stands still.
        """
        forward_s = _never_back(since_s, self.part)
        is_first = np.diff(self.part, prepend=-1) != 0
        return np.where(is_first, forward_s, np.diff(forward_s, prepend=0.0))


def own_clocks(program: Program, call: Ints, role: Ints) -> OwnClock:
    """Return the own clocks of a program's lines, and what is usual.

    Args:
        program: the program.
        call: for each node what is called: nodes of different lines are compared if these are equal.
        role: for each line its role.
    """
    begins = (np.diff(program.line, prepend=-1) != 0) | (np.diff(program.step, prepend=-1) != 0)
    part = in_few_bytes(np.cumsum(begins) - 1)
    total_s, first = np.cumsum(program.own_s), np.flatnonzero(np.diff(part, prepend=-1))
    since_s = total_s - (total_s - program.own_s)[first][part]
    begins_something = program.kind != WAIT  # what is done already when it is waited for has no wait
    signature = _signature(part, call, begins_something)
    of_peers = program.step, role[program.line], signature, call, _alike(part, call)
    peers = in_few_bytes(dense_codes(*of_peers))  # nodes of one number are peers
    n_peers = in_few_bytes(np.bincount(peers) - 1)[peers]
    last = _last_with_peers(part, n_peers)
    usual_s, others_s = (since_s + (found - since_s)[last] for found in _medians(since_s, peers))
    return OwnClock(since_s, usual_s, others_s, n_peers[last], part, peers, last)


def _last_with_peers(part: Ints, n_peers: Ints) -> Ints:
    """Return for each node the last one up to it in its part that has peers; itself where there is none."""
    place = np.arange(len(part), dtype=part.dtype)
    last = np.maximum.accumulate(np.where(n_peers > 0, place, -1)) if len(part) else place
    return np.where((last >= 0) & (part[last] == part), last, place)


def _alike(part: Ints, call: Ints) -> Ints:
    """Count for each node the earlier nodes of its part with the same call."""
    order = np.lexsort((np.arange(len(part)), call, part))
    is_new = (np.diff(part[order], prepend=-1) != 0) | (np.diff(call[order], prepend=-1) != 0)
    first = np.flatnonzero(is_new)
    found = np.empty(len(part), np.int64)
    found[order] = np.arange(len(part)) - first[np.cumsum(is_new) - 1]
    return found


def _signature(part: Ints, call: Ints, counts: Bools) -> Ints:
    """Return for each node a number that stands for those calls of its part that count, in whatever order."""
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 2**40, int(call.max(initial=-1)) + 1)
    return np.bincount(part, np.where(counts, weight[call], 0).astype(np.float64)).astype(np.int64)[part]


def _medians(values: Floats, group: Ints) -> tuple[Floats, Floats]:
    """Return for each value the median of its group, and that of the others in it; its own where it is alone.

    Of an even number it is the lower of the two in the middle, as in ``peers.peer_medians``.
    """
    order = in_few_bytes(np.lexsort((values, group)))
    ascending = values[order]
    first = in_few_bytes(np.flatnonzero(np.diff(group[order], prepend=-1)))
    n = np.diff(first, append=order.dtype.type(len(order)))
    begin, size = np.repeat(first, n), np.repeat(n, n)
    place = np.arange(len(order), dtype=order.dtype) - begin
    median = ascending[begin + (size - 1) // 2]
    middle = (size - 2) // 2
    middle = np.where(middle >= place, middle + 1, middle)
    others = np.where(size > 1, ascending[begin + np.minimum(middle, size - 1)], ascending)
    found = np.empty((2, len(order)))
    found[:, order] = median, others
    return found[0], found[1]


def _never_back(values: Floats, part: Ints) -> Floats:
    """Return the greatest value of each part up to each place."""
    span = float(np.ptp(values)) + 1.0 if len(values) else 1.0
    highest: Floats = np.maximum.accumulate(values + part * span) - part * span
    return highest


_AT_ONCE = 2**24
"""How many instants are held at once: the nodes of a program, for each time that it is played."""


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
        of_node, of_meeting = ranked(each, gives, needs, self._segments.before, program.end_s)
        self._ranks = in_few_bytes(of_node), in_few_bytes(of_meeting)
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
        player = self._in_waves if self._is_wide(own_s.shape[1]) else self._one_by_one
        begins_s = self._begins_s(own_s.shape[1])
        left_s, done_s = player.played(begins_s, own_s, program.done.took_s, program.late_s)
        met_s = done_s[segments.cuts]
        until_s = met_s[:, None] + program.late_s[segments.waits][..., None]
        if (left_s[segments.waits] > until_s + criteria.SAME_INSTANT_S).any():
            self._whole = self._whole or Replay(program, in_segments=False)
            return self._whole._played(own_s)  # some line came late by itself
        since_s = np.concatenate([np.zeros((1, own_s.shape[1])), np.cumsum(met_s, axis=0)])
        return self._ends_of_steps(left_s + since_s[segments.of_node])

    def _is_wide(self, n_times: int) -> bool:
        """Tell whether waves of nodes are so wide that arrays are faster than numbers one by one."""
        n_waves = int(self._ranks[0].max(initial=0)) + 1
        return len(self._slot) * n_times >= ENOUGH_NODES * n_waves

    @cached_property
    def _in_waves(self) -> InWaves:
        return InWaves(self._program, self._slot, self._segments.before, *self._ranks)

    @cached_property
    def _one_by_one(self) -> OneByOne:
        return OneByOne(self._program, self._slot, self._segments.before, *self._ranks)

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


# -- rank the nodes of many lines, and their meetings, in waves: one node of each line at a time ---------
# It does what ``loops.ranked`` does one by one, for runs whose lines go on side by side.


ENOUGH_NODES = 32
"""The least nodes of a wave, on average: with fewer, arrays take longer than numbers one by one."""

_FIRST_LOOK = 64  # waves, after which it is looked whether they are long enough


def ranked(line: Ints, gives: Lists, needs: Lists, before: Ints, end_s: Floats) -> tuple[Ints, Ints]:
    """Rank the nodes of all lines, and the meetings, so that each comes after what it needs.

    Args:
        line: the line of each node; those of a line follow each other, in the order of time.
        gives, needs: for each node the meetings to which it gives, and those that it needs.
        before: the meeting that each meeting comes after; -1 for none.
        end_s: when each node was left, in seconds.

    Returns:
        The rank of each node, and that of each meeting. Nodes of one rank are of different lines.
    """
    found = _Waves(line, gives, needs, before).ranks()
    if found is not None:
        return found
    of_nodes, of_meetings = ranked_one_by_one(
        line.tolist(), gives.ragged(), needs.ragged(), before.tolist(), end_s.tolist()
    )
    return np.array(of_nodes, np.int64), np.array(of_meetings, np.int64)


class _Waves:
    """The state of all lines: which node of each comes next, and how many gifts each meeting lacks."""

    def __init__(self, line: Ints, gives: Lists, needs: Lists, before: Ints) -> None:
        begins = np.flatnonzero(np.diff(line, prepend=-1))
        self._next, self._stop = begins, np.append(begins[1:], len(line))
        self._gives, self._needs, self._before = gives, needs, before
        self._to_come = np.bincount(gives.values, minlength=len(before))
        self._is_done = self._to_come == 0
        self._in_turn = np.zeros(0, np.int64)  # meetings that have come, but must follow another
        self._of_node, self._of_meeting = np.zeros(len(line), np.int64), np.zeros(len(before), np.int64)

    def ranks(self) -> tuple[Ints, Ints] | None:
        """Return the ranks of nodes and meetings; None if rows contradict each other, or waves are short."""
        n_ranked = wave = 0
        while len(self._next) or len(self._in_turn):
            nodes = self._next[self._are_ready()]
            closed = self._close(nodes, 2 * wave + 1)
            n_ranked, wave = n_ranked + len(nodes), wave + 1
            is_slow = wave > _FIRST_LOOK and n_ranked < ENOUGH_NODES * wave
            if is_slow or not (len(nodes) or closed):
                return None
        return self._of_node, self._of_meeting

    def _are_ready(self) -> Bools:
        """Tell of each line whether all that its next node needs is done."""
        owner, needed = _listed(self._needs, self._next)
        lacking = np.zeros(len(self._next), np.bool_)
        lacking[owner[~self._is_done[needed]]] = True
        return ~lacking

    def _close(self, nodes: Ints, rank: int) -> int:
        """Rank nodes just before ``rank``, and with it the meetings that are done then; return how many."""
        self._of_node[nodes] = rank - 1
        given = _listed(self._gives, nodes)[1]
        np.subtract.at(self._to_come, given, 1)
        come = np.concatenate([self._in_turn, np.unique(given[self._to_come[given] == 0])])
        before = self._before[come]
        follows = (before >= 0) & ~self._is_done[before]
        self._in_turn, done = come[follows], come[~follows]
        self._is_done[done], self._of_meeting[done] = True, rank
        gone = np.isin(self._next, nodes, assume_unique=True)
        self._next = self._next + gone
        going_on = self._next < self._stop
        self._next, self._stop = self._next[going_on], self._stop[going_on]
        return len(done)


def _listed(lists: Lists, owners: Ints) -> tuple[Ints, Ints]:
    """Return what some owners have in their lists: the place of the owner among these, and the number."""
    begin, n = lists.at[owners], lists.at[owners + 1] - lists.at[owners]
    place = np.repeat(np.arange(len(owners)), n)
    return place, lists.values[np.arange(len(place)) + np.repeat(begin - (np.cumsum(n) - n), n)]

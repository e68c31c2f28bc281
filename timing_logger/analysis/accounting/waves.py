"""Rank the nodes of many lines, and their meetings, in waves: one node of each line at a time.

It does what ``loops.ranked`` does one by one, for runs whose lines go on side by side.
"""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.accounting.loops import ranked as ranked_one_by_one
from timing_logger.analysis.accounting.nodes import Lists
from timing_logger.analysis.table_types import Bools, Floats, Ints

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

"""Divide a program where all its lines meet: what follows depends on nothing before it but when that was.

A line that has nothing to do between coming to a meeting and waiting for it leaves when all have come,
whatever it did before. If all lines do so in one meeting, what they do until the next such meeting is a
segment that can be played by itself, at the same time as all others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.nodes import Lists
from timing_logger.analysis.rows.arrays import in_few_bytes
from timing_logger.analysis.rows.table_types import Bools, Ints


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


class _Meetings(NamedTuple):
    """The segments, as far as every cut counts, in which each meeting has its first node and its last one.

    Without nodes the last is -1.
    """

    first: Ints
    last: Ints

    @classmethod
    def of(cls, of_node: Ints, ties: tuple[tuple[Ints, Ints], ...], n_meetings: int) -> _Meetings:
        first, last = np.full(n_meetings, len(of_node)), np.full(n_meetings, -1)
        for node, meeting in ties:
            np.minimum.at(first, meeting, of_node[node])
            np.maximum.at(last, meeting, of_node[node])
        return cls(np.where(last >= 0, first, 0), last)


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
    meetings = _Meetings.of(of_node, (gives.pairs(), needs.pairs()), len(before))
    follows = _that_follow(meetings, cuts, before)
    goes_across = _across(meetings, before, follows, len(cuts))
    number = np.append(0, np.cumsum(~goes_across))
    before = np.where(follows & (number[meetings.first] == number[meetings.last[before]]), before, -1)
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


def _that_follow(meetings: _Meetings, cuts: Ints, before: Ints) -> Bools:
    """Tell of each meeting whether it comes after another that may be done later than its segment begins."""
    is_cut = np.zeros(len(before), np.bool_)
    is_cut[cuts] = True
    there = (before >= 0) & (meetings.last >= 0) & (meetings.last[before] >= 0)
    return there & ~(is_cut[before] & (meetings.last[before] < meetings.first))


def _across(meetings: _Meetings, before: Ints, follows: Bools, n_cuts: int) -> Bools:
    """Tell of each cut whether a meeting has nodes on both sides, or comes after one on the other side."""
    first, last = meetings
    follow = np.flatnonzero(follows)
    spans = [
        (first[last >= 0], last[last >= 0]),
        (np.minimum(first[follow], first[before[follow]]), np.maximum(last[follow], last[before[follow]])),
    ]
    begin, end = (np.concatenate(values) for values in zip(*spans, strict=True))
    opened, closed = (np.bincount(values, minlength=n_cuts + 1) for values in (begin, end))
    return np.cumsum(opened - closed)[:n_cuts] > 0

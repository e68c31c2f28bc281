"""What a line usually takes for its own work in a step: what its peers took that did the same.

Lines are peers in a step if they have one role and began the same calls in it, in whatever order. Compared is
the own clock: how long a line was on its own account since the step began, when it came to a call. The calls
of a step may be made in another order by microseconds, so times between them could not be compared one by
one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.nodes import WAIT
from timing_logger.analysis.accounting.program import Program
from timing_logger.analysis.rows.arrays import dense_codes, in_few_bytes
from timing_logger.analysis.rows.table_types import Bools, Floats, Ints


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
    since_s, peers = _since_s(program.own_s, part), _peers(program, call, role, part)
    n_peers = in_few_bytes(np.bincount(peers) - 1)[peers]
    last = _last_with_peers(part, n_peers)
    usual_s, others_s = (since_s + (found - since_s)[last] for found in _medians(since_s, peers))
    return OwnClock(since_s, usual_s, others_s, n_peers[last], part, peers, last)


def _since_s(own_s: Floats, part: Ints) -> Floats:
    total_s = np.cumsum(own_s)
    first = np.flatnonzero(np.diff(part, prepend=-1))
    return total_s - (total_s - own_s)[first][part]


def _peers(program: Program, call: Ints, role: Ints, part: Ints) -> Ints:
    """Return for each node a number that is that of its peers."""
    alike = _alike(part, call)
    begins_something = program.kind != WAIT  # what is done already when it is waited for has no wait
    signature = _signature(part, call, begins_something)
    return in_few_bytes(dense_codes(program.step, role[program.line], signature, call, alike))


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

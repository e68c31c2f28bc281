"""Which spans of different ranks are one operation: arrows are drawn between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis._flaws import STATES, find_flaws, states
from timing_logger.analysis._frames import Bools, Floats, Ints, coded_text, dense_codes, numbers
from timing_logger.analysis._instances import find_instances
from timing_logger.analysis.operations import base_operation
from timing_logger.report._trace_rows import TraceRows

NONE = -1


class Flows(NamedTuple):
    """For each row the number of the flow that goes through it, or ``NONE``; and how.

    ``comes_in`` is true for all spans of a flow but the first to begin, ``goes_out`` for all but the last.
    """

    number: Ints
    comes_in: Bools
    goes_out: Bools

    @property
    def arrows(self) -> int:
        return int(self.goes_out.sum())


def find_flows(rows: TraceRows) -> Flows:
    """The parts of each collective from the first rank to begin to the last, and SEND to its RECV."""
    collective_row, instance = collective_parts(rows)
    message_row, message = message_parts(rows)
    row = np.concatenate([collective_row, message_row])
    number = np.concatenate([instance, message + instance.max(initial=NONE) + 1])
    drawn = rows.ended[row]
    row, number = row[drawn], number[drawn]
    order = np.lexsort((rows.start_ns[row], number))
    return _chained(row[order], number[order], len(rows.placed))


def _chained(row: Ints, number: Ints, n_rows: int) -> Flows:
    same_as_before = np.diff(number, prepend=NONE - 1) == 0
    same_as_next = np.append(same_as_before[1:], False)[: len(number)]
    flows = Flows(np.full(n_rows, NONE), np.zeros(n_rows, bool), np.zeros(n_rows, bool))
    joined = same_as_before | same_as_next
    flows.number[row[joined]] = number[joined]
    flows.comes_in[row] = same_as_before
    flows.goes_out[row] = same_as_next
    return flows


def collective_parts(rows: TraceRows) -> tuple[Ints, Ints]:
    """Rows that are a rank's part in a collective, and the number of its instance."""
    parts = find_instances(rows.frame)
    state = states(find_flaws(rows.frame, parts))[parts.instance]
    of_one_operation = state != STATES.index("mismatched")
    return parts.row[of_one_operation], parts.instance[of_one_operation]


def message_parts(rows: TraceRows) -> tuple[Ints, Ints]:
    """Rows of messages whose other side has a row too, and the number of the message.

    Messages are numbered for each sender and receiver of a group. The other rank is stated as its number
    in the group; members are taken to be numbered in the order of their ranks.
    """
    sends = rows.operation_is(lambda name: base_operation(name) == "SEND")
    receives = rows.operation_is(lambda name: base_operation(name) == "RECV")
    group = coded_text(rows.frame, "group")
    other, seq = _other_rank(rows, group), numbers(rows.frame, "seq")
    row = np.flatnonzero((sends | receives) & ~np.isnan(seq) & (other != NONE))
    sends, receives, rank, other = sends[row], receives[row], rows.rank[row], other[row]
    sender, receiver = np.where(sends, rank, other), np.where(sends, other, rank)
    incarnation = rows.frame["incarnation"].to_numpy()[row]
    message = dense_codes(group[0][row], incarnation, sender, receiver, seq[row])
    paired = ((np.bincount(message, sends) == 1) & (np.bincount(message, receives) == 1))[message]
    return row[paired], message[paired]


def _other_rank(rows: TraceRows, group: tuple[Ints, list[str]]) -> Ints:
    """``peer`` as a rank of the world; ``NONE`` where it is not known."""
    peer, size = numbers(rows.frame, "peer"), numbers(rows.frame, "group_size")
    other = np.full(len(peer), NONE)
    for code, name in enumerate(group[1]):
        if "|" in name:  # between two groups: the peer is counted in the other one
            continue
        here = np.flatnonzero(group[0] == code)
        members = _members(np.unique(rows.rank[here]), size[here])
        here = here[(peer[here] >= 0) & (peer[here] < len(members))]
        other[here] = members[peer[here].astype(np.int64)]
    return other


def _members(seen: Ints, sizes: Floats) -> Ints:
    """The ranks of a group by their number in it, as far as they can be told from those with rows."""
    size = len(seen) if np.isnan(sizes).all() else int(np.nanmax(sizes))
    if len(seen) == size:
        return seen
    return np.arange(size) if seen.max() < size else seen[:0]

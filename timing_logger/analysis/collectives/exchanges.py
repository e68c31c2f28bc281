"""Find the messages that calls which send and receive in one (``SENDRECV``) received.

A row of such a call states to which rank it sent and the number of that message, not from which rank it
received. So it is one half of a message for certain. The other half is found where only one answer is
possible:

- **Pairs exchange.** Every call received from the rank to which it sent. Then the two calls of a pair
  overlap, since neither ends before the other has begun. Ranks that shift data around a ring instead cannot
  all overlap with who they would have exchanged with: each would have to end later than the next one, all
  around the ring.
- **One sender.** All messages to a rank that no other call received come from one rank, and are as many as
  its calls of this kind: then they were received in their order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import dense_codes
from timing_logger.analysis.rows.grouping import rows_of_each
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.table_types import Bools, Floats, Frame, Ints


class Sent(NamedTuple):
    """Messages of which no row states the receipt; one entry per message.

    Attributes:
        row: position of the row that sent it.
        group: the number of its group.
        sender, receiver: ranks.
        seq: its number.
    """

    row: Ints
    group: Ints
    sender: Ints
    receiver: Ints
    seq: Floats


class MessageCalls(NamedTuple):
    """The calls that send and receive; one entry per call.

    Attributes:
        row: position of its row.
        group: the number of its group.
        rank: the rank that makes it.
        sends: whether it is known to which rank it sent.
    """

    row: Ints
    group: Ints
    rank: Ints
    sends: Bools


def received_in_calls(frame: Frame, sent: Sent, calls: MessageCalls) -> tuple[Ints, Ints]:
    """Return the rows of the messages that calls received, and for each the row of the call.

    Args:
        frame: a table that ``opened`` returned.
        sent: the messages.
        calls: all calls that send and receive.
    """
    send, receive = _in_pairs(frame, sent, calls)
    left, free = ~np.isin(sent.row, send), ~np.isin(calls.row, receive)
    others = MessageCalls._make(column[free] for column in calls)
    more = _in_order(frame, Sent._make(column[left] for column in sent), others)
    return np.concatenate([send, more[0]]), np.concatenate([receive, more[1]])


def _in_pairs(frame: Frame, sent: Sent, calls: MessageCalls) -> tuple[Ints, Ints]:
    """Match the messages of two calls of a pair with the same number, in groups where nothing contradicts."""
    of_call = np.flatnonzero(np.isin(sent.row, calls.row) & (sent.sender != sent.receiver))
    group, sender, receiver, seq = (column[of_call] for column in sent[1:])
    low, high = np.minimum(sender, receiver), np.maximum(sender, receiver)
    pair = dense_codes(group, low, high, seq)
    upwards = sender < receiver
    both = ((np.bincount(pair, upwards) == 1) & (np.bincount(pair, ~upwards) == 1))[pair]
    order = np.lexsort((~upwards, pair))
    up, down = (of_call[order[(both & side)[order]]] for side in (upwards, ~upwards))
    start_s, end_s, half_width_s = instants(frame)
    one, other = sent.row[up], sent.row[down]
    uncertainty_s = half_width_s[one] + half_width_s[other]
    later_s = np.maximum(start_s[one], start_s[other])
    first_end_s = np.minimum(end_s[one], end_s[other])
    overlap = first_end_s >= later_s - uncertainty_s  # False where clocks are not aligned
    contradicted = ~overlap & ~np.isnan(first_end_s)
    groups = np.union1d(sent.group[up][contradicted], calls.group[~calls.sends])
    accepted = overlap & ~np.isin(sent.group[up], groups)
    one, other = one[accepted], other[accepted]
    return np.concatenate([one, other]), np.concatenate([other, one])


def _in_order(frame: Frame, sent: Sent, calls: MessageCalls) -> tuple[Ints, Ints]:
    """Match the messages of the only sender of a rank with that rank's calls, in their order."""
    start_s, _, _ = instants(frame)
    key = dense_codes(
        *(np.concatenate(pair) for pair in ((sent.group, calls.group), (sent.receiver, calls.rank)))
    )
    send, receive = [sent.row[:0]], [calls.row[:0]]
    n = len(sent.row)
    for rows in rows_of_each(key):
        here = np.arange(len(key))[rows]
        messages, made = here[here < n], here[here >= n] - n
        if len(messages) == len(made) and len(np.unique(sent.sender[messages])) == 1:
            send.append(sent.row[messages[np.argsort(sent.seq[messages], kind="stable")]])
            receive.append(calls.row[made[np.argsort(start_s[calls.row[made]], kind="stable")]])
    return np.concatenate(send), np.concatenate(receive)

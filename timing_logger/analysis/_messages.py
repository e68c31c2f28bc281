"""Which rows of two ranks are one message: a send and its receive, found without looking at any clock."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis._frames import Floats, Frame, Ints, coded_text, dense_codes, each_text, numbers
from timing_logger.analysis.operations import base_operation

NONE = -1


class Messages(NamedTuple):
    """One entry for each message; the positions of its two rows in the table."""

    send: Ints
    receive: Ints


def find_messages(frame: Frame) -> Messages:
    """The messages of which both sides have a row, each exactly one.

    Messages are numbered for each sender and receiver of a group. The other rank is stated as its number
    in the group; members are taken to be numbered in the order of their ranks.
    """
    operation = coded_text(frame, "operation")
    sends = each_text(operation, lambda name: base_operation(name) == "SEND")
    receives = each_text(operation, lambda name: base_operation(name) == "RECV")
    rank, incarnation = (frame[name].to_numpy().astype(np.int64) for name in ("rank", "incarnation"))
    group = coded_text(frame, "group")
    other, seq = _other_rank(frame, rank, group), numbers(frame, "seq")
    row = np.flatnonzero((sends | receives) & ~np.isnan(seq) & (other != NONE))
    sends, receives, rank, other = sends[row], receives[row], rank[row], other[row]
    sender, receiver = np.where(sends, rank, other), np.where(sends, other, rank)
    message = dense_codes(group[0][row], incarnation[row], sender, receiver, seq[row])
    paired = ((np.bincount(message, sends) == 1) & (np.bincount(message, receives) == 1))[message]
    row, message, sends = row[paired], message[paired], sends[paired]
    return Messages(_by_message(row, message, sends), _by_message(row, message, ~sends))


def _by_message(row: Ints, message: Ints, chosen: Ints) -> Ints:
    return row[chosen][np.argsort(message[chosen], kind="stable")]


def _other_rank(frame: Frame, rank: Ints, group: tuple[Ints, list[str]]) -> Ints:
    """``peer`` as a rank of the world; ``NONE`` where it is not known."""
    peer, size = numbers(frame, "peer"), numbers(frame, "group_size")
    other = np.full(len(peer), NONE)
    for code, name in enumerate(group[1]):
        if "|" in name:  # between two groups: the peer is counted in the other one
            continue
        here = np.flatnonzero(group[0] == code)
        members = _members(np.unique(rank[here]), size[here])
        here = here[(peer[here] >= 0) & (peer[here] < len(members))]
        other[here] = members[peer[here].astype(np.int64)]
    return other


def _members(seen: Ints, sizes: Floats) -> Ints:
    """The ranks of a group by their number in it, as far as they can be told from those with rows."""
    size = len(seen) if np.isnan(sizes).all() else int(np.nanmax(sizes))
    if len(seen) == size:
        return seen
    return np.arange(size) if seen.max() < size else seen[:0]

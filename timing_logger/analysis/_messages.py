"""Which rows of two ranks are one message: a send and its receive, found without looking at any clock."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis._frames import Frame, Ints, coded_text, dense_codes, each_text, numbers
from timing_logger.analysis._group_members import NONE, ranks_by_number
from timing_logger.analysis._instances import communicators
from timing_logger.analysis.operations import base_operation


class Messages(NamedTuple):
    """One entry for each message; the positions of its two rows in the table."""

    send: Ints
    receive: Ints


def find_messages(frame: Frame, world_size: int | None) -> Messages:
    """The messages of which both sides have a row, each exactly one.

    Messages are numbered for each sender and receiver of a group. The other rank is stated as its number
    in the group; where it cannot be told which rank that is, there is no message.

    Args:
        frame: a table that ``opened`` returned.
        world_size: how many ranks the run has; None if unknown.
    """
    operation = coded_text(frame, "operation")
    sends = each_text(operation, lambda name: base_operation(name) == "SEND")
    receives = each_text(operation, lambda name: base_operation(name) == "RECV")
    rank, seq = frame["rank"].to_numpy().astype(np.int64), numbers(frame, "seq")
    group = communicators(frame)
    other = ranks_by_number(frame, numbers(frame, "peer"), group, world_size)
    row = np.flatnonzero((sends | receives) & ~np.isnan(seq) & (other != NONE))
    sends, receives, rank, other = sends[row], receives[row], rank[row], other[row]
    sender, receiver = np.where(sends, rank, other), np.where(sends, other, rank)
    message = dense_codes(group[row], sender, receiver, seq[row])
    paired = ((np.bincount(message, sends) == 1) & (np.bincount(message, receives) == 1))[message]
    row, message, sends = row[paired], message[paired], sends[paired]
    return Messages(_by_message(row, message, sends), _by_message(row, message, ~sends))


def _by_message(row: Ints, message: Ints, chosen: Ints) -> Ints:
    return row[chosen][np.argsort(message[chosen], kind="stable")]

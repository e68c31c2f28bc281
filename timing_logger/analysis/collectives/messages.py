"""Match sends with receives, and compute how long each side waited for the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.analysis import Analysis
from timing_logger.analysis.collectives.matching import communicators
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.group_members import NONE, ranks_by_number
from timing_logger.analysis.grouping import any_row_of, known_sums, quantiles, sums
from timing_logger.analysis.instants import instants
from timing_logger.analysis.operations import base_operation, goes_on
from timing_logger.analysis.part_tables import in_one_table
from timing_logger.analysis.steps import steps_of, with_epoch
from timing_logger.analysis.tables import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    new_column,
    new_columns,
    numbers,
    opened,
    taken,
)
from timing_logger.reading.lacking import stated_world_size

if TYPE_CHECKING:
    import pandas as pd

_OF_THE_SEND = "group", "seq", "iteration", "layer_name", "phase", "incarnation", "message_size_bytes"


def message_waits(timings: IntoDataFrameT) -> IntoDataFrameT:
    """Match sends with receives, and compute the time that each side waited for the other.

    A row states the other rank as its number in the group. Which rank that is can be told if all members
    have rows, if the group is the whole world (``group_size`` is the ``world_size`` in the sidecars of
    ``timings.attrs["files"]``), or if the group's name lists its members, as the names of timed
    communicators do. The messages of other groups are left out.

    The definitions are Scalasca's. What compares the instants of the two ranks is NaN if the clock of one
    of them is not aligned (``clock_uncertainty_s`` is NaN or missing). A wait is NaN where the operation of
    that side is non-blocking: nobody waits in an ``ISEND`` or ``IRECV``.

    Args:
        timings: a table of timings, as ``read_timings`` returns.

    Returns:
        One row for each message of which both sides have exactly one row, by group, sender and receiver.

    Columns:
        group, seq, iteration, layer_name, phase, incarnation, message_size_bytes: of the send;
            ``epoch`` beside the iteration only where iterations restart.
        sender, receiver: ranks of the two sides.
        send_ms, receive_ms: time that each side took.
        late_sender_ms: how long the receiver waited for the send to begin, from 0 to ``receive_ms``.
        late_receiver_ms: how long the sender was in its send before the receive began, from 0 to
            ``send_ms``. A buffered send does not need the receiver, and then this time was no wait.
        clock_violation: whether the receive ended before the send began, by more than ``uncertainty_ms``.
        uncertainty_ms: how far the difference between instants of the two ranks may be off.
        send_row, receive_row: positions in ``timings`` (int64).
    """
    frame = opened(timings)
    messages = find_messages(frame, stated_world_size(getattr(timings, "attrs", {}).get("files", [])))
    rank = frame["rank"].to_numpy().astype(np.int64)
    epoch = steps_of(frame).columns(frame, messages.send)
    sent = taken(frame, _OF_THE_SEND, messages.send).with_columns(*epoch.values())
    table = sent.select(*with_epoch(_OF_THE_SEND, epoch)).with_columns(
        new_column(frame, "sender", rank[messages.send]),
        new_column(frame, "receiver", rank[messages.receive]),
        *new_columns(frame, _figures(frame, messages)),
        new_column(frame, "send_row", messages.send),
        new_column(frame, "receive_row", messages.receive),
    )
    return cast("IntoDataFrameT", table.to_native())


def _figures(frame: Frame, messages: Messages) -> dict[str, Floats | Bools]:
    start_s, end_s, half_width_s = instants(frame)
    elapsed_ms = numbers(frame, "elapsed_ms")
    in_background = each_text(coded_text(frame, "operation"), goes_on)
    send, receive = messages
    uncertainty_s = half_width_s[send] + half_width_s[receive]
    receive_began_first_s = start_s[send] - start_s[receive] + 0 * uncertainty_s  # NaN if not aligned
    send_ms, receive_ms = elapsed_ms[send], elapsed_ms[receive]
    late_sender_ms = np.clip(1e3 * receive_began_first_s, 0.0, receive_ms)
    late_receiver_ms = np.clip(-1e3 * receive_began_first_s, 0.0, send_ms)
    return {
        "send_ms": send_ms,
        "receive_ms": receive_ms,
        "late_sender_ms": np.where(in_background[receive], np.nan, late_sender_ms),
        "late_receiver_ms": np.where(in_background[send], np.nan, late_receiver_ms),
        "clock_violation": start_s[send] - end_s[receive] > uncertainty_s,
        "uncertainty_ms": 1e3 * uncertainty_s,
    }


_OF_MESSAGES = ("group", "sender", "receiver")


def summarize_messages(messages: IntoDataFrameT) -> IntoDataFrameT:
    """Summarize messages by group, sender and receiver.

    Args:
        messages: as :func:`timing_logger.analysis.message_waits` returns.

    Returns:
        One row for each group, sender and receiver, in ascending order.

    Columns:
        group, sender, receiver.
        count: number of messages.
        bytes: sum of their sizes (NaN if none is known).
        send_ms, receive_ms: medians over the messages.
        late_sender_ms, late_receiver_ms: sums over the messages (NaN if no message has one).
        clock_violations: number of messages whose rows contradict the clocks.
        uncertainty_ms: the largest over the messages.
    """
    frame = opened(messages, _OF_MESSAGES, by_rank=False)
    key = dense_codes(coded_text(frame, "group")[0], numbers(frame, "sender"), numbers(frame, "receiver"))
    row = any_row_of(key)
    n = len(row)
    violates = frame["clock_violation"].to_numpy().astype(np.float64)
    figures = {
        "count": np.bincount(key, minlength=n),
        "bytes": known_sums(numbers(frame, "message_size_bytes"), key, n),
        **{name: quantiles(numbers(frame, name), key, n, [0.5])[0] for name in ("send_ms", "receive_ms")},
        **{name: known_sums(numbers(frame, name), key, n) for name in ("late_sender_ms", "late_receiver_ms")},
        "clock_violations": sums(violates, key, n).astype(np.int64),
        "uncertainty_ms": quantiles(numbers(frame, "uncertainty_ms"), key, n, [1.0])[0],
    }
    table = taken(frame, _OF_MESSAGES, row).with_columns(*new_columns(frame, figures))
    return cast("IntoDataFrameT", table.to_native())


# -- from parts --------------------------------------------------------------------------------------


def messages_and_groups(timings: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows of messages, and as few other rows as tell the ranks and the size of each group."""
    named = coded_text(opened(timings, ("operation",)), "operation")
    is_message = each_text(named, lambda name: base_operation(name) in ("SEND", "RECV"))
    tells = ~timings.duplicated(["rank", "incarnation", "group", "group_size"]).to_numpy()
    kept: pd.DataFrame = timings[tells | is_message].reset_index(drop=True)
    kept.attrs = timings.attrs  # sidecars tell how many ranks there are
    return kept


def _summed(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    found: pd.DataFrame = summarize_messages(message_waits(in_one_table(tables)))
    return found


MESSAGES = Analysis(COLUMNS_OF["waits"], messages_and_groups, _summed)
"""The analysis ``summarize_messages(message_waits(timings))``: a part holds the rows of messages."""


class Messages(NamedTuple):
    """The positions of the two rows of each message in the table; one entry per message."""

    send: Ints
    receive: Ints


def find_messages(frame: Frame, world_size: int | None) -> Messages:
    """Find the messages of which both sides have exactly one row.

    Messages are numbered for each sender and receiver of a group. The other rank is stated as its number
    in the group; messages for which it cannot be told which rank that is are left out.

    Args:
        frame: a table that ``opened`` returned.
        world_size: the number of ranks in the run; None if unknown.
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

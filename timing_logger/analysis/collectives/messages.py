"""Match sends with receives, and compute how long each side waited for the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.rows.analysis import COLUMNS_OF, ByProcess
from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    numbers,
    processes_of,
)
from timing_logger.analysis.rows.group_members import NONE, communicators, ranks_by_number
from timing_logger.analysis.rows.grouping import any_row_of, known_sums, quantiles, rows_of_each, sums
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.operations import base_operation, goes_on, is_wait
from timing_logger.analysis.rows.steps import steps_of, with_epoch
from timing_logger.analysis.rows.tables import in_one_table, new_column, new_columns, opened, taken
from timing_logger.reading.named_ranks import stated_world_size


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
    more = _of_only_senders(frame, Sent._make(column[left] for column in sent), others)
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


def _of_only_senders(frame: Frame, sent: Sent, calls: MessageCalls) -> tuple[Ints, Ints]:
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


_OF_THE_SEND = "group", "seq", "iteration", "layer_name", "phase", "incarnation", "message_size_bytes"


def message_waits(timings: IntoDataFrameT) -> IntoDataFrameT:
    """Match sends with receives, and compute the time that each side waited for the other.

    A row states the other rank as its number in the group. Which rank that is can be told if all members
    have rows, if the group is the whole world (``group_size`` is the ``world_size`` in the sidecars of
    ``timings.attrs["files"]``), or if the group's name lists its members, as the names of timed
    communicators do. The messages of other groups are left out.

    A ``SENDRECV`` is the send of one message and the receive of another, and its time that of both. Its row
    states to whom it sent. From whom it received is not recorded: it is taken to be the same rank where that
    contradicts no row of the group, or else the only rank of which the messages remain; where neither holds,
    as in a halo exchange with two neighbours or more, the message is left out.

    The definitions are Scalasca's. What compares the instants of the two ranks is NaN if the clock of one
    of them is not aligned (``clock_uncertainty_s`` is NaN or missing). Nobody waits in an ``ISEND`` or
    ``IRECV``, but in the ``WAIT`` row for it: that counts there, and without one the wait is NaN.

    Args:
        timings: a table of timings, as ``read_timings`` returns.

    Returns:
        One row for each message of which both sides have exactly one row, by group, sender and receiver.

    Columns:
        group, seq, iteration, layer_name, phase, incarnation, message_size_bytes: of the send;
            ``epoch`` beside the iteration only where iterations restart.
        sender, receiver: ranks of the two sides.
        send_ms, receive_ms: time that each side took.
        late_sender_ms: how long the receiver waited for the send to begin, from 0 to ``receive_ms``, or to
            the length of the ``WAIT``.
        late_receiver_ms: how long the sender was in its send, or the ``WAIT`` for it, before the receive
            began. A buffered send does not need the receiver, and then this time was no wait.
        clock_violation: whether the receive ended before the send began, by more than ``uncertainty_ms``.
        uncertainty_ms: how far the difference between instants of the two ranks may be off.
        send_row, receive_row: positions in ``timings`` (int64).
    """
    frame = opened(timings)
    world_size = stated_world_size(getattr(timings, "attrs", {}).get("files", []))
    send, receive = find_messages(frame, world_size, exchanges=True)
    rank = frame["rank"].to_numpy().astype(np.int64)
    order = np.lexsort((numbers(frame, "seq")[send], rank[receive], rank[send], communicators(frame)[send]))
    messages = Messages(send[order], receive[order])
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
    blocked_from_s, blocked_ms = blocked_by(frame, np.concatenate(messages), start_s, end_s, elapsed_ms)
    send, receive = messages
    uncertainty_s = half_width_s[send] + half_width_s[receive]
    of_send, of_receive = np.arange(len(send)), len(send) + np.arange(len(send))
    comparable = 0 * uncertainty_s  # NaN if not aligned
    sender_came_ms = 1e3 * (start_s[send] - blocked_from_s[of_receive] + comparable)
    receiver_came_ms = 1e3 * (start_s[receive] - blocked_from_s[of_send] + comparable)
    return {
        "send_ms": elapsed_ms[send],
        "receive_ms": elapsed_ms[receive],
        "late_sender_ms": np.clip(sender_came_ms, 0.0, blocked_ms[of_receive]),
        "late_receiver_ms": np.clip(receiver_came_ms, 0.0, blocked_ms[of_send]),
        "clock_violation": start_s[send] - end_s[receive] > uncertainty_s,
        "uncertainty_ms": 1e3 * uncertainty_s,
    }


def blocked_by(
    frame: Frame, row: Ints, start_s: Floats, end_s: Floats, elapsed_ms: Floats
) -> tuple[Floats, Floats]:
    """Return from when on, and for how many ms, the thread of each row was blocked by its operation.

    That is the row itself, or the ``WAIT`` for an operation in the background; NaN without one. A send and a
    receive of one rank may have the same number and peer; the ``WAIT`` of either ends with it.
    """
    operation = coded_text(frame, "operation")
    by = np.where(each_text(operation, goes_on)[row], NONE, row)
    wait = np.flatnonzero(each_text(operation, is_wait) & ~np.isnan(numbers(frame, "seq")))
    background = np.flatnonzero(by == NONE)
    if len(wait) and len(background):
        both = np.concatenate([row[background], wait])
        of_number = (numbers(frame, name)[both] for name in ("seq", "peer"))
        key = dense_codes(processes_of(frame)[both], communicators(frame)[both], *of_number)
        asked, key = key[: len(background)], key[len(background) :]
        order = np.argsort(key, kind="stable")
        first = np.searchsorted(key[order], asked)
        n_waits = np.bincount(key, minlength=asked.max() + 1)[asked]
        best_s = np.full(len(asked), np.inf)
        for i in range(n_waits.max()):
            candidate = wait[order[np.minimum(first + i, len(order) - 1)]]
            apart_s = np.where(i < n_waits, abs(end_s[candidate] - end_s[row[background]]), np.inf)
            nearer = apart_s < best_s
            by[background[nearer]], best_s[nearer] = candidate[nearer], apart_s[nearer]
    known = by != NONE
    return np.where(known, start_s[by], np.nan), np.where(known, elapsed_ms[by], np.nan)


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
    """Keep the rows of messages, of waits for them, and the few that tell ranks and size of each group."""
    named = coded_text(opened(timings, ("operation",)), "operation")
    is_message = each_text(named, lambda name: base_operation(name) in ("SEND", "RECV", "SENDRECV"))
    of_message = timings["seq"].notna() & timings["peer"].notna()
    is_message |= each_text(named, is_wait) & of_message.to_numpy()
    tells = ~timings.duplicated(["rank", "incarnation", "group", "group_size"]).to_numpy()
    kept: pd.DataFrame = timings[tells | is_message].reset_index(drop=True)
    kept.attrs = timings.attrs  # sidecars tell how many ranks there are
    return kept


def _summed(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return summarize_messages(message_waits(in_one_table(tables)))


MESSAGES = ByProcess(COLUMNS_OF["waits"], messages_and_groups, _summed)
"""The analysis ``summarize_messages(message_waits(timings))``: a part holds the rows of messages."""


class Messages(NamedTuple):
    """The positions of the two rows of each message in the table; one entry per message."""

    send: Ints
    receive: Ints


def find_messages(frame: Frame, world_size: int | None, *, exchanges: bool = False) -> Messages:
    """Find the messages of which both sides have exactly one row.

    Messages are numbered for each sender and receiver of a group. The other rank is stated as its number
    in the group; messages for which it cannot be told which rank that is are left out.

    Args:
        frame: a table that ``opened`` returned.
        world_size: the number of ranks in the run; None if unknown.
        exchanges: whether to find those that a ``SENDRECV`` sent or received, too, so that a row may be of
            two messages. From whom one received is not stated, see
            :mod:`timing_logger.analysis.collectives.messages`.
    """
    operation = coded_text(frame, "operation")
    is_exchange = each_text(operation, lambda name: exchanges and base_operation(name) == "SENDRECV")
    sends = each_text(operation, lambda name: base_operation(name) == "SEND") | is_exchange
    receives = each_text(operation, lambda name: base_operation(name) == "RECV")
    rank, seq = frame["rank"].to_numpy().astype(np.int64), numbers(frame, "seq")
    group = communicators(frame)
    other = ranks_by_number(frame, numbers(frame, "peer"), group, world_size)
    row = np.flatnonzero((sends | receives) & ~np.isnan(seq) & (other != NONE))
    sends, receives, of_rank, other = sends[row], receives[row], rank[row], other[row]
    sender, receiver = np.where(sends, of_rank, other), np.where(sends, other, of_rank)
    message = dense_codes(group[row], sender, receiver, seq[row])
    n_sends, n_receives = np.bincount(message, sends), np.bincount(message, receives)
    paired = ((n_sends == 1) & (n_receives == 1))[message]
    order = np.flatnonzero(paired)[np.argsort(message[paired], kind="stable")]
    found = Messages(*(row[order[side[order]]] for side in (sends, receives)))
    if not is_exchange.any():
        return found
    alone = ((n_sends == 1) & (n_receives == 0))[message]
    sent = Sent(*(column[alone] for column in (row, group[row], sender, receiver, seq[row])))
    call = np.flatnonzero(is_exchange)
    calls = MessageCalls(call, group[call], rank[call], np.isin(call, row))
    return Messages(*map(np.concatenate, zip(found, received_in_calls(frame, sent, calls), strict=True)))

"""Sends and receives: which belong together, and which side waited for the other."""

from __future__ import annotations

from typing import cast

import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis._frames import (
    Bools,
    Floats,
    Frame,
    coded_text,
    each_text,
    new_column,
    numbers,
    opened,
    taken,
)
from timing_logger.analysis._group_members import stated_world_size
from timing_logger.analysis._messages import Messages, find_messages
from timing_logger.analysis._steps import steps_of, with_epoch
from timing_logger.analysis.matching import instants
from timing_logger.analysis.operations import goes_on

_OF_THE_SEND = "group", "seq", "iteration", "layer_name", "phase", "incarnation", "message_size_bytes"


def message_waits(timings: IntoDataFrameT) -> IntoDataFrameT:
    """One row for each message of which both sides have exactly one row, by group, sender and receiver.

    A row states the other rank as its number in the group. Which rank that is can be told if all members
    have rows, if the group is the whole world (``group_size`` is the ``world_size`` in the sidecars of
    ``timings.attrs["files"]``), or if its name lists them, as those of timed communicators do; else no
    message of the group is told.

    The definitions are Scalasca's. What compares the instants of the two ranks is NaN if the clock of one
    of them is not aligned (``clock_uncertainty_s`` NaN or not there), and a wait is NaN where that side
    goes on in the background: nobody waits in an ``ISEND`` or ``IRECV``.

    Columns:
        group, seq, iteration, layer_name, phase, incarnation, message_size_bytes: of the send;
            ``epoch`` beside the iteration only where iterations restart.
        sender, receiver: their ranks.
        send_ms, receive_ms: what each side took.
        late_sender_ms: how long the receiver waited for the send to begin, from 0 to ``receive_ms``.
        late_receiver_ms: how long the sender was in its send before the receive began, from 0 to
            ``send_ms``; a send that is buffered does not need the receiver, and then did not wait.
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
        *(new_column(frame, name, values) for name, values in _figures(frame, messages).items()),
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

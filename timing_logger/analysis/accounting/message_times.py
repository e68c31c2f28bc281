"""How long each message took, as far as its two rows show it.

A message takes from when its sender came, or both sides did if the sender waits for the receiver, until the
receiver has it. A receiver that comes after a sender that does not wait may find the message there, or on its
way: then its row does not show how long that took. It does if it takes clearly longer than a whole message.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.axis import OneAxis
from timing_logger.analysis.accounting.ties import senders_are_held
from timing_logger.analysis.arrays import coded_text, dense_codes, each_text, numbers
from timing_logger.analysis.collectives.bandwidth import size_classes
from timing_logger.analysis.collectives.messages import Messages, blocked_by
from timing_logger.analysis.grouping import quantiles
from timing_logger.analysis.intervals import instants
from timing_logger.analysis.operations import base_operation, goes_on
from timing_logger.analysis.table_types import Bools, Floats, Frame, Ints

_SAME_S = 1e-7  # ends this close are one
_QUICK = 0.1  # this share of a link's messages are the quick ones
_CLEARLY = 1.5  # a late receiver that waits so many times as long as quick messages take waits for all of it


class MessageTimes(NamedTuple):
    """The times of messages; one entry per message.

    Attributes:
        took_s: how long it took, in seconds; NaN where its rows do not show it.
        by_itself: whether they show it since the receiver had come before the message could arrive, or the
            sender waits for the receiver.
    """

    took_s: Floats
    by_itself: Bools


def message_times(axis: OneAxis, messages: Messages, process: Ints) -> MessageTimes:
    """Return how long each message took.

    Args:
        axis: the rows on the time axis of all ranks.
        messages: the messages.
        process: the process of each row.
    """
    send, receive = messages
    start_s, end_s, _ = instants(axis.frame)
    operation = coded_text(axis.frame, "operation")
    exchanges = each_text(operation, lambda name: base_operation(name) == "SENDRECV")
    held = senders_are_held(axis.frame, messages, start_s, end_s) & ~exchanges[send]
    took_s = end_s[receive] - np.maximum(start_s[send], start_s[receive])
    sent_alone, received_alone = _ended_alone(axis.frame, messages, process, end_s)
    sending_s = np.where(sent_alone, end_s[send] - start_s[send], 0.0)
    alone = received_alone | (_CLEARLY * sending_s >= took_s)
    by_itself = alone & (held | (start_s[receive] <= start_s[send]))
    clearly_s = _CLEARLY * _quick_s(took_s, by_itself, links_of(axis.frame, messages))
    is_clear = received_alone & ~exchanges[receive] & (took_s >= clearly_s)
    return MessageTimes(np.where(by_itself | is_clear, took_s, np.nan), by_itself)


def links_of(frame: Frame, messages: Messages) -> Ints:
    """Number the links of messages: equally large ones from one rank to another are of one link."""
    rank = frame["rank"].to_numpy()
    size = size_classes(numbers(frame, "message_size_bytes")[messages.send])
    return dense_codes(rank[messages.send], rank[messages.receive], size)


def _quick_s(took_s: Floats, shows: Bools, link: Ints) -> Floats:
    """Return for each message how long the quick ones of its link take; NaN where none shows it."""
    n_links = int(link.max(initial=-1)) + 1
    return quantiles(np.where(shows, took_s, np.nan), link, n_links, [_QUICK])[0][link]


def _ended_alone(frame: Frame, messages: Messages, process: Ints, end_s: Floats) -> tuple[Bools, Bools]:
    """Tell of the send and of the receive of each message whether its row shows when it ended.

    What one call waits for ends with it in its rows, and so does what was done while a call before waited for
    another: then it is that other that took as long.
    """
    both = np.concatenate(messages)
    start_s, _, _ = instants(frame)
    beside = each_text(coded_text(frame, "operation"), goes_on)[both]
    _, blocked_ms = blocked_by(frame, both, start_s, end_s, numbers(frame, "elapsed_ms"))
    blocks = beside & (blocked_ms > 1e3 * _SAME_S)
    together = dense_codes(process[both], np.rint(end_s[both] / _SAME_S))
    n, n_blocking = np.bincount(together), np.bincount(together, blocks)
    alone = ~beside | (n[together] == 1) | (blocks & (n_blocking[together] == 1))
    sent, received = np.split(alone, 2)
    return sent, received

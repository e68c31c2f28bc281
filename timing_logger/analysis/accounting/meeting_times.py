"""How long each meeting took once all that it needed had come, as the rows show it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.axis import OneAxis
from timing_logger.analysis.accounting.lines import PROCESS
from timing_logger.analysis.accounting.nodes import Lists
from timing_logger.analysis.accounting.part import BLOCKS
from timing_logger.analysis.accounting.run import TiedRows
from timing_logger.analysis.accounting.ties import senders_are_held
from timing_logger.analysis.collectives.bandwidth import size_classes
from timing_logger.analysis.collectives.messages import Messages, blocked_by
from timing_logger.analysis.rows.arrays import coded_text, dense_codes, each_text, numbers
from timing_logger.analysis.rows.grouping import least_of_each, quantiles
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.operations import base_operation, goes_on
from timing_logger.analysis.rows.table_types import Bools, Floats, Frame, Ints
from timing_logger.results import criteria


class Done(NamedTuple):
    """The times of meetings; one entry per meeting.

    Attributes:
        took_s: how long it took, once all had come that were needed and the one before it was done.
        before: the meeting that comes before it in its group however early all have come; -1 for none. Groups
            do what they have in the background one after the other.
        at_s: when it was done, in seconds.
    """

    took_s: Floats
    before: Ints
    at_s: Floats


def meeting_times(run: TiedRows, end_s: Floats, gives: Lists, needs: Lists) -> Done:
    """Return the times of all meetings of a program.

    Args:
        run: the rows of communication.
        end_s: when each node was left; for one that begins something when it did.
        gives, needs: the meetings to which each node gives, and those that it needs.
    """
    n = 2 * len(run.met.parts.first) + len(run.met.messages.send)  # see Ties.meeting
    giving, needing = (np.repeat(np.arange(len(end_s)), np.diff(lists.at)) for lists in (gives, needs))
    came_s, left_s = np.full(n, -np.inf), np.full(n, np.inf)
    np.maximum.at(came_s, gives.values, end_s[giving])
    np.minimum.at(left_s, needs.values, end_s[needing])
    in_background, ended_s = _in_background(run, n)
    done_s = np.where(in_background & ~np.isnan(ended_s), ended_s, left_s)
    before = _one_after_the_other(run, in_background, done_s)
    came_s = np.where(before >= 0, np.maximum(came_s, done_s[before]), came_s)
    took_s = np.where(np.isfinite(done_s) & np.isfinite(came_s), np.maximum(done_s - came_s, 0.0), 0.0)
    took_s = _at_most_usual(run, took_s)
    at_s = np.where(np.isfinite(came_s), came_s + took_s, -np.inf)
    return Done(took_s, before, at_s)


def _in_background(run: TiedRows, n: int) -> tuple[Bools, Floats]:
    """Tell of each meeting whether it went on beside the lines, and when its rows say that it ended."""
    _, end_s, _ = instants(run.axis.frame)
    beside = ~run.axis.frame[BLOCKS].to_numpy()[run.ties.row]
    meeting, row = run.ties.meeting[beside], run.ties.row[beside]
    ended_s = least_of_each(end_s[row], meeting, n)
    return np.bincount(meeting, minlength=n) > 0, ended_s


def _one_after_the_other(run: TiedRows, in_background: Bools, done_s: Floats) -> Ints:
    """Return for each collective in the background the one before it in its group; -1 for none."""
    parts = run.met.parts
    found = np.full(len(done_s), -1)
    here = np.flatnonzero(in_background[: len(parts.first)])
    if not len(here):
        return found
    communicator = parts.communicator[parts.first[here]]
    order = np.lexsort((done_s[here], communicator))
    here, communicator = here[order], communicator[order]
    follows = communicator[1:] == communicator[:-1]
    found[here[1:][follows]] = here[:-1][follows]
    return found


def _at_most_usual(run: TiedRows, took_s: Floats) -> Floats:
    """Return the times, those of messages whose rows do not show them as their link usually takes at most."""
    messages = run.met.messages
    if not len(messages.send):
        return took_s
    link, n_collectives = links_of(run.axis.frame, messages), len(run.met.parts.first)
    shows = message_times(run.axis, messages, run.axis.frame[PROCESS].to_numpy()).by_itself
    of_messages = took_s[n_collectives : n_collectives + len(link)]
    usual = quantiles(np.where(shows, of_messages, np.nan), link, int(link.max()) + 1, [0.5])[0][link]
    limited = np.where(shows, of_messages, np.minimum(of_messages, np.nan_to_num(usual)))
    return np.concatenate([took_s[:n_collectives], limited, took_s[n_collectives + len(link) :]])


# -- how long each message took, as far as its two rows show it ------------------------------------------
# A message takes from when its sender came, or both sides did if the sender waits for the receiver, until
# the receiver has it. A receiver that comes after a sender that does not wait may find the message there,
# or on its way: then its row does not show how long that took. It does if it takes clearly longer than a
# whole message.


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
    alone = received_alone | (criteria.LATE_RECEIVER_TIMES * sending_s >= took_s)
    by_itself = alone & (held | (start_s[receive] <= start_s[send]))
    clearly_s = criteria.LATE_RECEIVER_TIMES * _quick_s(took_s, by_itself, links_of(axis.frame, messages))
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
    return quantiles(np.where(shows, took_s, np.nan), link, n_links, [criteria.QUICK_MESSAGES_QUANTILE])[0][
        link
    ]


def _ended_alone(frame: Frame, messages: Messages, process: Ints, end_s: Floats) -> tuple[Bools, Bools]:
    """Tell of the send and of the receive of each message whether its row shows when it ended.

    What one call waits for ends with it in its rows, and so does what was done while a call before waited for
    another: then it is that other that took as long.
    """
    both = np.concatenate(messages)
    start_s, _, _ = instants(frame)
    beside = each_text(coded_text(frame, "operation"), goes_on)[both]
    _, blocked_ms = blocked_by(frame, both, start_s, end_s, numbers(frame, "elapsed_ms"))
    blocks = beside & (blocked_ms > 1e3 * criteria.SAME_INSTANT_S)
    together = dense_codes(process[both], np.rint(end_s[both] / criteria.SAME_INSTANT_S))
    n, n_blocking = np.bincount(together), np.bincount(together, blocks)
    alone = ~beside | (n[together] == 1) | (blocks & (n_blocking[together] == 1))
    sent, received = np.split(alone, 2)
    return sent, received

"""Tie rows of communication to what they meet in: which rows others need to have come, and which wait.

Who is needed depends on the operation. Where all ranks need each other, the last to arrive lets everybody go.
In a rooted operation the others need the root, or the root needs the others. A receive needs the send; a send
needs the receive only if the rows show that senders are held until their receivers come (rendezvous, and not
eager).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.collectives.matching import Instances, is_root, with_bytes
from timing_logger.analysis.collectives.messages import Messages
from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    numbers,
)
from timing_logger.analysis.rows.grouping import sums
from timing_logger.analysis.rows.intervals import instants, waited_for
from timing_logger.analysis.rows.operations import (
    ALL_TO_ALL,
    FROM_ROOT,
    MAY_SYNCHRONISE,
    TO_ROOT,
    is_communication,
    is_wait,
)
from timing_logger.results import criteria

NOBODY = -1
"""In place of a row: none was needed, or it is unknown which."""


class Meetings(NamedTuple):
    """The rows of communication of a run, and what they are parts of.

    Attributes:
        frame: the table of rows, with the columns that ``part.map_communication`` adds; processes and lines
            are numbered throughout.
        parts: the collectives of which two ranks or more have rows that fit.
        is_whole: for each of these whether all ranks have.
        messages: the messages of which both rows are known.
    """

    frame: Frame
    parts: Instances
    is_whole: Bools
    messages: Messages


class OneAxis(NamedTuple):
    """A table whose instants can be compared across ranks.

    Attributes:
        frame: the table, with ``start_s`` and ``end_s`` on one axis for all processes that met.
        clocks: for each row a number of the clocks that are compared with its own, directly or through
            others.
        by_rows: whether it was the rows themselves that told how far some clocks are apart.
    """

    frame: Frame
    clocks: Ints
    by_rows: bool


class TiedRows(NamedTuple):
    """The rows of communication of a run, and what they waited for.

    Attributes:
        met: the rows, and what they are parts of.
        axis: the rows on the time axis of all ranks.
        ties: the ties of rows to what they meet in.
        needs: what the rows waited for.
    """

    met: Meetings
    axis: OneAxis
    ties: Ties
    needs: Needs


class Ties(NamedTuple):
    """The ties of rows to meetings, that is, to collectives and messages; one entry per tie.

    Attributes:
        row: the row.
        meeting: the number of the meeting: that of the collective among all instances; after these that of
            the message; and after these again that of the collective, for those who are held in it by the
            others though they only give to them (see ``_of_the_held``).
        gives: whether others need the row's rank to have come.
        needs: whether the row needs those to have come that give.
    """

    row: Ints
    meeting: Ints
    gives: Bools
    needs: Bools


class Needs(NamedTuple):
    """What each row of a table waited for; one entry per row.

    Attributes:
        until_s: when the last that was needed had come; the row's own start if nobody was needed; NaN where
            it is unknown who was.
        row: the row of the last that was needed; ``NOBODY`` if none was, or it is unknown.
    """

    until_s: Floats
    row: Ints


def ties_of(frame: Frame, parts: Instances, messages: Messages) -> Ties:
    """Tie the rows of a table to what they meet in.

    Args:
        frame: a table with all rows on one axis.
        parts: its complete collectives.
        messages: its messages of which both rows are known.
    """
    start_s, end_s, _ = instants(frame)
    found = [
        *_of_collectives(frame, parts, start_s, end_s, len(messages.send)),
        *_of_messages(frame, messages, start_s, end_s, len(parts.first)),
    ]
    ties = Ties._make(np.concatenate(column) for column in zip(*found, strict=True))
    return _with_waits(frame, ties)


def needs_of(ties: Ties, start_s: Floats) -> Needs:
    """Find for each row until when it waited, and for which row.

    Args:
        ties: the ties of the rows.
        start_s: when each row began, in seconds.
    """
    found = Needs(np.full(len(start_s), np.nan), np.full(len(start_s), NOBODY))
    found.until_s[ties.row] = start_s[ties.row]
    last = np.full(int(ties.meeting.max(initial=-1)) + 1, NOBODY)
    giving = np.flatnonzero(ties.gives)
    giving = giving[np.argsort(start_s[ties.row[giving]], kind="stable")]
    last[ties.meeting[giving]] = ties.row[giving]
    needing = np.flatnonzero(ties.needs)
    by = last[ties.meeting[needing]]
    needing, by = needing[by >= 0], by[by >= 0]
    latest_last = np.argsort(start_s[by], kind="stable")
    row, by = ties.row[needing][latest_last], by[latest_last]
    found.until_s[row], found.row[row] = start_s[by], by
    return found


# -- collectives ---------------------------------------------------------------------------------------


def _of_collectives(
    frame: Frame, parts: Instances, start_s: Floats, end_s: Floats, n_messages: int
) -> Iterator[Ties]:
    instance = parts.for_parts(np.arange(len(parts.first)))
    start_s, end_s = start_s[parts.row], end_s[parts.row]
    counts, root = with_bytes(frame, parts), is_root(frame, parts)
    has_root = parts.for_parts(sums(root.astype(np.float64), instance, len(parts.first)) > 0)
    is_rooted, may_hold = parts.is_one_of(FROM_ROOT | TO_ROOT), parts.is_one_of(MAY_SYNCHRONISE)
    holds_all = (is_rooted | may_hold) & _holds_all(parts, instance, start_s, end_s)
    everybody = counts & (parts.is_one_of(ALL_TO_ALL) | holds_all)
    rooted = is_rooted & has_root & ~holds_all
    from_root, to_root = (rooted & parts.is_one_of(kind) for kind in (FROM_ROOT, TO_ROOT))
    gives = everybody | (from_root & root) | (to_root & ~root)
    needs = everybody | (from_root & ~root) | (to_root & root)
    known = gives | needs | (may_hold & ~holds_all)
    yield Ties(parts.row[known], instance[known], gives[known], needs[known])
    held = _of_the_held(parts, gives & rooted, needs & rooted, start_s, end_s)
    yield held._replace(meeting=held.meeting + len(parts.first) + n_messages)


def _of_the_held(parts: Instances, gives: Bools, needs: Bools, start_s: Floats, end_s: Floats) -> Ties:
    """Tie those who give in rooted operations to those who need them, where rows show that they are held.

    Who sends to a root may have to wait until that has come (rendezvous), and a root for its receivers.

    Args:
        parts: the collectives.
        gives, needs: for each part whether it gives, or needs.
        start_s, end_s: for each part when it began and ended.
    """
    instance = parts.for_parts(np.arange(len(parts.first)))
    came_s = np.full(len(parts.first), -np.inf)
    np.fmax.at(came_s, instance[needs], start_s[needs])
    shows = gives & (came_s[instance] > start_s + criteria.SEEN_HELD_S)
    is_held = shows & (end_s >= came_s[instance])
    kind = dense_codes(parts.communicator, parts.operation)
    n_kinds = int(kind.max(initial=-1)) + 1
    n_shown, n_held = (sums(seen.astype(np.float64), kind, n_kinds) for seen in (shows, is_held))
    tied = (gives | needs) & (n_held > criteria.MOST_SHARE * np.maximum(n_shown, 1))[kind]
    return Ties(parts.row[tied], instance[tied], needs[tied], gives[tied])


def _holds_all(parts: Instances, instance: Ints, start_s: Floats, end_s: Floats) -> Bools:
    """Tell for each part whether its operation holds everybody, as far as the rows of its group show.

    A rooted operation, or one on a file, lets some go before others come. It may be implemented so that
    nobody does; then nobody is ever seen to leave before the last has come.
    """
    last_s = np.full(len(parts.first), -np.inf)
    np.fmax.at(last_s, instance, start_s)
    left_before = (end_s < last_s[instance] - criteria.SEEN_HELD_S).astype(np.float64)
    came_before = (start_s < last_s[instance] - criteria.SEEN_HELD_S).astype(np.float64)
    kind = dense_codes(parts.communicator, parts.operation)
    n_kinds = int(kind.max(initial=-1)) + 1
    shows, contradicts = (sums(seen, kind, n_kinds) > 0 for seen in (came_before, left_before))
    return (shows & ~contradicts)[kind]


# -- messages ------------------------------------------------------------------------------------------


def _of_messages(
    frame: Frame, messages: Messages, start_s: Floats, end_s: Floats, first: int
) -> Iterator[Ties]:
    send, receive = messages
    number, yes = first + np.arange(len(send)), np.ones(len(send), np.bool_)
    held = senders_are_held(frame, messages, start_s, end_s)
    yield Ties(send, number, yes, held)
    yield Ties(receive, number, held, yes)


def senders_are_held(frame: Frame, messages: Messages, start_s: Floats, end_s: Floats) -> Bools:
    """Tell for each message whether its sender is held until the receiver comes.

    Where receivers of a pair of ranks never came late enough to show it, senders are taken to be free.
    """
    send, receive = messages
    rank, (operation, _) = frame["rank"].to_numpy(), coded_text(frame, "operation")
    pair = dense_codes(rank[send], rank[receive], operation[send])
    n_pairs = int(pair.max(initial=-1)) + 1
    shows = start_s[receive] > start_s[send] + criteria.SEEN_HELD_S
    is_held = shows & (end_s[send] >= start_s[receive])
    n_shown, n_held = (sums(seen.astype(np.float64), pair, n_pairs) for seen in (shows, is_held))
    return (n_held > criteria.MOST_SHARE * np.maximum(n_shown, 1))[pair]


# -- WAIT rows -----------------------------------------------------------------------------------------


def _with_waits(frame: Frame, ties: Ties) -> Ties:
    """Let each ``WAIT`` row need what the operation needs that it waits for."""
    named, has_number = coded_text(frame, "operation"), ~np.isnan(numbers(frame, "seq"))
    waits = np.flatnonzero(each_text(named, is_wait) & has_number)
    if not len(waits):
        return ties
    operations = np.flatnonzero(each_text(named, is_communication) & has_number)
    of_wait = waited_for(frame, operations, waits)
    waits, of_wait = waits[of_wait >= 0], operations[of_wait[of_wait >= 0]]
    order = np.argsort(ties.row, kind="stable")
    first, last = (np.searchsorted(ties.row[order], of_wait, side=side) for side in ("left", "right"))
    n = last - first
    tie = order[np.repeat(first - (np.cumsum(n) - n), n) + np.arange(n.sum())]
    copied = Ties(np.repeat(waits, n), ties.meeting[tie], np.zeros(len(tie), np.bool_), ties.needs[tie])
    return Ties._make(np.concatenate(column) for column in zip(ties, copied, strict=True))

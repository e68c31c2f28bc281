"""Find what each communication row waited for: until when, and for which row of another rank.

Who is needed depends on the operation. Where all ranks need each other, the last to arrive lets everybody go.
In a rooted operation the others need the root, or the root needs the others. A receive needs the send; a send
needs the receive only if the rows show that senders are held until their receivers come (rendezvous, and not
eager).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.blocking import waited_for
from timing_logger.analysis.collectives.matching import Instances
from timing_logger.analysis.collectives.messages import Messages
from timing_logger.analysis.collectives.waits import is_root, with_bytes
from timing_logger.analysis.grouping import sums
from timing_logger.analysis.instants import instants
from timing_logger.analysis.operations import (
    ALL_TO_ALL,
    FROM_ROOT,
    MAY_SYNCHRONISE,
    TO_ROOT,
    is_communication,
    is_wait,
)
from timing_logger.analysis.tables import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    numbers,
)

NOBODY = -1
"""In place of a row: none was needed, or it is unknown which."""

SEEN_HELD_S = 50e-6
"""How much later than its peer a rank must come for the rows to show whether the peer was held by it.

Leaving a call takes some microseconds, so a smaller difference shows nothing."""

MOSTLY = 0.5
"""Senders of a pair of ranks are held by their receivers if more than this share of them is seen to be."""


class Needs(NamedTuple):
    """What each row of a table waited for; one entry per row.

    Attributes:
        until_s: when the last that was needed had come; the row's own start if nobody was needed; NaN where
            it is unknown who was.
        row: the row of the last that was needed; ``NOBODY`` if none was, or it is unknown.
    """

    until_s: Floats
    row: Ints

    def learn(self, rows: Ints, until_s: Floats, by: Ints) -> None:
        """Enter that ``rows`` needed ``by``, if that is later than what they are known to have needed."""
        later = ~np.isnan(until_s) & ~(until_s <= self.until_s[rows])
        self.until_s[rows[later]] = until_s[later]
        self.row[rows[later]] = by[later]


def needs_of(frame: Frame, parts: Instances, messages: Messages) -> Needs:
    """Find what each row of a table waited for.

    Args:
        frame: a table with all rows on one axis.
        parts: its complete collectives.
        messages: its messages of which both rows are known.
    """
    found = Needs(np.full(len(frame), np.nan), np.full(len(frame), NOBODY))
    start_s, end_s, _ = instants(frame)
    _learn_collectives(found, frame, parts, start_s, end_s)
    _learn_messages(found, frame, messages, start_s, end_s)
    _learn_waits(found, frame)
    return found


# -- collectives ---------------------------------------------------------------------------------------


def _learn_collectives(found: Needs, frame: Frame, parts: Instances, start_s: Floats, end_s: Floats) -> None:
    if not len(parts.row):
        return
    start_s, end_s = start_s[parts.row], end_s[parts.row]
    counts, root = with_bytes(frame, parts), is_root(frame, parts)
    everybody = _last_of(parts, start_s, counts)
    has_root = parts.for_parts(sums(root.astype(np.float64), _instance(parts), len(parts.first)) > 0)
    is_rooted, may_hold = parts.is_one_of(FROM_ROOT | TO_ROOT), parts.is_one_of(MAY_SYNCHRONISE)
    holds_all = (is_rooted | may_hold) & _synchronise(parts, start_s, end_s)
    rooted = is_rooted & has_root & ~holds_all
    needs_all = counts & (parts.is_one_of(ALL_TO_ALL) | holds_all)
    needs_root = rooted & parts.is_one_of(FROM_ROOT) & ~root
    needs_others = rooted & parts.is_one_of(TO_ROOT) & root
    alone = (rooted & ~needs_root & ~needs_others) | (may_hold & ~holds_all)
    for needing, needed in (
        (needs_all, everybody),
        (needs_root, _last_of(parts, start_s, root)),
        (needs_others, _last_of(parts, start_s, counts & ~root)),
    ):
        here = np.flatnonzero(needing & (needed >= 0))
        found.learn(parts.row[here], start_s[needed[here]], parts.row[needed[here]])
    rows = parts.row[alone]
    found.learn(rows, start_s[alone], np.full(len(rows), NOBODY))


def _instance(parts: Instances) -> Ints:
    return parts.for_parts(np.arange(len(parts.first)))


def _last_of(parts: Instances, start_s: Floats, wanted: Bools) -> Ints:
    """Return for each part which of the ``wanted`` parts of its instance began last; -1 if none did."""
    last = np.full(len(parts.first), -1)
    order = np.argsort(start_s, kind="stable")
    order = order[wanted[order] & ~np.isnan(start_s[order])]
    last[_instance(parts)[order]] = order
    return parts.for_parts(last)


def _synchronise(parts: Instances, start_s: Floats, end_s: Floats) -> Bools:
    """Tell for each part whether its operation holds everybody, as far as the rows of its group show.

    A rooted operation, or one on a file, lets some go before others come. Small ones may be implemented so
    that nobody does; then nobody is ever seen to leave before the last has come.
    """
    last_s = start_s[_last_of(parts, start_s, ~np.isnan(start_s))]
    left_before = (end_s < last_s - SEEN_HELD_S).astype(np.float64)
    came_late = (start_s < last_s - SEEN_HELD_S).astype(np.float64)
    kind = dense_codes(parts.communicator, parts.operation)
    n_kinds = int(kind.max(initial=-1)) + 1
    shows, contradicts = (sums(seen, kind, n_kinds) > 0 for seen in (came_late, left_before))
    held: Bools = (shows & ~contradicts)[kind]
    return held


# -- messages ------------------------------------------------------------------------------------------


def _learn_messages(found: Needs, frame: Frame, messages: Messages, start_s: Floats, end_s: Floats) -> None:
    send, receive = messages
    found.learn(receive, start_s[send], send)
    held = senders_are_held(frame, messages, start_s, end_s)
    found.learn(send[held], start_s[receive[held]], receive[held])
    found.learn(send[~held], start_s[send[~held]], np.full(int((~held).sum()), NOBODY))


def senders_are_held(frame: Frame, messages: Messages, start_s: Floats, end_s: Floats) -> Bools:
    """Tell for each message whether its sender is held until the receiver comes.

    Where receivers of a pair of ranks never came late enough to show it, senders are taken to be free.
    """
    send, receive = messages
    rank, (operation, _) = frame["rank"].to_numpy(), coded_text(frame, "operation")
    pair = dense_codes(rank[send], rank[receive], operation[send])
    n_pairs = int(pair.max(initial=-1)) + 1
    shows = start_s[receive] > start_s[send] + SEEN_HELD_S
    is_held = shows & (end_s[send] >= start_s[receive])
    share = sums(is_held.astype(np.float64), pair, n_pairs) / np.maximum(
        sums(shows.astype(np.float64), pair, n_pairs), 1
    )
    held: Bools = (share > MOSTLY)[pair]
    return held


# -- WAIT rows -----------------------------------------------------------------------------------------


def _learn_waits(found: Needs, frame: Frame) -> None:
    """Let each ``WAIT`` row need what the operation needs that it waits for."""
    named, has_number = coded_text(frame, "operation"), ~np.isnan(numbers(frame, "seq"))
    waits = np.flatnonzero(each_text(named, is_wait) & has_number)
    if not len(waits):
        return
    operations = np.flatnonzero(each_text(named, is_communication) & has_number)
    of_wait = waited_for(frame, operations, waits)
    waits, of_wait = waits[of_wait >= 0], operations[of_wait[of_wait >= 0]]
    found.learn(waits, found.until_s[of_wait], found.row[of_wait])

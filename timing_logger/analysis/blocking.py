"""Who did what a row tells of, a thread or a stream, and in which rows it was blocked.

What blocks what follows from who was blocked: whoever is in a collective that returns when it is done, or in
a ``WAIT``, does nothing else. Another thread of the same process may work meanwhile, and so may another
stream of the same device.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.intervals import Stretches, stretches
from timing_logger.analysis.operations import PROBES, base_operation, goes_on, is_communication, is_wait
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
from timing_logger.record import DEVICE_CLOCK

_MAIN_THREAD = "MainThread"
_FOREIGN_THREAD = re.compile(r"Dummy-\d+")
"""What Python calls a thread that it did not start. Autograd's are such, and whoever called backward is
blocked as long as they are; files from before a row named the blocked thread have them."""


class Lanes(NamedTuple):
    """One entry for each row.

    Attributes:
        lane: number of its thread, or of its stream on the device's clock; those of several processes may
            be equal.
        in_background: whether it is an operation that blocks nobody: what was blocked on it has rows of
            its own.
        blocks: whether its thread, or stream, does nothing else meanwhile.
    """

    lane: Ints
    in_background: Bools
    blocks: Bools


def lanes_of(frame: Frame) -> Lanes:
    """The lanes of a table that ``opened`` returned."""
    named = coded_text(frame, "operation")
    lane = thread_or_stream(frame)
    in_background = each_text(named, goes_on) | _waited_for_elsewhere(frame, named, lane)
    blocks = each_text(named, is_wait) | (each_text(named, _needs_others) & ~in_background)
    return Lanes(lane, in_background, blocks)


def thread_or_stream(frame: Frame) -> Ints:
    """The number of the thread or stream of each row.

    On the device's clock it is the stream. Where that is not recorded, a thread is taken to use one.
    """
    thread, names = coded_text(frame, "thread")
    blocked = [_MAIN_THREAD if _FOREIGN_THREAD.fullmatch(name) else name for name in names]
    distinct = sorted(set(blocked))
    thread = np.array([distinct.index(name) for name in blocked], np.int64)[thread]
    on_device = each_text(coded_text(frame, "clock"), DEVICE_CLOCK.__eq__)
    if not on_device.any():
        return dense_codes(thread, on_device)
    stream, streams = coded_text(frame, "stream")
    is_known = on_device & np.array([name != "" for name in streams], np.bool_)[stream]
    return dense_codes(on_device, np.where(is_known, -1, thread), np.where(is_known, stream, -1))


def _needs_others(name: str) -> bool:
    return is_communication(name) or base_operation(name) in PROBES


def _waited_for_elsewhere(frame: Frame, named: tuple[Ints, list[str]], lane: Ints) -> Bools:
    """Whether another thread has a ``WAIT`` row for the operation, which then blocked that one alone.

    As of the buckets that an optimizer reduces on a thread of its own. A thread that has been in a call
    waits for it no more, so a ``WAIT`` of equal number on the same thread is for a message of that number.
    """
    found = np.zeros(len(frame), np.bool_)
    has_number = ~np.isnan(numbers(frame, "seq"))
    waits = np.flatnonzero(each_text(named, is_wait) & has_number)
    if not len(waits):
        return found
    others = np.flatnonzero(each_text(named, is_communication) & has_number)
    key = _names(frame, np.concatenate([others, waits]))
    of_other, of_wait = key[: len(others)], key[len(others) :]
    goes = each_text(named, goes_on)[others]
    has_owner = np.bincount(of_other[goes], minlength=key.max() + 1) > 0
    is_free = ~has_owner[of_wait]  # it is not the wait for what went on anyway
    least, most = np.full(key.max() + 1, np.iinfo(np.int64).max), np.full(key.max() + 1, -1)
    np.minimum.at(least, of_wait[is_free], lane[waits[is_free]])
    np.maximum.at(most, of_wait[is_free], lane[waits[is_free]])
    found[others] = (most[of_other] >= 0) & (
        (least[of_other] != lane[others]) | (most[of_other] != lane[others])
    )
    return found


def _names(frame: Frame, rows: Ints) -> Ints:
    """Equal for an operation and the ``WAIT`` rows for it: process, group, number, and the other rank.

    Messages are numbered for each sender and receiver, collectives for each group, so the number alone
    would mix them up.
    """
    group, _ = coded_text(frame, "group")
    names = ("rank", "incarnation", "group_size", "seq", "peer")
    return dense_codes(group[rows], *(numbers(frame, name)[rows] for name in names))


def waited_for(frame: Frame, operations: Ints, waits: Ints) -> Ints:
    """For each of these ``WAIT`` rows which of these operations it waited for, a position; -1 for none.

    Of several of one name, as of a group that was made anew and counts again, the last that had begun.
    """
    key = _names(frame, np.concatenate([operations, waits]))
    n, begins = len(operations), numbers(frame, "start_counter")[np.concatenate([operations, waits])]
    order = np.lexsort((np.arange(len(key)) >= n, begins, key))
    is_operation = order < n
    last = np.maximum.accumulate(np.where(is_operation, np.arange(len(order)), -1))
    found = np.full(len(key), -1)
    found[order] = np.where((last >= 0) & (key[order] == key[order][last]), order[last], -1)
    only = np.full(key.max(initial=-1) + 1, -1)
    only[key[:n]] = np.arange(n)
    is_only = np.bincount(key[:n], minlength=len(only)) == 1
    begun = np.where(np.isnan(begins[n:]), -1, found[n:])
    return np.where(is_only[key[n:]], only[key[n:]], begun)


def unblocked_work(owner: Ints, starts: Floats, ends: Floats, blocks: Bools) -> Stretches:
    """The stretches of each owner's own work in which it was not blocked.

    Args:
        owner: of each interval the lane that it is of, or a part of that.
        blocks: which intervals block it; the others are own work.
    """
    pieces = stretches(owner, starts, ends, blocks.astype(np.int64), 2)
    works = pieces.is_open[0] & ~pieces.is_open[1]
    return Stretches(pieces.owner[works], pieces.start_s[works], pieces.end_s[works], [])

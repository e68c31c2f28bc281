"""Find the thread or stream of each row, and the rows in which it was blocked.

A thread that is in a blocking collective, or in a ``WAIT``, does nothing else. Another thread of the same
process may work meanwhile, and so may another stream of the same device.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import coded_text, dense_codes, each_text, numbers, renamed
from timing_logger.analysis.rows.grouping import greatest_of_each, least_of_each
from timing_logger.analysis.rows.intervals import OpenPieces, stretches
from timing_logger.analysis.rows.operations import PROBES, base_operation, goes_on, is_communication, is_wait
from timing_logger.analysis.rows.table_types import Bools, Floats, Frame, Ints
from timing_logger.schema.record import DEVICE_CLOCK

MAIN_THREAD = "MainThread"
_FOREIGN_THREAD = re.compile(r"Dummy-\d+")
"""The name that Python gives to a thread that it did not start, such as those of autograd.

The thread that called backward is blocked as long as they are. Such names are in older files, whose rows do
not name the blocked thread."""


class RowLanes(NamedTuple):
    """The lane (thread or stream) of each row, and whether the row blocks it; one entry per row.

    Attributes:
        lane: number of the row's thread, or of its stream on the device's clock; lanes of different
            processes may have equal numbers.
        in_background: whether the operation does not block the lane: a thread that was blocked on it has
            rows of its own for that.
        blocks: whether the lane does nothing else during the row.
    """

    lane: Ints
    in_background: Bools
    blocks: Bools


def lanes_of(frame: Frame) -> RowLanes:
    """Find the lane of each row, and whether the row blocks it, for a table that ``opened`` returned."""
    named = coded_text(frame, "operation")
    lane = thread_or_stream(frame)
    in_background = each_text(named, goes_on) | _waited_for_elsewhere(frame, named, lane)
    blocks = each_text(named, is_wait) | (each_text(named, _needs_others) & ~in_background)
    return RowLanes(lane, in_background, blocks)


def thread_or_stream(frame: Frame) -> Ints:
    """Number the thread or stream of each row of a table that ``opened`` returned.

    For rows on the device's clock it is the stream. Where the stream is not recorded, each thread is taken to
    use one stream.
    """
    thread, _ = renamed(coded_text(frame, "thread"), _blocked_thread)
    on_device = each_text(coded_text(frame, "clock"), DEVICE_CLOCK.__eq__)
    if not on_device.any():
        return dense_codes(thread, on_device)
    stream, streams = coded_text(frame, "stream")
    is_known = on_device & each_text((stream, streams), bool)
    return dense_codes(on_device, np.where(is_known, -1, thread), np.where(is_known, stream, -1))


def _blocked_thread(name: str) -> str:
    return MAIN_THREAD if _FOREIGN_THREAD.fullmatch(name) else name


def _needs_others(name: str) -> bool:
    return is_communication(name) or base_operation(name) in PROBES


def _waited_for_elsewhere(frame: Frame, named: tuple[Ints, list[str]], lane: Ints) -> Bools:
    """Tell for each row whether another thread has a ``WAIT`` row for it: it blocked only that thread.

    An example are buckets that an optimizer reduces on a thread of its own. A thread that has been in a
    blocking call does not wait for it again, so a ``WAIT`` of equal number on the same thread is for a
    message of that number.
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
    n_keys = key.max() + 1
    has_owner = np.bincount(of_other[goes], minlength=n_keys) > 0
    is_free = ~has_owner[of_wait]  # not a wait for a non-blocking operation
    least = least_of_each(lane[waits[is_free]], of_wait[is_free], n_keys)[of_other]
    most = greatest_of_each(lane[waits[is_free]], of_wait[is_free], n_keys)[of_other]
    found[others] = (least < lane[others]) | (most > lane[others])
    return found


def _names(frame: Frame, rows: Ints) -> Ints:
    """Return numbers that are equal for an operation and the ``WAIT`` rows for it.

    They stand for the process, group, sequence number and other rank. Messages are numbered for each sender
    and receiver, collectives for each group, so the sequence number alone would mix them up.
    """
    group, _ = coded_text(frame, "group")
    names = ("rank", "incarnation", "group_size", "seq", "peer")
    return dense_codes(group[rows], *(numbers(frame, name)[rows] for name in names))


def waited_for(frame: Frame, operations: Ints, waits: Ints) -> Ints:
    """Find the operation that each ``WAIT`` row waited for.

    If several operations match, as those of a group that was created again and counts from 0 again, it is the
    last that had begun.

    Args:
        frame: a table that ``opened`` returned.
        operations: positions of the rows of operations.
        waits: positions of the ``WAIT`` rows.

    Returns:
        For each ``WAIT`` row an index into ``operations``; -1 for none.
    """
    key = _names(frame, np.concatenate([operations, waits]))
    n, begins = len(operations), numbers(frame, "start_counter")[np.concatenate([operations, waits])]
    order = np.lexsort((np.arange(len(key)) >= n, begins, key))
    is_operation = order < n
    last = np.maximum.accumulate(np.where(is_operation, np.arange(len(order)), -1))
    found = np.empty(len(key), np.int64)
    found[order] = np.where((last >= 0) & (key[order] == key[order][last]), order[last], -1)
    only = np.full(key.max(initial=-1) + 1, -1)
    only[key[:n]] = np.arange(n)
    is_only = np.bincount(key[:n], minlength=len(only)) == 1
    begun = np.where(np.isnan(begins[n:]), -1, found[n:])
    return np.where(is_only[key[n:]], only[key[n:]], begun)


def unblocked_work(owner: Ints, starts: Floats, ends: Floats, blocks: Bools) -> OpenPieces:
    """Return the stretches of each owner's own work in which it was not blocked.

    Args:
        owner: for each interval the number of its lane, or of a part of a lane, such as one step of it.
        starts, ends: the intervals, in seconds.
        blocks: for each interval whether it blocks its owner; the others are own work.
    """
    pieces = stretches(owner, starts, ends, blocks.astype(np.int64), 2)
    works = pieces.is_open[0] & ~pieces.is_open[1]
    return OpenPieces(pieces.owner[works], pieces.start_s[works], pieces.end_s[works], [])

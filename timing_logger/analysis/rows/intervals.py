"""When rows began and ended, and lengths of unions and intersections of intervals, for many owners at once.

All starts and ends are visited in order of time; between two of them nothing changes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    numbers,
    renamed,
)
from timing_logger.analysis.rows.grouping import first_above, greatest_of_each, least_of_each, order_by, sums
from timing_logger.analysis.rows.operations import (
    COMMUNICATION,
    PROBES,
    base_operation,
    goes_on,
    is_communication,
    is_wait,
)
from timing_logger.schema.record import DEVICE_CLOCK


class OpenPieces(NamedTuple):
    """Pieces of time in which the open intervals of one owner stay the same; one entry per piece.

    Attributes:
        owner: number of the owner.
        start_s, end_s: start and end of the piece, in seconds.
        is_open: for each kind an array that tells whether an interval of that kind is open.
    """

    owner: Ints
    start_s: Floats
    end_s: Floats
    is_open: list[Bools]

    def length_s(self, wanted: Bools, n_owners: int) -> Floats:
        """Return for each owner the length of the stretches that are ``wanted``, in seconds."""
        lengths = (self.end_s - self.start_s)[wanted]
        return np.bincount(self.owner[wanted], lengths, minlength=n_owners).astype(np.float64)


def stretches(owner: Ints, starts: Floats, ends: Floats, kind: Ints, n_kinds: int) -> OpenPieces:
    """Return the stretches between all starts and ends of each owner.

    Stretches in which nothing is open may be missing. Intervals that do not end after they start, or whose
    instants are unknown, are left out.

    Args:
        owner: for each interval the number of its owner.
        starts, ends: the intervals, in seconds.
        kind: for each interval its kind, from 0 to ``n_kinds`` - 1.
        n_kinds: the number of kinds.
    """
    whole = np.flatnonzero(ends > starts)
    order = whole[order_by(owner[whole], starts[whole])]
    owner, starts, ends, kind = owner[order], starts[order], ends[order], kind[order]
    if not _overlapping(owner, starts, ends).any():  # the intervals are the stretches
        return OpenPieces(owner, starts, ends, [kind == k for k in range(n_kinds)])
    owner, kind = np.tile(owner, 2), np.tile(kind, 2)
    instants = np.concatenate([starts, ends])
    change = np.repeat([1, -1], len(instants) // 2)
    order = order_by(owner, instants)
    owner, instants, kind, change = owner[order], instants[order], kind[order], change[order]
    # The last instant of an owner closes all that is open, so none reaches into the next one's.
    is_open = [np.cumsum(np.where(kind == k, change, 0))[:-1] > 0 for k in range(n_kinds)]
    return OpenPieces(owner[:-1], instants[:-1], instants[1:], is_open)


def union_lengths(owner: Ints, starts: Floats, ends: Floats, n_owners: int) -> Floats:
    """Return for each owner the length of the union of its intervals, in the unit of the intervals."""
    whole = ends > starts
    if not whole.all():
        owner, starts, ends = owner[whole], starts[whole], ends[whole]
    overlaps = has_overlaps(owner, starts, ends, n_owners)
    # Where one interval follows the other, as most do, their lengths are simply added.
    lengths = sums(np.where(overlaps[owner], 0.0, ends - starts), owner, n_owners)
    if overlaps.any():
        rows = np.flatnonzero(overlaps[owner])
        pieces = stretches(owner[rows], starts[rows], ends[rows], np.zeros(len(rows), np.int64), 1)
        lengths = lengths + pieces.length_s(pieces.is_open[0], n_owners)
    return lengths


class Union(NamedTuple):
    """The unions of the intervals of owners; one entry for each piece, in the order of owners and time.

    Attributes:
        begin: where the pieces of each owner begin, and at last the number of all.
        start_s: when the piece begins.
        length_s: how long it is.
        before_s: how long those before it are.
    """

    begin: Ints
    start_s: Floats
    length_s: Floats
    before_s: Floats

    @classmethod
    def of(cls, owner: Ints, starts: Floats, ends: Floats, n_owners: int) -> Union:
        """Unite the intervals ``[starts[i], ends[i]]`` in s of each owner, a number from 0."""
        pieces = stretches(owner, starts, ends, np.zeros(len(owner), np.int64), 1)
        counts = pieces.is_open[0] & (pieces.end_s > pieces.start_s)
        length_s = (pieces.end_s - pieces.start_s)[counts]
        begin = np.searchsorted(pieces.owner[counts], np.arange(n_owners + 1))
        return cls(begin, pieces.start_s[counts], length_s, np.cumsum(length_s) - length_s)

    def within_s(self, owner: Ints, since_s: Floats, until_s: Floats) -> Floats:
        """Return how much of each span of an owner its union covers, in seconds."""
        return self._until_s(owner, until_s) - self._until_s(owner, since_s)

    def _until_s(self, owner: Ints, instants_s: Floats) -> Floats:
        """Return how long the pieces of an owner and those before it are up to an instant, in seconds."""
        start_s, length_s = np.append(self.start_s, 0.0), np.append(self.length_s, 0.0)
        before_s = np.append(self.before_s, self.length_s.sum())
        at = first_above(self.begin, self.start_s, owner, instants_s) - 1
        up_to_s = before_s[at] + np.minimum(instants_s - start_s[at], length_s[at])
        return np.where(at >= self.begin[owner], up_to_s, before_s[self.begin[owner]])


def has_overlaps(owner: Ints, starts: Floats, ends: Floats, n_owners: int) -> Bools:
    """Tell for each owner whether some of its intervals overlap."""
    order = order_by(owner, starts)
    overlapping = _overlapping(owner[order], starts[order], ends[order])
    found = np.zeros(n_owners, np.bool_)
    found[owner[order[1:]][overlapping]] = True
    return found


def _overlapping(owner: Ints, starts: Floats, ends: Floats) -> Bools:
    """Tell for each interval but the first whether the one before, of the same owner, has not ended."""
    overlapping: Bools = (starts[1:] < ends[:-1]) & (owner[1:] == owner[:-1])
    return overlapping


def union_length(starts: Floats, ends: Floats) -> float:
    """Return the length of the union of the intervals ``[starts[i], ends[i]]``, in any order."""
    return float(union_lengths(np.zeros(len(starts), np.int64), starts, ends, 1)[0])


def instants(frame: Frame) -> tuple[Floats, Floats, Floats]:
    """Return ``start_s``, ``end_s`` and ``clock_uncertainty_s`` of each row, in seconds.

    A table without these columns gives the ranks' own counters as if they were on one time axis, and an
    unknown uncertainty (NaN).
    """
    unknown = np.full(len(frame), np.nan)
    if not {"start_s", "end_s"} <= set(frame.columns):
        return numbers(frame, "start_counter"), numbers(frame, "end_counter"), unknown
    has_uncertainty = "clock_uncertainty_s" in frame.columns
    uncertainty = numbers(frame, "clock_uncertainty_s") if has_uncertainty else unknown
    return numbers(frame, "start_s"), numbers(frame, "end_s"), uncertainty


def covers_issue_alone(frame: Frame) -> Bools:
    """Tell for each row whether it covers only the call that issued a non-blocking operation.

    The timed communicators and process groups see such operations end, and number them. A row without
    ``seq`` was timed by hand around the call, and the operation goes on after it.
    """
    in_background = each_text(coded_text(frame, "operation"), goes_on)
    return in_background & np.isnan(numbers(frame, "seq"))


def durations_ms(frame: Frame) -> Floats:
    """Return how long the operation of each row took, in ms; NaN where the row covers only its issue."""
    return np.where(covers_issue_alone(frame), np.nan, numbers(frame, "elapsed_ms"))


def wall_times_s(frame: Frame, process: Ints) -> Floats:
    """Return the time from the first start of each process to its last end, in seconds; NaN if unknown.

    Args:
        frame: a table that ``opened`` returned.
        process: for each row the number of its process, from 0.
    """
    n_processes = process.max(initial=-1) + 1
    last_s = greatest_of_each(numbers(frame, "end_counter"), process, n_processes)
    return last_s - least_of_each(numbers(frame, "start_counter"), process, n_processes)


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
    needs_others = each_text(named, lambda name: base_operation(name) in COMMUNICATION | PROBES)
    blocks = each_text(named, is_wait) | (needs_others & ~in_background)
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

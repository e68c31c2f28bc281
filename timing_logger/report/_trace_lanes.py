"""The assignment of each span of a process to a line of the trace, called a lane.

Two spans of one lane must be disjoint or nested: Perfetto drops a span that partly overlaps its neighbour,
and mentions it only in its statistics. Spans of a thread's own work are always disjoint or nested. Operations
that it left running, and the work of a device, may not be.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.grouping import any_row_of
from timing_logger.analysis.operations import goes_on
from timing_logger.analysis.tables import Ints, coded_text, dense_codes, each_text
from timing_logger.record import DEVICE_CLOCK
from timing_logger.report._trace_rows import TraceRows

_KINDS = ("{}", "background ({})", "device ({})")
_THREAD, _BACKGROUND, _DEVICE = range(3)
_UNNAMED = "thread"


class Lanes(NamedTuple):
    """The lanes of one process, by name, and for each row the index of its lane.

    A lane is named after its thread, and marked if it is not the thread's own work.
    """

    names: list[str]
    of_row: Ints


def assign_lanes(rows: TraceRows) -> Lanes:
    """Assign a lane of its thread to each row, and a further one where it would partly overlap another.

    Rows that are not placed are assigned one, too, which has no meaning.
    """
    threads, thread = _threads(rows)
    number = np.zeros(len(thread), np.int64)
    order = np.lexsort((-rows.end_ns, rows.start_ns, thread))
    order = order[rows.ended[order]]
    for here in np.split(order, np.flatnonzero(np.diff(thread[order])) + 1):
        number[here] = numbers_of_lanes(rows.start_ns[here], rows.end_ns[here])
    return _named(threads, thread, number)


def _threads(rows: TraceRows) -> tuple[list[str], Ints]:
    code, names = coded_text(rows.frame, "thread")
    kind = _kinds(rows)
    thread = dense_codes(code, kind)
    return [_KINDS[kind[row]].format(names[code[row]] or _UNNAMED) for row in any_row_of(thread)], thread


def _kinds(rows: TraceRows) -> Ints:
    on_device = each_text(coded_text(rows.frame, "clock"), DEVICE_CLOCK.__eq__)
    in_background = rows.operation_is(goes_on)
    return np.where(on_device, _DEVICE, np.where(in_background, _BACKGROUND, _THREAD))


def numbers_of_lanes(start_ns: Ints, end_ns: Ints) -> Ints:
    """Return for each span of one thread the number of the first lane with room, counted from 0.

    Args:
        start_ns, end_ns: one entry per span, sorted by start; of spans with the same start, the longer first.
    """
    numbers = np.zeros(len(start_ns), np.int64)
    busy_until = np.maximum.accumulate(end_ns)
    begins = np.flatnonzero(start_ns[1:] >= busy_until[:-1]) + 1
    for first, last in pairwise([0, *begins.tolist(), len(start_ns)]):
        if last - first > 1:  # most spans overlap no other one, and stay in the first lane
            here = slice(first, last)
            numbers[here] = _first_with_room(start_ns[here].tolist(), end_ns[here].tolist())
    return numbers


def _first_with_room(starts: list[int], ends: list[int]) -> list[int]:
    lanes: list[list[int]] = []  # for each lane the ends of its open spans, the outermost first
    return [_take_lane(lanes, start, end) for start, end in zip(starts, ends, strict=True)]


def _take_lane(lanes: list[list[int]], start: int, end: int) -> int:
    for number, open_ends in enumerate(lanes):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        if not open_ends or end <= open_ends[-1]:
            open_ends.append(end)
            return number
    lanes.append([end])
    return len(lanes) - 1


def _named(threads: list[str], thread: Ints, number: Ints) -> Lanes:
    """Return the lanes in their order of display, without lanes that no row is on."""
    lane = dense_codes(thread, number)
    found = [(threads[thread[row]], int(number[row])) for row in any_row_of(lane)]
    order = sorted(range(len(found)), key=found.__getitem__)
    names = [
        name if number == 0 else f"{name} #{number + 1}" for name, number in map(found.__getitem__, order)
    ]
    return Lanes(names, np.argsort(order)[lane])

"""On which line of a trace each span is drawn.

Spans of one lane must be apart or lie in each other: Perfetto drops one that overlaps its neighbour in
part, and says so only in its statistics. What a thread does itself is always so; what it began and left
to go on, and what a device does, need not be.
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


class Lane(NamedTuple):
    """One line: ``name`` is that of the thread, and says if it is not what the thread did itself."""

    process: int
    name: str


class Lanes(NamedTuple):
    """All lanes, by process, then name, and for each row where its lane stands among them."""

    lanes: list[Lane]
    of_row: Ints


def assign_lanes(rows: TraceRows) -> Lanes:
    """A lane for each row: of its thread, and a further one where it would overlap in part.

    Rows that are not placed have one too; it means nothing.
    """
    threads, thread = _threads(rows)
    number = np.zeros(len(thread), np.int64)
    order = np.lexsort((-rows.end_ns, rows.start_ns, thread))
    order = order[rows.ended[order]]
    for here in np.split(order, np.flatnonzero(np.diff(thread[order])) + 1):
        number[here] = numbers_of_lanes(rows.start_ns[here], rows.end_ns[here])
    return _named(threads, thread, number)


def _threads(rows: TraceRows) -> tuple[list[Lane], Ints]:
    code, names = coded_text(rows.frame, "thread")
    kind = _kinds(rows)
    thread = dense_codes(rows.process, code, kind)
    return [
        Lane(int(rows.process[row]), _KINDS[kind[row]].format(names[code[row]] or _UNNAMED))
        for row in any_row_of(thread)
    ], thread


def _kinds(rows: TraceRows) -> Ints:
    on_device = each_text(coded_text(rows.frame, "clock"), DEVICE_CLOCK.__eq__)
    in_background = rows.operation_is(goes_on)
    return np.where(on_device, _DEVICE, np.where(in_background, _BACKGROUND, _THREAD))


def numbers_of_lanes(start_ns: Ints, end_ns: Ints) -> Ints:
    """For each span of one thread, sorted by start and the longer first, the first lane with room, from 0."""
    numbers = np.zeros(len(start_ns), np.int64)
    busy_until = np.maximum.accumulate(end_ns)
    begins = np.flatnonzero(start_ns[1:] >= busy_until[:-1]) + 1
    for first, last in pairwise([0, *begins.tolist(), len(start_ns)]):
        if last - first > 1:  # most spans are by themselves, and in the first lane
            here = slice(first, last)
            numbers[here] = _first_with_room(start_ns[here].tolist(), end_ns[here].tolist())
    return numbers


def _first_with_room(starts: list[int], ends: list[int]) -> list[int]:
    lanes: list[list[int]] = []  # for each lane the ends of what is open, the outermost first
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


def _named(threads: list[Lane], thread: Ints, number: Ints) -> Lanes:
    """Lanes in the order in which they are to be shown; only those that some row stands on."""
    lane = dense_codes(thread, number)
    found = [
        (threads[thread[row]].process, threads[thread[row]].name, int(number[row]))
        for row in any_row_of(lane)
    ]
    order = sorted(range(len(found)), key=found.__getitem__)
    return Lanes([_lane(*found[index]) for index in order], np.argsort(order)[lane])


def _lane(process: int, name: str, number: int) -> Lane:
    return Lane(process, name if number == 0 else f"{name} #{number + 1}")

"""The processes of a trace, the rows of each on an axis that begins at 0, and the line (lane) of each row.

Two spans of one lane must be disjoint or nested: Perfetto drops a span that partly overlaps its neighbour,
and mentions it only in its statistics. Spans of a thread's own work are always disjoint or nested. Operations
that it left running, and the work of a device, may not be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.analysis import ByProcess
from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Frame,
    Ints,
    Rows,
    coded_text,
    dense_codes,
    each_text,
    numbers,
)
from timing_logger.analysis.rows.files import File, SidecarContent, sidecar_of
from timing_logger.analysis.rows.grouping import any_row_of, rows_of_each
from timing_logger.analysis.rows.intervals import covers_issue_alone, instants
from timing_logger.analysis.rows.operations import goes_on, is_communication
from timing_logger.analysis.rows.tables import opened
from timing_logger.schema.record import COLUMNS, DEVICE_CLOCK, NS_PER_S


class TraceProcess(NamedTuple):
    """One incarnation of a rank."""

    rank: int
    incarnation: int


class Traced(NamedTuple):
    """What must be known of a process before the first row of any process is written.

    Attributes:
        process: which process it is.
        n_rows: the number of its rows.
        first_s: its first instant; NaN if no row states when it began.
        is_aligned: whether its clock is related to those of the others, as far as the table states it.
    """

    process: TraceProcess
    n_rows: int
    first_s: float
    is_aligned: bool


def rows_by_process(frame: Frame) -> list[tuple[TraceProcess, Rows]]:
    """Return each process of a table with an index that selects its rows, by rank and incarnation."""
    rank, incarnation = (frame[name].to_numpy().astype(np.int64) for name in TraceProcess._fields)
    found = []
    for rows in rows_of_each(dense_codes(rank, incarnation)):
        found.append((TraceProcess(int(rank[rows][0]), int(incarnation[rows][0])), rows))
    return found


def traced_in(frame: Frame) -> list[Traced]:
    """Return the processes of a table that ``opened`` returned, by rank and incarnation."""
    start_s, _, uncertainty_s = instants(frame)
    states_uncertainty = "clock_uncertainty_s" in frame.columns
    found = []
    for process, rows in rows_by_process(frame):
        started = ~np.isnan(start_s[rows])
        is_aligned = not (states_uncertainty and np.isnan(uncertainty_s[rows][started]).any())
        first_s = start_s[rows][started].min(initial=np.inf)
        found.append(Traced(process, len(started), float(first_s) if started.any() else np.nan, is_aligned))
    return found


def _reduce(parts: Sequence[list[Traced]]) -> list[Traced]:
    return sorted(traced for part in parts for traced in part)


PROCESSES = ByProcess(
    (*COLUMNS, "start_s", "end_s", "clock_uncertainty_s"),
    lambda t: traced_in(opened(t, as_laid_out=True)),
    _reduce,
)
"""The analysis that lists all processes that have rows."""


def origin_of(traced: Sequence[Traced]) -> float:
    """Return the first instant of all processes; NaN if there is none."""
    known = [one.first_s for one in traced if one.first_s == one.first_s]
    return min(known, default=float("nan"))


class TraceRows(NamedTuple):
    """The rows of one process, one entry per row unless stated otherwise.

    Attributes:
        frame: the table, as ``opened`` returns it.
        recorded: the same rows with the values as they were recorded, for display only.
        operation: the names of the operations, as codes and texts.
        placed: whether the row has a start; without one it has no place on the axis.
        ended: whether the row also has an end.
        start_ns, end_ns: time since the first instant of all processes; 0 if not placed, and the end is the
            start if only that is known.
    """

    frame: Frame
    recorded: Frame
    operation: tuple[Ints, list[str]]
    placed: Bools
    ended: Bools
    start_ns: Ints
    end_ns: Ints

    @classmethod
    def of(cls, frame: Frame, recorded: Frame, origin_s: float) -> TraceRows:
        """Place the rows of a process on the axis that begins at ``origin_s``."""
        start_s, end_s, _ = instants(frame)
        placed = ~np.isnan(start_s)
        start_ns = _since(origin_s, start_s)
        return cls(
            frame=frame,
            recorded=recorded,
            operation=coded_text(frame, "operation"),
            placed=placed,
            ended=placed & ~np.isnan(end_s),
            start_ns=start_ns,
            end_ns=np.maximum(_since(origin_s, end_s), start_ns),
        )

    def operation_is(self, test: Callable[[str], bool]) -> Bools:
        """Return the result of ``test`` for each row's operation."""
        return each_text(self.operation, test)


def _since(origin_s: float, instants_s: Floats) -> Ints:
    return np.rint(np.nan_to_num((instants_s - origin_s) * NS_PER_S)).astype(np.int64)


def process_names(traced: Sequence[Traced], files: Sequence[File]) -> list[str]:
    """Return the name of each process: ``"rank 3"``, and in brackets what distinguishes it from others.

    That is its run, host, labels, and whether its clock is not aligned.

    Args:
        traced: all processes.
        files: ``attrs["files"]`` of the table, whose sidecars contain hosts and labels.
    """
    sidecars = {TraceProcess(file["rank"], file["incarnation"]): sidecar_of(file) for file in files}
    several_hosts = len({sidecar.get("host") for sidecar in sidecars.values()}) > 1
    names = []
    for process, _, _, is_aligned in traced:
        sidecar = sidecars.get(process, SidecarContent())
        notes = [f"run {process.incarnation}"] if process.incarnation > 1 else []
        notes += [str(sidecar["host"])] if several_hosts and sidecar.get("host") else []
        notes += [f"{key}={value}" for key, value in (sidecar.get("labels") or {}).items()]
        notes += ["clock not aligned"] if len(traced) > 1 and not is_aligned else []
        names.append(f"rank {process.rank}" + (f" ({', '.join(notes)})" if notes else ""))
    return names


class BytesInFlight(NamedTuple):
    """The changes of the number of bytes in flight: the instant in ns, and the new number."""

    at_ns: Ints
    n_bytes: Ints


def bytes_in_flight(rows: TraceRows) -> BytesInFlight:
    """Return the sum of ``message_size_bytes`` over the communication in progress, by time.

    Operations whose end is not known are left out.
    """
    size = numbers(rows.frame, "message_size_bytes")
    has_end = rows.ended & ~covers_issue_alone(rows.frame)
    row = np.flatnonzero(rows.operation_is(is_communication) & has_end & (size > 0))
    at_ns = np.concatenate([rows.start_ns[row], rows.end_ns[row]])
    change = np.concatenate([size[row], -size[row]]).astype(np.int64)
    order = np.argsort(at_ns, kind="stable")
    at_ns, n_bytes = at_ns[order], np.cumsum(change[order])
    last_of_instant = np.diff(at_ns, append=-1) != 0
    at_ns, n_bytes = at_ns[last_of_instant], n_bytes[last_of_instant]
    differs = np.diff(n_bytes, prepend=0) != 0
    return BytesInFlight(at_ns[differs], n_bytes[differs])


_KINDS = ("{}", "background ({})", "device ({})")
_THREAD, _BACKGROUND, _DEVICE = range(3)
_UNNAMED = "thread"


class TraceLanes(NamedTuple):
    """The lanes of one process, by name, and for each row the index of its lane.

    A lane is named after its thread, and marked if it is not the thread's own work.
    """

    names: list[str]
    of_row: Ints


def assign_lanes(rows: TraceRows) -> TraceLanes:
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


def _named(threads: list[str], thread: Ints, number: Ints) -> TraceLanes:
    """Return the lanes in their order of display, without lanes that no row is on."""
    lane = dense_codes(thread, number)
    found = [(threads[thread[row]], int(number[row])) for row in any_row_of(lane)]
    order = sorted(range(len(found)), key=found.__getitem__)
    names = [
        name if number == 0 else f"{name} #{number + 1}" for name, number in map(found.__getitem__, order)
    ]
    return TraceLanes(names, np.argsort(order)[lane])

"""What a trace draws: processes, their rows on an axis from 0 on, the line (lane) of each row, and arrows.

Two spans of one lane must be disjoint or nested: Perfetto drops a span that partly overlaps its neighbour,
and mentions it only in its statistics. Spans of a thread's own work are always disjoint or nested. Operations
that it left running, and the work of a device, may not be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from timing_logger.analysis.collectives.matching import Instances, find_instances, is_root, with_bytes
from timing_logger.analysis.collectives.messages import find_messages, messages_and_groups
from timing_logger.analysis.collectives.problems import STATES, find_problems, states
from timing_logger.analysis.rows.analysis import COLUMNS_OF, ROW_OF_PROCESS, ByProcess, OfCommunication
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
from timing_logger.analysis.rows.group_members import NONE
from timing_logger.analysis.rows.grouping import any_row_of, rows_of_each
from timing_logger.analysis.rows.intervals import covers_issue_alone, instants
from timing_logger.analysis.rows.operations import ALL_TO_ALL, FROM_ROOT, TO_ROOT, goes_on, is_communication
from timing_logger.analysis.rows.tables import in_one_table, opened
from timing_logger.reading.named_ranks import stated_world_size
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


PROCESSES = ByProcess(
    (*COLUMNS, "start_s", "end_s", "clock_uncertainty_s"),
    lambda t: traced_in(opened(t, as_laid_out=True)),
    lambda parts: sorted(traced for part in parts for traced in part),
)
"""The analysis that lists all processes that have rows."""


def origin_of(traced: Sequence[Traced]) -> float:
    """Return the first instant of all processes; NaN if there is none."""
    return min((one.first_s for one in traced if one.first_s == one.first_s), default=float("nan"))


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


# -- arrows, between spans of different processes that are parts of one operation ------------------------


class Flows(NamedTuple):
    """The ends of the arrows of one process: where they begin, one entry per row, and where they end.

    An arrow is drawn from a span to a mark at the end of another. Perfetto draws none to a span that began
    earlier than the one that it comes from, as a receive mostly did.

    Attributes:
        row: the position of the row among those of its process.
        number: the number of the arrow; all arrows that begin in one row share it.
        sender: the rank that the arrow comes from.
        comes_in: whether the arrow ends in the row, or begins there.
    """

    row: Ints
    number: Ints
    sender: Ints
    comes_in: Bools


FlowsOf: TypeAlias = "dict[TraceProcess, Flows]"

_HALF_A_NANOSECOND = 0.5e-9  # times of a trace are whole nanoseconds

_NONE, _NEVER = np.zeros(0, np.int64), np.zeros(0, np.bool_)
NO_FLOWS = Flows(_NONE, _NONE, _NONE, _NEVER)


def flows_in(frame: Frame, world_size: int | None) -> FlowsOf:
    """Find the arrows from who was waited for in a collective, and from each send to its receive.

    Args:
        frame: a table that ``opened`` returned.
        world_size: the number of ranks of the run; None if unknown.
    """
    return joined_flows([_flows_of_collectives(frame), _flows_of_messages(frame, world_size)])


def joined_flows(parts: Sequence[FlowsOf]) -> FlowsOf:
    """Join flows that were found in different rows; their numbers are made distinct."""
    found: dict[TraceProcess, list[Flows]] = {}
    first = 0
    for part in parts:
        for process, flows in part.items():
            found.setdefault(process, []).append(flows._replace(number=flows.number + first))
        first += 1 + max((int(flows.number.max(initial=NONE)) for flows in part.values()), default=NONE)
    return {
        process: Flows(*(np.concatenate(columns) for columns in zip(*several, strict=True)))
        for process, several in found.items()
    }


def _flows_of_collectives(frame: Frame) -> FlowsOf:
    """Lead arrows from the last to send in each collective to those that receive of it.

    Where all ranks send to all, the last to begin sends to the others; else the root does, or the last of the
    others to the root. Ranks may not disagree about the operation, and who is the root must be known. What
    the members of two groups (an intercommunicator) or neighbours send to each other is not.
    """
    parts = find_instances(frame)
    problems = find_problems(frame, parts)
    number, names = coded_text(frame, "group")
    in_one_group = ~each_text((number[parts.row], names), lambda name: "|" in name)
    of_one_operation = parts.for_parts(states(problems) != STATES.index("mismatched")) & in_one_group
    rooted = of_one_operation & parts.for_parts(problems == 0)
    root = is_root(frame, parts)
    to_all = of_one_operation & parts.is_one_of(ALL_TO_ALL)
    from_root, to_root = rooted & parts.is_one_of(FROM_ROOT), rooted & parts.is_one_of(TO_ROOT)
    sends = (to_all & with_bytes(frame, parts)) | (from_root & root) | (to_root & ~root)
    receives = to_all | (from_root & ~root) | (to_root & root)
    sender = _last(frame, parts, sends)[receives]
    return _arrows(frame, sender[sender != NONE], parts.row[receives][sender != NONE])


def _last(frame: Frame, parts: Instances, among: Bools) -> Ints:
    """Return for each part the row that began last ``among`` those of its instance; ``NONE`` without one."""
    start_s, end_s, _ = instants(frame)
    known = np.flatnonzero(among & ~np.isnan(start_s[parts.row]) & ~np.isnan(end_s[parts.row]))
    position = np.repeat(np.arange(len(parts.first)), parts.n_parts)
    in_order = known[np.lexsort((start_s[parts.row[known]], position[known]))]
    last = np.full(len(parts.first), NONE)
    last[position[in_order]] = parts.row[in_order]
    return parts.for_parts(last)


def _flows_of_messages(frame: Frame, world_size: int | None) -> FlowsOf:
    return _arrows(frame, *find_messages(frame, world_size, exchanges=True))


def _arrows(frame: Frame, sender: Ints, receiver: Ints) -> FlowsOf:
    """Lead an arrow from each row of ``sender`` to that of ``receiver``.

    There is none from a row to itself, nor where an end is missing, nor back in time, as where the clocks of
    the two are farther apart than their rows.
    """
    start_s, end_s, _ = instants(frame)
    known = ~np.isnan(end_s[sender]) & ~np.isnan(start_s[receiver]) & (sender != receiver)
    forward = known & (end_s[receiver] - start_s[sender] > _HALF_A_NANOSECOND)
    sender, receiver = sender[forward], receiver[forward]
    begins, number = np.unique(sender, return_inverse=True)
    rank = frame["rank"].to_numpy().astype(np.int64)
    row = np.concatenate([begins, receiver])
    ends = Flows(
        row=_rows_of_processes(frame)[row],
        number=np.concatenate([np.arange(len(begins)), number]),
        sender=rank[np.concatenate([begins, sender])],
        comes_in=np.arange(len(row)) >= len(begins),
    )
    return {
        process: Flows._make(column[here] for column in ends)
        for process, here in rows_by_process(frame.select(TraceProcess._fields)[row])
    }


def _rows_of_processes(frame: Frame) -> Ints:
    """Return the position of each row among those of its process."""
    if ROW_OF_PROCESS in frame.columns:
        return frame[ROW_OF_PROCESS].to_numpy().astype(np.int64)
    position = np.zeros(len(frame), np.int64)
    for _, rows in rows_by_process(frame):
        position[rows] = np.arange(len(position[rows]))
    return position


# -- from parts --------------------------------------------------------------------------------------


def _collectives(timings: pd.DataFrame) -> FlowsOf:
    return _flows_of_collectives(opened(timings))


def _numbered_messages(timings: pd.DataFrame) -> pd.DataFrame:
    position = _rows_of_processes(opened(timings))
    numbered: pd.DataFrame = messages_and_groups(timings.assign(**{ROW_OF_PROCESS: position}))
    numbered.attrs = timings.attrs
    return numbered


def _messages(tables: Sequence[pd.DataFrame]) -> FlowsOf:
    timings = in_one_table(tables)
    return _flows_of_messages(opened(timings), stated_world_size(timings.attrs["files"]))


FLOWS_OF_COLLECTIVES = OfCommunication((*COLUMNS_OF["match_collectives"], ROW_OF_PROCESS), _collectives)
"""The analysis that finds the arrows of collectives."""

FLOWS_OF_MESSAGES = ByProcess(COLUMNS_OF["waits"], _numbered_messages, _messages)
"""The analysis that finds the arrows of messages: a part holds the rows of messages."""

"""Sum the rows of processes by step: their own work, and the time in which they were not communicating."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.accounting.part import CommunicationPart, Spent, map_account, map_communication
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.arrays import (
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    processes_of,
)
from timing_logger.analysis.rows.grouping import (
    any_row_of,
    first_above,
    least_of_each,
    n_earlier_alike,
    order_by,
    rows_of_each,
)
from timing_logger.analysis.rows.intervals import has_overlaps, union_lengths
from timing_logger.analysis.rows.operations import PAUSES, exchanges, needs_no_other_rank
from timing_logger.analysis.rows.rounds import rounds_of
from timing_logger.analysis.rows.steps import Numbering, epochs_of, iterations_since, steps_of
from timing_logger.analysis.rows.tables import opened
from timing_logger.analysis.step_times.work_rows import (
    WorkRows,
    ends_of_communication,
    gap_ms,
    in_gaps_ms,
    joined_columns,
    unlogged_ms,
)
from timing_logger.analysis.step_times.workload import StepsWorkload, joined_workload, sent_in_turn, workload
from timing_logger.schema.record import DEVICE_CLOCK


class ProcessSteps(NamedTuple):
    """The times of processes by step.

    Arrays have one entry for each step of each process, in the order of processes and steps.

    Attributes:
        ranks: for each process its rank.
        process: the number of the process, from 0.
        iterations: the number of the step.
        epochs: its epoch; NaN where none is known.
        work_ms: for each operation of the processes' own work the time in it; 0 in steps without the
            operation, NaN if unknown.
        gap_ms: time from the end of the last communication of the step before to that of this step, less
            the communication; per iteration, also where only some iterations are recorded.
        stands_for: how many iterations the step stands for: 10 where every 10th was recorded; NaN for the
            first of a process.
        in_gaps_ms: for each operation of ``PAUSES`` that is recorded, and of all other own work if that was
            asked for, how long it lasted in that time.
        blocked_ms: how long a thread or stream of the process was blocked in communication.
        workload: how much there was to do in each step.
        unlogged_ms: for each process the time for which it has no row, over all steps but the first, by the
            operations before and after it.
        begins_s: when the first row of the step began, on the time axis of the process, in seconds.
        ends_s: when the last communication of the step ended, on that axis; NaN in a step without any.
    """

    ranks: Ints
    process: Ints
    iterations: Ints
    epochs: Floats
    work_ms: dict[str, Floats]
    gap_ms: Floats
    stands_for: Floats
    in_gaps_ms: dict[str, Floats]
    blocked_ms: Floats
    workload: StepsWorkload
    unlogged_ms: Sequence[Mapping[tuple[str, str], float]]
    begins_s: Floats
    ends_s: Floats

    def without_steps(self) -> ProcessSteps:
        """Return the times of the same processes as if they had recorded no step."""
        none, nothing = self.gap_ms[:0], StepsWorkload({}, None, None, {})
        unlogged: list[Mapping[tuple[str, str], float]] = [{} for _ in self.ranks]
        numbers = self.process[:0], self.iterations[:0], none
        return ProcessSteps(self.ranks, *numbers, {}, none, none, {}, none, nothing, unlogged, none, none)

    @property
    def n_steps(self) -> Ints:
        """For each process the number of its steps."""
        return np.bincount(self.process, minlength=len(self.ranks))


def process_steps(
    rows: WorkRows,
    ranks: Ints,
    steps: tuple[Ints, Ints, Floats],
    recorded: Ints,
    *,
    with_gaps: bool,
) -> ProcessSteps:
    """Sum the rows of processes by step.

    Args:
        rows: all their rows that are in some step.
        ranks: for each process its rank.
        steps: ``process``, ``iterations`` and ``epochs`` of the result.
        recorded: for each step the iteration that was recorded.
        with_gaps: whether ``in_gaps_ms`` is asked for of all own work.
    """
    process, n_steps = steps[0], len(recorded)
    own = rows.operations_are(needs_no_other_rank)
    held, alone_ms = np.flatnonzero(own | rows.blocks), np.full(len(own), np.nan)
    alone_ms[held] = exclusive_ms(
        rows.elapsed_ms[held], rows.start_s[held], rows.end_s[held], rows.lane[held]
    )  # of others it is unknown
    stands_for = _stands_for(rows, process, recorded)
    ends = ends_of_communication(rows, process)
    blocks = np.flatnonzero(rows.blocks)
    sent = sent_in_turn(rows.operations_are(exchanges), rows.size_bytes, rows.start_s, rows.entry, n_steps)
    is_first = np.diff(process, prepend=-1) != 0
    return ProcessSteps(
        ranks,
        *steps,
        work_ms=_work_ms(rows, alone_ms, n_steps),
        gap_ms=gap_ms(rows, own, ends, stands_for),
        stands_for=stands_for,
        in_gaps_ms=in_gaps_ms(
            rows, alone_ms, ends, needs_no_other_rank if with_gaps else PAUSES.__contains__
        ),
        blocked_ms=1000
        * union_lengths(rows.entry[blocks], rows.start_s[blocks], rows.end_s[blocks], n_steps),
        workload=workload(rows, process)._replace(of_exchanges=sent),
        unlogged_ms=unlogged_ms(rows, ~is_first[rows.entry] & (own | rows.blocks), len(ranks)),
        begins_s=least_of_each(rows.start_s, rows.entry, n_steps),
        ends_s=ends.of_all,
    )


def joined_steps(parts: Sequence[ProcessSteps]) -> ProcessSteps:
    """Put the times of processes one after the other, which are then numbered throughout."""
    n_processes = np.array([len(part.ranks) for part in parts])
    first = np.cumsum(n_processes) - n_processes
    lengths = [len(part.process) for part in parts]
    by_array: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (
            "ranks",
            "iterations",
            "epochs",
            "gap_ms",
            "stands_for",
            "blocked_ms",
            "begins_s",
            "ends_s",
        )
    }
    return ProcessSteps(
        **by_array,
        process=np.concatenate([number + part.process for number, part in zip(first, parts, strict=True)]),
        work_ms=joined_columns([part.work_ms for part in parts], lengths, 0.0),
        in_gaps_ms=joined_columns([part.in_gaps_ms for part in parts], lengths, 0.0),
        workload=joined_workload([part.workload for part in parts], lengths),
        unlogged_ms=[sums_ms for part in parts for sums_ms in part.unlogged_ms],
    )


def _work_ms(rows: WorkRows, alone_ms: Floats, n_steps: int) -> dict[str, Floats]:
    return {
        name: np.bincount(rows.entry[here], alone_ms[here], minlength=n_steps).astype(np.float64)
        for code, name in enumerate(rows.operations)
        if needs_no_other_rank(name) and (here := rows.operation == code).any()
    }


def _stands_for(rows: WorkRows, process: Ints, recorded: Ints) -> Floats:
    """Return the iterations since the step before; 1 where no collective was left out in between.

    A loop that communicates in every 40th iteration only has no row in the others, if its own work is not
    recorded. Then the collectives are numbered without a gap, and nothing is missing.
    """
    since = iterations_since(recorded.astype(np.float64), process)
    row = np.flatnonzero(~np.isnan(rows.number))
    row = row[np.lexsort((rows.number[row], rows.group[row], rows.process[row]))]
    before, after = row[:-1], row[1:]
    follows = (rows.group[after] == rows.group[before]) & (rows.process[after] == rows.process[before])
    follows &= rows.entry[after] == rows.entry[before] + 1
    missing = rows.number[after] - rows.number[before] > 1
    shows, contradicts = (
        np.bincount(rows.entry[after][follows & ones], minlength=len(recorded)) > 0
        for ones in (~missing, missing)
    )
    return np.where(shows & ~contradicts & (since > 0), 1.0, since)


# -- a rank's self time: the time of its rows without that in which they waited for other ranks ----------
# A row of a rank's own work (``BACKWARD``) may enclose calls that wait for other ranks, and further
# rows of work. Each instant is charged to the innermost row of its thread, as profilers count
# exclusive time, so nothing is counted twice and waiting is not counted as work.


def exclusive_ms(elapsed_ms: Floats, starts_s: Floats, ends_s: Floats, lanes: Ints) -> Floats:
    """Return the time of each row without that of the rows inside it, in ms.

    Args:
        elapsed_ms: durations of the rows.
        starts_s, ends_s: intervals on one clock, in seconds; rows without them keep their duration.
        lanes: the lane of each row (a thread and its clock); rows enclose each other only within a lane.
    """
    alone = elapsed_ms.copy()
    rows = np.flatnonzero(starts_s < ends_s)  # those of zero or unknown length take nothing from others
    lane = dense_codes(lanes[rows])
    overlaps = has_overlaps(lane, starts_s[rows], ends_s[rows], int(lane.max(initial=-1)) + 1)
    rows, lane = rows[overlaps[lane]], dense_codes(lane[overlaps[lane]])
    if len(rows):
        order = _outer_first(lane, starts_s[rows], ends_s[rows])
        rows, lane = rows[order], lane[order]
        alone[rows] -= 1000 * _enclosed_s(lane, starts_s[rows], ends_s[rows])
    exclusive: Floats = np.maximum(alone, 0.0)
    return exclusive


def _outer_first(lane: Ints, starts: Floats, ends: Floats) -> Ints:
    """Return the order by lane and start; of intervals that start together, the longest comes first."""
    order = order_by(lane, starts)
    alike = (np.diff(starts[order]) == 0) & (np.diff(lane[order]) == 0)
    return np.lexsort((-ends, starts, lane)) if alike.any() else order


def _enclosed_s(lane: Ints, starts: Floats, ends: Floats) -> Floats:
    """Return how much of each interval in s lies under intervals further in: those that started later.

    The intervals are in the order of :func:`_outer_first`.
    """
    own_ends, around = ends, _around(lane, starts, ends)
    crossing = (around >= 0) & (ends[around] < ends)
    if crossing.any():
        own_ends = ends.copy()
        crossed = np.isin(lane, lane[crossing])
        for rows in rows_of_each(dense_codes(lane[crossed])):
            its = np.flatnonzero(crossed)[rows]
            own_ends[its] = _uncrossed(starts[its], ends[its])
        around = _around(lane, starts, own_ends)
    inner = np.flatnonzero(around >= 0)
    within_s = np.bincount(around[inner], (own_ends - starts)[inner], minlength=len(starts))
    enclosed: Floats = ends - own_ends + within_s
    return enclosed


def _around(lane: Ints, starts: Floats, ends: Floats) -> Ints:
    """Return for each interval the innermost one that it begins in; -1 if it begins in none.

    Where intervals cross, it is one that crosses.
    """
    n_lanes = int(lane.max()) + 1
    begin = np.searchsorted(lane, np.arange(n_lanes + 1))
    ended = first_above(begin, ends[order_by(lane, ends)], lane, starts)
    depth = np.arange(len(starts)) - ended  # those under way when it starts
    around = np.full(len(starts), -1)
    for level in range(int(depth.max())):
        outer, inner = np.flatnonzero(depth == level), np.flatnonzero(depth == level + 1)
        around[inner] = outer[np.searchsorted(outer, inner) - 1]
    return around


def _uncrossed(starts: Floats, ends: Floats) -> Floats:
    """Return ends with which intervals lie inside each other or apart.

    An interval that crosses into a later one ends where that one starts. Rows of ``record_timing`` cross by a
    moment: each is placed at the call, some time after its end.
    """
    uncrossed = ends.tolist()
    under_way: list[int] = []  # the innermost last, which ends first
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        while under_way and uncrossed[under_way[-1]] <= start:
            under_way.pop()
        while under_way and uncrossed[under_way[-1]] < end:
            uncrossed[under_way.pop()] = start
        under_way.append(row)
    return np.array(uncrossed)


class StepTimesPart(NamedTuple):
    """What the step times of a run need of some of its processes.

    Attributes:
        steps: the times of the processes by step, in the order of rank and incarnation.
        communication: their lines of control, and rows of communication.
        spent: how these lines spent the time in which they were not blocked; None if no account is asked for.
        numbering: what the numbers of their steps mean.
        operations: names of their operations.
        has_iterations: whether iterations are recorded; else steps are counted from 0.
        on_device: whether rows of own work are on the device's clock.
    """

    steps: ProcessSteps
    communication: CommunicationPart
    spent: Spent | None
    numbering: Numbering
    operations: list[str]
    has_iterations: bool
    on_device: bool

    def without_steps(self) -> StepTimesPart:
        """Return the part as if its processes had recorded no step."""
        return self._replace(steps=self.steps.without_steps())


def map_step_times(
    timings: IntoDataFrameT, *, with_account: bool = False, with_gaps: bool = False
) -> StepTimesPart:
    """Reduce the rows of whole processes, such as those of one file, to what the step times need.

    Args:
        timings: the rows.
        with_account: whether the account of the run is asked for, too.
        with_gaps: whether ``StepTimes.in_gaps_ms`` is asked for of all own work.
    """
    frame = opened(timings, COLUMNS_OF["stragglers"])
    process = processes_of(frame)
    has_iterations = frame["iteration"].count() > 0
    number, numbering = steps_of(frame)
    if not has_iterations:
        number = _counted(process, frame)
    entry, steps = _entries(process, number, epochs_of(frame).of_row)
    rows = WorkRows.of(frame, process, entry)
    ranks = frame["rank"].to_numpy().astype(np.int64)[any_row_of(process)]
    found = process_steps(rows, ranks, steps, numbering.iterations(steps[1]), with_gaps=with_gaps)
    n_steps = found.n_steps
    place = np.where(entry >= 0, entry - (np.cumsum(n_steps) - n_steps)[process], -1)
    communication, spent = (
        map_account(frame, place) if with_account else (map_communication(frame, process, place), None)
    )
    return StepTimesPart(
        found, communication, spent, numbering, rows.operations, has_iterations, _works_on_device(frame)
    )


def _entries(process: Ints, number: Floats, epoch: Floats) -> tuple[Ints, tuple[Ints, Ints, Floats]]:
    """Number the steps of each process that occur, from 0 and in order of processes and steps.

    Args:
        process, number, epoch: of each row, the last two NaN outside of any step.

    Returns:
        For each row the number of its step of its process, -1 outside of any; and for each of these the
        process, the number of the step, and its epoch.
    """
    inside = np.flatnonzero(~np.isnan(number))
    entry = np.full(len(number), -1)
    entry[inside] = dense_codes(process[inside], number[inside])
    one = inside[any_row_of(entry[inside])]
    return entry, (process[one], number[one].astype(np.int64), epoch[one])


def _counted(process: Ints, frame: Frame) -> Floats:
    """Return the round of each row; in a process without rounds the number of earlier rows of its kind."""
    number = rounds_of(frame, process)
    has_rounds = np.bincount(process, ~np.isnan(number)) > 0
    kind = dense_codes(process, coded_text(frame, "operation")[0], coded_text(frame, "layer_name")[0])
    earlier = n_earlier_alike(kind, np.arange(len(kind), dtype=np.float64))
    return np.where(has_rounds[process], number, earlier)


def _works_on_device(frame: Frame) -> bool:
    own = each_text(coded_text(frame, "operation"), needs_no_other_rank)
    on_device = each_text(coded_text(frame, "clock"), DEVICE_CLOCK.__eq__)
    return bool((own & on_device).any())

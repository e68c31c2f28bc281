"""Sum the rows of one process by step: its own work, and the time in which it was not communicating."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.arrays import coded_text, each_text, numbers
from timing_logger.analysis.blocking import lanes_of, unblocked_work
from timing_logger.analysis.grouping import greatest_of_each
from timing_logger.analysis.intervals import union_lengths
from timing_logger.analysis.operations import PAUSES, exchanges, is_collective, is_copy, needs_no_other_rank
from timing_logger.analysis.step_durations import iterations_since
from timing_logger.analysis.step_times.self_time import covered_s, exclusive_ms
from timing_logger.analysis.step_times.workload import RankWorkload, rank_workload, sent_in_turn
from timing_logger.analysis.steps import Numbering
from timing_logger.analysis.table_types import Bools, Floats, Frame, Ints, Rows
from timing_logger.record import DEVICE_CLOCK, OK


class RankSteps(NamedTuple):
    """The times of one process by step; arrays have one entry per step.

    Attributes:
        rank: rank of the process.
        iterations: numbers of the steps, ascending.
        work_ms: for each operation of the process's own work the time in it; 0 in steps without the
            operation, NaN if unknown.
        gap_ms: time from the end of the last communication of the step before to that of this step, less
            the communication; per iteration, also where only some iterations are recorded.
        stands_for: how many iterations the step stands for: 10 where every 10th was recorded; NaN for the
            first.
        pauses_ms: for each operation of ``PAUSES`` that is recorded, how long it lasted in that time.
        blocked_ms: how long a thread or stream of the process was blocked in communication.
        workload: how much there was to do in each step.
        unlogged_ms: the time for which the process has no row, over all steps but the first, by the
            operations before and after it.
        ends_s: when the last communication of the step ended, on the time axis of the process, in seconds;
            NaN in a step without any.
    """

    rank: int
    iterations: Ints
    work_ms: dict[str, Floats]
    gap_ms: Floats
    pauses_ms: dict[str, Floats]
    stands_for: Floats
    blocked_ms: Floats
    workload: RankWorkload
    unlogged_ms: Mapping[tuple[str, str], float]
    ends_s: Floats

    def without_steps(self) -> RankSteps:
        """Return the times of the same process as if it had recorded no step."""
        none = self.gap_ms[:0]
        nothing = RankWorkload({}, None, None, {})
        return RankSteps(self.rank, self.iterations[:0], {}, none, {}, none, none, nothing, {}, none)


class WorkRows(NamedTuple):
    """The columns that step times are computed from; one entry per row.

    Attributes:
        operations: names of operations, ascending.
        operation: index of the row's operation in ``operations``.
        step: number of the row's step; NaN outside of any step.
        elapsed_ms: duration of the row; NaN where it is unknown or the operation failed.
        work: how much the row states that there was to do, of a copy also its bytes; NaN if unknown.
        size_bytes: what the row's operation sends, in bytes; NaN if unknown.
        start_s, end_s: on the time axis of the process, in seconds.
        lane, blocks: as ``lanes_of`` returns them.
        on_device: whether the row is on the clock of a device.
        group, number: the group of the row's collective, and its number there; NaN where it has none.
    """

    operations: list[str]
    operation: Ints
    step: Floats
    elapsed_ms: Floats
    work: Floats
    size_bytes: Floats
    start_s: Floats
    end_s: Floats
    lane: Ints
    blocks: Bools
    on_device: Bools
    group: Ints
    number: Floats

    @classmethod
    def of(cls, frame: Frame, step: Floats) -> WorkRows:
        """Take the columns of a table.

        Args:
            frame: a table that ``opened`` returned.
            step: the number of each row's step; NaN outside of any step.
        """
        operation, operations = coded_text(frame, "operation")
        succeeded = each_text(coded_text(frame, "status"), {OK, ""}.__contains__)
        lanes = lanes_of(frame)
        return cls(
            operations=operations,
            operation=operation,
            step=step,
            elapsed_ms=np.where(succeeded, numbers(frame, "elapsed_ms"), np.nan),
            work=_work(frame, (operation, operations)),
            size_bytes=numbers(frame, "message_size_bytes"),
            start_s=numbers(frame, "start_counter"),
            end_s=numbers(frame, "end_counter"),
            lane=lanes.lane,
            blocks=lanes.blocks,
            on_device=each_text(coded_text(frame, "clock"), DEVICE_CLOCK.__eq__),
            group=coded_text(frame, "group")[0],
            number=np.where(each_text((operation, operations), is_collective), numbers(frame, "seq"), np.nan),
        )

    def only(self, wanted: Bools | Rows) -> WorkRows:
        """Return the rows that are ``wanted``, by a mask, positions or a slice."""
        return WorkRows._make((self.operations, *(values[wanted] for values in self[1:])))

    def operations_are(self, predicate: Callable[[str], bool]) -> Bools:
        """Apply ``predicate`` to the name of each row's operation."""
        return each_text((self.operation, self.operations), predicate)


def _work(frame: Frame, operation: tuple[Ints, list[str]]) -> Floats:
    stated = numbers(frame, "work")
    of_copies = np.isnan(stated) & each_text(operation, is_copy)
    return np.where(of_copies, numbers(frame, "message_size_bytes"), stated) if of_copies.any() else stated


def rank_steps(rows: WorkRows, rank: int, numbering: Numbering) -> RankSteps:
    """Sum the rows of one process by step.

    Args:
        rows: all rows of the process.
        rank: rank of the process.
        numbering: what the numbers of its steps mean.
    """
    rows = rows.only(~np.isnan(rows.step))
    steps, at = np.unique(rows.step.astype(np.int64), return_inverse=True)
    recorded = numbering.iterations(steps)
    own = rows.operations_are(needs_no_other_rank)
    alone_ms = _alone_ms(rows, own | rows.blocks)
    work_ms = {
        name: np.bincount(at[here], alone_ms[here], minlength=len(steps)).astype(np.float64)
        for code, name in enumerate(rows.operations)
        if needs_no_other_rank(name) and (here := rows.operation == code).any()
    }
    stands_for = _stands_for(rows, at, recorded)
    ends = _ends_of_communication(rows, at, len(steps))
    gap_ms = _gap_ms(rows, own, ends, stands_for)
    blocked = rows.only(rows.blocks)
    blocked_s = union_lengths(at[rows.blocks], blocked.start_s, blocked.end_s, len(steps))
    workload = rank_workload(rows.operations, rows.operation, rows.work, at, len(steps))
    of_all = rows.operations_are(exchanges)
    brought = sent_in_turn(of_all, rows.size_bytes, rows.start_s, at, len(steps))
    later = rows.only((at > 0) & (own | rows.blocks))
    return RankSteps(
        rank, steps, work_ms, gap_ms, _pauses_ms(rows, alone_ms, ends, len(steps)), stands_for,
        1000 * blocked_s,
        workload._replace(of_exchanges=brought),
        _unlogged_ms(later),
        ends.of_all(len(steps)),
    )  # fmt: skip


def _alone_ms(rows: WorkRows, held: Bools) -> Floats:
    """Return the time of each row without that of the rows inside it; NaN for rows that are not ``held``."""
    alone = np.full(len(held), np.nan)
    alone[held] = exclusive_ms(rows.elapsed_ms[held], rows.start_s[held], rows.end_s[held], rows.lane[held])
    return alone


def _stands_for(rows: WorkRows, at: Ints, iterations: Ints) -> Floats:
    """Return the iterations since the step before; 1 where no collective was left out in between.

    A loop that communicates in every 40th iteration only has no row in the others, if its own work is not
    recorded. Then the collectives are numbered without a gap, and nothing is missing.
    """
    since = iterations_since(iterations.astype(np.float64), np.zeros(len(iterations), np.int64))
    row = np.flatnonzero(~np.isnan(rows.number))
    row = row[np.lexsort((rows.number[row], rows.group[row]))]
    of_one_group = rows.group[row[1:]] == rows.group[row[:-1]]
    follows = of_one_group & (at[row[1:]] == at[row[:-1]] + 1)
    missing = np.diff(rows.number[row]) > 1
    shows, contradicts = (
        np.bincount(at[row[1:]][follows & ones], minlength=len(iterations)) > 0
        for ones in (~missing, missing)
    )
    return np.where(shows & ~contradicts & (since > 0), 1.0, since)


class _Ends(NamedTuple):
    """The ends of the last communication of the steps of a process.

    Attributes:
        steps: the positions of the steps in which one is known, ascending.
        end_s: when it ended in each of them.
    """

    steps: Ints
    end_s: Floats

    def of_all(self, n_steps: int) -> Floats:
        """Return one entry for each step; NaN where no end is known."""
        found = np.full(n_steps, np.nan)
        found[self.steps] = self.end_s
        return found


def _ends_of_communication(rows: WorkRows, at: Ints, n_steps: int) -> _Ends:
    blocked = rows.blocks & ~np.isnan(rows.start_s) & ~np.isnan(rows.end_s)
    last_s = greatest_of_each(rows.end_s[blocked], at[blocked], n_steps)
    steps = np.flatnonzero(~np.isnan(last_s))
    return _Ends(steps, last_s[steps])


def _pauses_ms(rows: WorkRows, alone_ms: Floats, ends: _Ends, n_steps: int) -> dict[str, Floats]:
    """Sum the pauses of each kind by the gap in which they lie, which may be that of the next step."""
    sums_ms: dict[str, Floats] = {}
    for operation in PAUSES:
        pauses = np.flatnonzero(rows.operations_are(operation.__eq__) & ~np.isnan(alone_ms))
        gap = np.searchsorted(ends.end_s, rows.start_s[pauses])
        within, gap = pauses[gap < len(ends.steps)], gap[gap < len(ends.steps)]
        if len(pauses):
            summed = np.bincount(ends.steps[gap], alone_ms[within], minlength=n_steps)
            sums_ms[operation] = summed.astype(np.float64)
    return sums_ms


def _gap_ms(rows: WorkRows, own: Bools, ends_before: _Ends, stands_for: Floats) -> Floats:
    """Compute ``gap_ms``; NaN for the first step, also of an epoch, and wherever an instant is unknown."""
    placed = ~np.isnan(rows.start_s) & ~np.isnan(rows.end_s)
    blocked = placed & rows.blocks
    gaps = np.full(len(stands_for), np.nan)
    known, (since, until) = ends_before.steps, (ends_before.end_s[:-1], ends_before.end_s[1:])
    # Communication beside own work delays nothing, so only its time outside of the work is subtracted. A
    # thread that is blocked does not work, even if a row of work encloses the call.
    looked_at = rows.only(placed & (own | rows.blocks))
    work = unblocked_work(looked_at.lane, looked_at.start_s, looked_at.end_s, looked_at.blocks)
    starts = np.concatenate([work.start_s, rows.start_s[blocked]])
    ends = np.concatenate([work.end_s, rows.end_s[blocked]])
    held_s = covered_s(since, until, starts, ends) - covered_s(since, until, work.start_s, work.end_s)
    span_s = (until - since) / _means_between(stands_for, known)
    gaps[known[1:]] = 1000 * np.maximum(span_s - held_s, 0.0)
    return gaps


def _means_between(values: Floats, places: Ints) -> Floats:
    """Return the mean of the values after each place up to the next one; NaN where one of them is NaN."""
    sums = np.cumsum(np.append(0.0, np.nan_to_num(values)))
    unknown = np.cumsum(np.append(0, np.isnan(values)))
    begin, end = places[:-1] + 1, places[1:] + 1
    return np.where(unknown[end] > unknown[begin], np.nan, (sums[end] - sums[begin]) / (end - begin))


def _unlogged_ms(rows: WorkRows) -> dict[tuple[str, str], float]:
    """Sum the time between rows of any thread, by the operations of the rows before and after it.

    A host is ahead of its device: where there are rows of the device, these are the ones before and after.
    """
    rows = rows.only(rows.start_s <= rows.end_s)
    rows = rows.only(np.argsort(rows.start_s, kind="stable"))
    until_s = np.maximum.accumulate(rows.end_s)
    later = 1 + np.flatnonzero(rows.start_s[1:] > until_s[:-1])
    begin_s, end_s = until_s[later - 1], rows.start_s[later]
    around = rows.only(rows.on_device) if rows.on_device.any() else rows
    by_end = np.argsort(around.end_s, kind="stable")
    before = np.searchsorted(around.end_s[by_end], begin_s, side="right") - 1
    after = np.searchsorted(around.start_s, end_s)
    known = (before >= 0) & (after < len(by_end))
    names, pair = rows.operations, around.operation[by_end[before[known]]] * len(rows.operations)
    sums_ms = np.bincount(pair + around.operation[after[known]], 1000 * (end_s - begin_s)[known])
    return {
        (names[code // len(names)], names[code % len(names)]): float(sums_ms[code])
        for code in np.flatnonzero(sums_ms)
    }

"""The columns of rows that the times of processes by step are computed from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

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
from timing_logger.analysis.rows.grouping import any_row_of, first_above, greatest_of_each, order_by
from timing_logger.analysis.rows.intervals import Union, lanes_of, unblocked_work
from timing_logger.analysis.rows.operations import is_collective, is_copy
from timing_logger.results import criteria
from timing_logger.schema.record import DEVICE_CLOCK, OK


class WorkRows(NamedTuple):
    """The columns of rows that are in some step; one entry per row.

    Attributes:
        operations: names of operations, ascending.
        operation: index of the row's operation in ``operations``.
        process: number of the row's process.
        entry: number of the row's step of that process, from 0 and ascending with process and step.
        elapsed_ms: duration of the row; NaN where it is unknown or the operation failed.
        work: how much the row states that there was to do, of a copy also its bytes; NaN if unknown.
        size_bytes: what the row's operation sends, in bytes; NaN if unknown.
        start_s, end_s: on the time axis of the process, in seconds.
        lane: number of the row's thread or stream; no two processes have one.
        blocks: as ``lanes_of`` returns it.
        on_device: whether the row is on the clock of a device.
        group, number: the group of the row's collective, and its number there; NaN where it has none.
    """

    operations: list[str]
    operation: Ints
    process: Ints
    entry: Ints
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
    def of(cls, frame: Frame, process: Ints, entry: Ints) -> WorkRows:
        """Take the columns of a table.

        Args:
            frame: a table that ``opened`` returned.
            process: the number of each row's process.
            entry: the number of its step of that process; -1 outside of any step.
        """
        operation, operations = coded_text(frame, "operation")
        succeeded = each_text(coded_text(frame, "status"), {OK, ""}.__contains__)
        lanes = lanes_of(frame)
        stated, sizes = numbers(frame, "work"), numbers(frame, "message_size_bytes")
        of_copies = np.isnan(stated) & each_text((operation, operations), is_copy)
        rows = cls(
            operations=operations,
            operation=operation,
            process=process,
            entry=entry,
            elapsed_ms=np.where(succeeded, numbers(frame, "elapsed_ms"), np.nan),
            work=np.where(of_copies, sizes, stated),
            size_bytes=sizes,
            start_s=numbers(frame, "start_counter"),
            end_s=numbers(frame, "end_counter"),
            lane=dense_codes(process, lanes.lane),
            blocks=lanes.blocks,
            on_device=each_text(coded_text(frame, "clock"), DEVICE_CLOCK.__eq__),
            group=coded_text(frame, "group")[0],
            number=np.where(each_text((operation, operations), is_collective), numbers(frame, "seq"), np.nan),
        )
        return rows if (entry >= 0).all() else rows.only(entry >= 0)

    def only(self, wanted: Bools | Rows) -> WorkRows:
        """Return the rows that are ``wanted``, by a mask, positions or a slice."""
        return WorkRows._make((self.operations, *(values[wanted] for values in self[1:])))

    def operations_are(self, predicate: Callable[[str], bool]) -> Bools:
        """Apply ``predicate`` to the name of each row's operation."""
        return each_text((self.operation, self.operations), predicate)


# -- put columns of several parts, of which each has some, one after the other ---------------------------


def joined_columns(
    parts: Sequence[Mapping[str, Any]], lengths: Sequence[int], blank: float
) -> dict[str, Any]:
    """Return the columns of all parts, by name.

    Args:
        parts: the columns that each part has.
        lengths: how many entries those of each part have.
        blank: stands in the entries of a part for a column that it lacks.
    """
    if len(parts) == 1:
        return dict(parts[0])
    names = {name: column.dtype for part in parts for name, column in part.items()}
    return {
        name: np.concatenate(
            [part.get(name, np.full(n, blank, dtype)) for part, n in zip(parts, lengths, strict=True)]
        )
        for name, dtype in names.items()
    }


# -- compute the time between the communication of processes, what it was spent in, and what no row covers


class Ends(NamedTuple):
    """The ends of the last communication of steps.

    Attributes:
        of_all: for each step of each process; NaN where none is known.
        entries: the steps in which one is known, ascending.
        end_s: when it ended in each of these.
        process: the process of each of these.
        begin: where those of each process begin among these, and at last their number.
    """

    of_all: Floats
    entries: Ints
    end_s: Floats
    process: Ints
    begin: Ints


def ends_of_communication(rows: WorkRows, process: Ints) -> Ends:
    """Find when the last communication of each step ended.

    Args:
        rows: the rows.
        process: for each step the number of its process.
    """
    blocked = rows.blocks & ~np.isnan(rows.start_s) & ~np.isnan(rows.end_s)
    last_s = greatest_of_each(rows.end_s[blocked], rows.entry[blocked], len(process))
    entries = np.flatnonzero(~np.isnan(last_s))
    n_processes = int(process.max(initial=-1)) + 1
    begin = np.searchsorted(process[entries], np.arange(n_processes + 1))
    return Ends(last_s, entries, last_s[entries], process[entries], begin)


def in_gaps_ms(
    rows: WorkRows, alone_ms: Floats, ends: Ends, is_wanted: Callable[[str], bool]
) -> dict[str, Floats]:
    """Sum operations of own work by the gap in which they begin, which may be that of the next step."""
    wanted = np.flatnonzero(rows.operations_are(is_wanted) & ~np.isnan(alone_ms))
    process = rows.process[wanted]
    gap = first_above(ends.begin, ends.end_s, process, rows.start_s[wanted] + criteria.SAME_INSTANT_S)
    within = gap < ends.begin[process + 1]
    wanted, entry = wanted[within], ends.entries[gap[within]]
    return {
        name: np.bincount(entry[here], alone_ms[wanted[here]], minlength=len(ends.of_all)).astype(np.float64)
        for code, name in enumerate(rows.operations)
        if (here := rows.operation[wanted] == code).any()
    }


def gap_ms(rows: WorkRows, own: Bools, ends: Ends, stands_for: Floats) -> Floats:
    """Compute ``ProcessSteps.gap_ms``.

    It is NaN for the first step of a process, also of an epoch, and wherever an instant is unknown.
    """
    gaps = np.full(len(stands_for), np.nan)
    later = 1 + np.flatnonzero(np.diff(ends.process) == 0)
    process, since_s, until_s = ends.process[later], ends.end_s[later - 1], ends.end_s[later]
    held_s = _held_s(rows, own, (process, since_s, until_s))
    means = _means_between(stands_for, ends.entries[later - 1], ends.entries[later])
    gaps[ends.entries[later]] = 1000 * np.maximum((until_s - since_s) / means - held_s, 0.0)
    return gaps


def _held_s(rows: WorkRows, own: Bools, spans: tuple[Ints, Floats, Floats]) -> Floats:
    """Return for how long communication held a process up in each span: process, begin and end, in s.

    Communication beside own work delays nothing, so only its time outside of the work counts. A thread that
    is blocked does not work, even if a row of work encloses the call.
    """
    placed = ~np.isnan(rows.start_s) & ~np.isnan(rows.end_s)
    blocked = np.flatnonzero(placed & rows.blocks)
    of_lane = rows.process[any_row_of(rows.lane)] if len(rows.lane) else rows.process
    at = np.flatnonzero(placed & (own | rows.blocks))
    work = unblocked_work(rows.lane[at], rows.start_s[at], rows.end_s[at], rows.blocks[at])
    n_processes = int(rows.process.max(initial=-1)) + 1
    works = Union.of(of_lane[work.owner], work.start_s, work.end_s, n_processes)
    with_blocked = Union.of(
        np.concatenate([of_lane[work.owner], rows.process[blocked]]),
        np.concatenate([work.start_s, rows.start_s[blocked]]),
        np.concatenate([work.end_s, rows.end_s[blocked]]),
        n_processes,
    )
    return with_blocked.within_s(*spans) - works.within_s(*spans)


def _means_between(values: Floats, after: Ints, up_to: Ints) -> Floats:
    """Return the means of values after one place up to another; NaN where one of them is NaN."""
    sums = np.cumsum(np.append(0.0, np.nan_to_num(values)))
    unknown = np.cumsum(np.append(0, np.isnan(values)))
    begin, end = after + 1, up_to + 1
    return np.where(unknown[end] > unknown[begin], np.nan, (sums[end] - sums[begin]) / (end - begin))


class _Spans(NamedTuple):
    """Rows of threads and streams, in the order of their processes; one entry per row."""

    process: Ints
    operation: Ints
    start_s: Floats
    end_s: Floats
    on_device: Bools

    def only(self, wanted: Bools | Ints) -> _Spans:
        return _Spans._make(values[wanted] for values in self)

    @property
    def latest_end_s(self) -> Floats:
        """The latest end of each row and those before it in its process."""
        by_end = order_by(self.process, self.end_s)
        place = np.empty(len(by_end), np.int64)
        place[by_end] = np.arange(len(by_end))
        return self.end_s[by_end[np.maximum.accumulate(place)]]  # places of later processes are greater


def unlogged_ms(rows: WorkRows, counts: Bools, n_processes: int) -> list[dict[tuple[str, str], float]]:
    """Sum for each process the time between rows of any thread, by the operations before and after it.

    A host is ahead of its device: where there are rows of the device, these are the ones before and after.

    Args:
        rows: the rows.
        counts: which of them count.
        n_processes: the number of processes.
    """
    at = np.flatnonzero(counts & (rows.start_s <= rows.end_s))
    at = at[order_by(rows.process[at], rows.start_s[at])]
    of_all = _Spans(rows.process, rows.operation, rows.start_s, rows.end_s, rows.on_device).only(at)
    until_s = of_all.latest_end_s
    later = 1 + np.flatnonzero((of_all.start_s[1:] > until_s[:-1]) & (np.diff(of_all.process) == 0))
    begin_s, end_s, process = until_s[later - 1], of_all.start_s[later], of_all.process[later]
    has_device = np.bincount(of_all.process, of_all.on_device, minlength=n_processes) > 0
    around = of_all.only(of_all.on_device | ~has_device[of_all.process]) if has_device.any() else of_all
    by_end = order_by(around.process, around.end_s)
    first = np.searchsorted(around.process, np.arange(n_processes + 1))
    before = first_above(first, around.end_s[by_end], process, begin_s) - 1
    after = first_above(first, around.start_s, process, np.nextafter(end_s, -np.inf))
    known = (before >= first[process]) & (after < first[process + 1])
    operation, n = around.operation, len(rows.operations)
    pair = (process[known] * n + operation[by_end[before[known]]]) * n + operation[after[known]]
    return _by_names(pair, 1000 * (end_s - begin_s)[known], rows.operations, n_processes)


def _by_names(
    pair: Ints, ms: Floats, names: list[str], n_processes: int
) -> list[dict[tuple[str, str], float]]:
    """Sum times by process and two names: those of the codes that ``pair`` is made of."""
    sums_ms: list[dict[tuple[str, str], float]] = [{} for _ in range(n_processes)]
    code = dense_codes(pair)
    one = any_row_of(code)
    for key, total_ms in zip(pair[one].tolist(), np.bincount(code, ms).tolist(), strict=True):
        process, before, after = key // len(names) ** 2, key // len(names) % len(names), key % len(names)
        sums_ms[process][names[before], names[after]] = total_ms
    return sums_ms

"""Compute how much communication is hidden behind a rank's own work, and parallel efficiencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, cast

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.rows.analysis import COLUMNS_OF, ByProcess
from timing_logger.analysis.rows.arrays import (
    Array,
    Bools,
    Floats,
    Frame,
    Ints,
    Schema,
    coded_text,
    dense_codes,
    numbers,
    processes_of,
)
from timing_logger.analysis.rows.grouping import any_row_of, greatest_of_each, least_of_each, quantiles, sums
from timing_logger.analysis.rows.intervals import (
    OpenPieces,
    lanes_of,
    stretches,
    unblocked_work,
    union_lengths,
)
from timing_logger.analysis.rows.operations import (
    BACKEND,
    COPIES,
    base_operation,
    is_communication,
    is_own_work,
    is_wait,
)
from timing_logger.analysis.rows.steps import Numbering, durations_s, epochs_of, iterations_since, steps_of
from timing_logger.analysis.rows.tables import like, new_columns, nullable_integers, of_pandas, opened, taken

_STEP = ("rank", "incarnation", "iteration")

_COMMUNICATION, _COMPUTE, _COPY, _WAIT, _BLOCKED = range(5)
_OTHER, _TWIN = -1, -2


def overlap(timings: IntoDataFrameT) -> IntoDataFrameT:
    """Compute for each step how much of its communication is hidden behind the rank's own work.

    Own work is ``FORWARD``, ``BACKWARD``, ``OPTIMIZER``, ``DATA``, ``COMPRESS``, ``MERGE``,
    ``DECOMPRESS`` and every name that is not communication, a copy, a probe, ``WAIT`` or ``BACKEND``. A
    thread that is in a blocking collective or in a ``WAIT`` does nothing else: this time does not count as
    own work, even if a row of work of the same thread encloses it. Rows of the device's clock are only
    subtracted from each other, since a device works on while a thread waits.

    Where a process has no row of own work at all, it is unknown what hides its communication, but it may be
    known when it was blocked. Then communication is exposed while the process had a ``WAIT`` row, or was in a
    blocking call.

    Args:
        timings: a table of timings, as ``read_timings`` returns.

    Returns:
        One row for each rank, incarnation and step. A step is an iteration; NA stands for all rows outside
        of any iteration.

    Columns:
        rank, incarnation, iteration.
        epoch: only where iterations restart, and a step is known by both.
        communication_ms: length of the union of the communication rows; for non-blocking operations from
            issue to completion.
        compute_ms: length of the union of own work, as above (NaN if the process has no such row).
        copy_ms: length of the union of copies between host and device.
        waited_ms: length of the union of ``WAIT`` rows.
        exposed_ms: time of communication while there was no own work. NaN if the process has no rows of own
            work, has non-blocking communication, and has no ``WAIT`` row.
        hidden_ms: ``communication_ms - exposed_ms``.
        overlap: ``hidden_ms / communication_ms`` (0 to 1; NaN without communication).
        step_ms: from the first row of the step to the first of the next one, per iteration where some are
            not recorded; for the last step of a process, or of an epoch, to the end of its last row.
            ``BACKEND`` rows do not count: their instants are those at which the backend noticed the events.

    Each time is 0 where there are no such rows, and NaN where no row of the step has instants.
    """
    return reduce_overlap([map_overlap(timings)])


@dataclass(frozen=True)
class OverlapPart(Generic[IntoDataFrameT]):
    """The overlap of some processes.

    Attributes:
        table: as ``overlap`` returns it, always with ``epoch``.
        numbering: what the numbers of their steps mean.
    """

    table: nw.DataFrame[IntoDataFrameT]
    numbering: Numbering


def map_overlap(timings: IntoDataFrameT) -> OverlapPart[IntoDataFrameT]:
    """Compute the overlap of whole processes, such as those of one file."""
    frame = opened(timings, COLUMNS_OF["overlap"])
    steps = steps_of(frame)
    step = dense_codes(processes_of(frame), steps.number)
    row = any_row_of(step)
    epoch = np.where(np.isnan(steps.number), np.nan, epochs_of(frame).of_row)
    figures = _figures(frame, step, row)
    table = taken(frame, _STEP, row).with_columns(
        nullable_integers(frame, "epoch", epoch[row]),
        *new_columns(frame, figures),
    )
    return OverlapPart(table, steps.numbering)


def reduce_overlap(parts: Sequence[OverlapPart[IntoDataFrameT]]) -> IntoDataFrameT:
    """Join the overlap of all processes, as :func:`overlap` returns it.

    Args:
        parts: as ``map_overlap`` returned them; no process is in two parts.
    """
    table = nw.maybe_reset_index(nw.concat([part.table for part in parts]))
    if not any(part.numbering.restarts for part in parts):
        table = table.drop("epoch")
    elif any(part.numbering.counted for part in parts):
        # A process whose iterations never restarted was in the first pass all the time.
        has_no_epoch = nw.col("epoch").max().over("rank", "incarnation").is_null()
        first_pass = has_no_epoch & ~nw.col("iteration").is_null()
        table = table.with_columns(epoch=nw.when(first_pass).then(0).otherwise(nw.col("epoch")))
    return cast("IntoDataFrameT", table.to_native())


class _Rows(NamedTuple):
    """The columns that overlap is computed from; one entry per row.

    Attributes:
        step: number of the row's rank, incarnation and step.
        lane: number of the row's thread or stream.
        starts, ends: the interval of the row, in seconds.
        kind: one of the kinds of this module (``_COMMUNICATION``, ...).
        blocks: whether the row's thread, or stream, does nothing else meanwhile.
    """

    step: Ints
    lane: Ints
    starts: Floats
    ends: Floats
    kind: Ints
    blocks: Bools

    @classmethod
    def of(cls, frame: Frame, step: Ints) -> _Rows:
        lanes = lanes_of(frame)
        operation, operations = coded_text(frame, "operation")
        return cls(
            step=step,
            lane=lanes.lane,
            starts=numbers(frame, "start_counter"),
            ends=numbers(frame, "end_counter"),
            kind=np.array([_kind_of(name) for name in operations], np.int64)[operation],
            blocks=lanes.blocks,
        )

    def only(self, wanted: Bools) -> _Rows:
        return _Rows._make(values[wanted] for values in self)


def _kind_of(name: str) -> int:
    if is_communication(name):
        return _COMMUNICATION
    if is_own_work(name):
        return _COMPUTE
    if is_wait(name):
        return _WAIT
    if base_operation(name) == BACKEND:
        return _TWIN
    return _COPY if base_operation(name) in COPIES else _OTHER


def _figures(frame: Frame, step: Ints, row: Ints) -> dict[str, Floats]:
    """Compute the columns of :func:`overlap`; ``row`` is the position of one row of each step."""
    rows = _Rows.of(frame, step)
    n_steps, process = len(row), processes_of(frame)[row]
    lengths_s = np.zeros((6, n_steps))
    rank = frame["rank"].to_numpy()
    for one in np.unique(rank):  # rank by rank, as only so much need be sorted at a time
        lengths_s += _of_one_rank(rows.only(rank == one), n_steps)
    unknown = np.bincount(step[~np.isnan(rows.starts + rows.ends)], minlength=n_steps) == 0
    lengths_s[:, unknown] = np.nan
    communication_ms, compute_ms, beside_work_ms, blocked_ms, copy_ms, waited_ms = 1e3 * lengths_s
    works, tells_who_is_blocked = _what_is_recorded(rows, process)
    hidden_ms = np.where(works, beside_work_ms, communication_ms - blocked_ms)
    hidden_ms = np.where(works | tells_who_is_blocked, hidden_ms, np.nan)
    told, since = rows.only(rows.kind != _TWIN), iterations_since(numbers(frame, "iteration")[row], process)
    lasted_ms = 1e3 * durations_s(told.starts, told.ends, told.step, since)
    return {
        "communication_ms": communication_ms,
        "compute_ms": np.where(works, compute_ms, np.nan),
        "copy_ms": copy_ms,
        "waited_ms": waited_ms,
        "exposed_ms": communication_ms - hidden_ms,
        "hidden_ms": hidden_ms,
        "overlap": hidden_ms / np.where(communication_ms > 0, communication_ms, np.nan),
        "step_ms": np.where(lasted_ms > 0, lasted_ms, np.nan),
    }


def _what_is_recorded(rows: _Rows, process_of_step: Ints) -> tuple[Bools, Bools]:
    """Tell for each step whether its process has own work, and whether its rows tell when it was blocked."""
    process = process_of_step[rows.step] if len(rows.step) else rows.step
    n_processes = int(process_of_step.max(initial=-1)) + 1

    def has(wanted: Bools) -> Bools:
        return np.bincount(process[wanted], minlength=n_processes) > 0

    goes_on = has((rows.kind == _COMMUNICATION) & ~rows.blocks)
    tells = ~goes_on | has(rows.kind == _WAIT)
    return has(rows.kind == _COMPUTE)[process_of_step], tells[process_of_step]


def _of_one_rank(rows: _Rows, n_steps: int) -> Floats:
    """Return the seconds of each step in communication, own work, both at once, and others (6 x steps).

    The others are communication while the process was blocked in it, copies, and waits.
    """
    communicates, computes, copies, waits, blocked = (pieces := _pieces(rows, _own_work(rows))).is_open
    wanted = [communicates, computes, communicates & computes, communicates & blocked, copies, waits]
    return np.stack([pieces.length_s(those, n_steps) for those in wanted])


def _own_work(rows: _Rows) -> OpenPieces:
    """Return the stretches of own work in which its thread was not blocked; their owners are steps."""
    work = rows.only((rows.kind == _COMPUTE) | rows.blocks)
    owner = dense_codes(work.step, work.lane)
    pieces = unblocked_work(owner, work.starts, work.ends, work.blocks)
    step_of = work.step[any_row_of(owner)]
    return pieces._replace(owner=step_of[pieces.owner] if len(pieces.owner) else pieces.owner)


def _pieces(rows: _Rows, own_work: OpenPieces) -> OpenPieces:
    others = rows.only((rows.kind >= 0) & (rows.kind != _COMPUTE))
    blocked = others.only(others.blocks)
    kinds = others.kind, np.full(len(own_work.owner), _COMPUTE), np.full(len(blocked.kind), _BLOCKED)
    return stretches(
        np.concatenate([others.step, own_work.owner, blocked.step]),
        np.concatenate([others.starts, own_work.start_s, blocked.starts]),
        np.concatenate([others.ends, own_work.end_s, blocked.ends]),
        np.concatenate(kinds),
        5,
    )


def _durations_s(rows: _Rows, n_owners: int) -> Floats:
    rows = rows.only(rows.kind != _TWIN)
    last_s = greatest_of_each(rows.ends, rows.step, n_owners)
    lasted_s = last_s - least_of_each(rows.starts, rows.step, n_owners)
    return np.where(np.isfinite(lasted_s), lasted_s, 0.0)


# -- of the run ----------------------------------------------------------------------------------------


_EFFICIENCIES: Schema = {
    "ranks": nw.Int64, "useful_mean_ms": nw.Float64, "useful_max_ms": nw.Float64, "runtime_ms": nw.Float64,
    "load_balance": nw.Float64, "communication_efficiency": nw.Float64, "parallel_efficiency": nw.Float64,
}  # fmt: skip


def efficiencies(timings: IntoDataFrameT) -> IntoDataFrameT:
    """Compute the parallel efficiencies of a run as POP defines them, from 0 to 1; 0.8 is acceptable.

    Useful time is a rank's own work, as in :func:`overlap`, summed over all of its incarnations. Instants of
    different ranks are never compared, so no common clock is needed.

    Args:
        timings: a table of timings, as ``read_timings`` returns.

    Returns:
        One row for the run; none if ``timings`` has no rows. Efficiencies are NaN where there is no own
        work. All but ``ranks`` is NaN if no row has instants.

    Columns:
        ranks: number of ranks (int64).
        useful_mean_ms, useful_max_ms: mean and maximum of the useful time over the ranks.
        runtime_ms: the longest time of a rank from its first row to its last, summed over its incarnations.
        load_balance: ``useful_mean_ms / useful_max_ms``.
        communication_efficiency: ``useful_max_ms / runtime_ms``.
        parallel_efficiency: ``load_balance * communication_efficiency``.
    """
    frame = opened(timings, COLUMNS_OF["efficiencies"])
    return efficiencies_of(frame, process_times(frame))


class ProcessTimes(NamedTuple):
    """The times that efficiencies are computed from; one entry per process, by rank and incarnation.

    Attributes:
        rank: rank of the process.
        useful_s: length of the union of the process's own work, in seconds.
        runtime_s: time from the process's first row to its last, in seconds.
    """

    rank: Ints
    useful_s: Floats
    runtime_s: Floats


def process_times(frame: Frame) -> ProcessTimes:
    """Compute the useful time and runtime of each process of a table that ``opened`` returned."""
    rank = frame["rank"].to_numpy()
    process = processes_of(frame)
    rows = _Rows.of(frame, process)
    useful, runtime = np.zeros((2, n_processes := int(process.max(initial=-1)) + 1))
    for one in np.unique(rank):  # rank by rank, as only so much need be sorted at a time
        of_rank = rows.only(rank == one)
        work = _own_work(of_rank)
        useful += union_lengths(work.owner, work.start_s, work.end_s, n_processes)
        runtime += _durations_s(of_rank, n_processes)
    return ProcessTimes(rank[any_row_of(process)], useful, runtime)


def efficiencies_of(frame: nw.DataFrame[IntoDataFrameT], times: ProcessTimes) -> IntoDataFrameT:
    """Compute :func:`efficiencies` from the times of all processes, in the library of ``frame``."""
    rank = dense_codes(times.rank)
    n_ranks = int(rank.max(initial=-1)) + 1
    useful_ms, runtime_ms = (1e3 * sums(values, rank, n_ranks) for values in times[1:])
    return like(frame, _EFFICIENCIES, [_efficiencies(useful_ms, runtime_ms)] if n_ranks else [])


def _efficiencies(useful_ms: Floats, runtime_ms: Floats) -> tuple[object, ...]:
    mean, most, longest = float(useful_ms.mean()), float(useful_ms.max()), float(runtime_ms.max())
    if not longest > 0:
        return len(useful_ms), *[np.nan] * 6
    balance = mean / most if most > 0 else np.nan
    efficiency = most / longest if most > 0 else np.nan
    return len(useful_ms), mean, most, longest, balance, efficiency, balance * efficiency


_OF_STEPS = ("rank", "incarnation")


_STEP_FIGURES = (
    "communication_ms", "compute_ms", "copy_ms", "waited_ms", "exposed_ms", "hidden_ms", "overlap", "step_ms",
)  # fmt: skip


def summarize_overlap(overlap: IntoDataFrameT) -> IntoDataFrameT:
    """Summarize the overlap of each rank and incarnation; rows outside of iterations are left out.

    Args:
        overlap: as :func:`timing_logger.analysis.overlap` returns.

    Returns:
        One row for each rank and incarnation, in ascending order.

    Columns:
        rank, incarnation.
        iterations: number of iterations, those of each epoch where they restart.
        communication_ms, compute_ms, copy_ms, waited_ms, exposed_ms, hidden_ms, overlap, step_ms: medians
            over the iterations (NaN if unknown).
    """
    frame = opened(overlap, _OF_STEPS)
    frame = frame.filter(~nw.col("iteration").is_null())
    key = processes_of(frame)
    row = any_row_of(key)
    figures: dict[str, Array] = {"iterations": np.bincount(key, minlength=len(row))}
    for name in _STEP_FIGURES:
        figures[name] = quantiles(numbers(frame, name), key, len(row), [0.5])[0]
    table = taken(frame, _OF_STEPS, row).with_columns(*new_columns(frame, figures))
    return cast("IntoDataFrameT", table.to_native())


# -- from parts --------------------------------------------------------------------------------------

OVERLAP: ByProcess[OverlapPart[pd.DataFrame], pd.DataFrame] = ByProcess(
    COLUMNS_OF["overlap"], map_overlap, reduce_overlap
)
"""The analysis :func:`overlap` in parts."""


def _process_times(timings: pd.DataFrame) -> ProcessTimes:
    return process_times(opened(timings, COLUMNS_OF["efficiencies"]))


def _efficiencies_of_all(parts: Sequence[ProcessTimes]) -> pd.DataFrame:
    times = ProcessTimes(*(np.concatenate(values) for values in zip(*parts, strict=True)))
    found: pd.DataFrame = efficiencies_of(of_pandas(), times)
    return found


EFFICIENCIES = ByProcess(COLUMNS_OF["efficiencies"], _process_times, _efficiencies_of_all)
"""The analysis :func:`efficiencies` in parts: a part holds two numbers for each process."""

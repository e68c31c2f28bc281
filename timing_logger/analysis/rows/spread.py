"""Find a rank that spends far less time than the others in an operation that synchronises them all.

In such an operation the ranks that arrive early wait, so the rank with the least time is the one that
arrived last. The comparison is made step by step, on the steps that all ranks recorded alike; it
says which rank stands out only where the difference is large, matters and recurs. Why that rank
came late is another question.

The times are summed by rank and step first. The sums are about a hundredth of the rows, and all that the
comparison needs. They can be made file by file and joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Frame,
    Ints,
    Schema,
    coded_text,
    dense_codes,
    each_text,
    in_few_bytes,
    known,
    numbers,
    processes_of,
)
from timing_logger.analysis.rows.grouping import any_row_of, greatest_of_each, sums
from timing_logger.analysis.rows.intervals import wall_times_s
from timing_logger.analysis.rows.operations import synchronises_all_ranks
from timing_logger.analysis.rows.steps import Epochs, Meaning, epochs_of, numbered, processes_that_restart
from timing_logger.analysis.rows.tables import like, opened
from timing_logger.results import criteria
from timing_logger.schema.record import OK


class SynchronisedSteps(NamedTuple):
    """Sums over the valid rows of each operation, group, process and step; one entry for each.

    Attributes:
        names: the distinct pairs of operation and group, ascending.
        name: index of the entry's pair in ``names``.
        rank, incarnation: of the process.
        epoch, iteration, seq: of the step; NaN where not recorded. ``seq`` is also NaN where the iteration
            is recorded.
        group_size: the largest group size that is stated; NaN if none is.
        n_rows, total_bytes, time_ms: the number of rows, and sums of their bytes and times.
    """

    names: list[tuple[str, str]]
    name: Ints
    rank: Ints
    incarnation: Ints
    epoch: Floats
    iteration: Floats
    seq: Floats
    group_size: Floats
    n_rows: Ints
    total_bytes: Floats
    time_ms: Floats

    def only(self, wanted: Bools) -> SynchronisedSteps:
        """Return the entries that are ``wanted``, with the same ``names``."""
        return SynchronisedSteps._make((self.names, *(values[wanted] for values in self[1:])))


def synchronised_steps(frame: Frame) -> SynchronisedSteps:
    """Sum the rows of operations that synchronise all ranks, of a table that ``opened`` returned."""
    operation, group = coded_text(frame, "operation"), coded_text(frame, "group")
    elapsed_ms = numbers(frame, "elapsed_ms")
    is_ok = each_text(coded_text(frame, "status"), OK.__eq__)
    row = np.flatnonzero(each_text(operation, synchronises_all_ranks) & is_ok & (elapsed_ms >= 0))
    rank, incarnation = (frame[name].to_numpy()[row] for name in ("rank", "incarnation"))
    iteration, seq = (numbers(frame, name)[row] for name in ("iteration", "seq"))
    epoch = epochs_of(frame).of_row[row]
    seq = np.where(np.isnan(iteration), seq, np.nan)
    name = dense_codes(operation[0][row], group[0][row])
    key = dense_codes(name, rank, incarnation, epoch, iteration, seq)
    one = any_row_of(key)
    one_of_name = row[any_row_of(name)]
    names = [(operation[1][operation[0][i]], group[1][group[0][i]]) for i in one_of_name]
    return SynchronisedSteps(
        names=names,
        name=in_few_bytes(name[one]),
        rank=in_few_bytes(rank[one]),
        incarnation=in_few_bytes(incarnation[one]),
        epoch=epoch[one],
        iteration=iteration[one],
        seq=seq[one],
        group_size=greatest_of_each(numbers(frame, "group_size")[row], key, len(one)),
        n_rows=in_few_bytes(np.bincount(key, minlength=len(one))),
        total_bytes=sums(numbers(frame, "message_size_bytes")[row], key, len(one)),
        time_ms=sums(elapsed_ms[row], key, len(one)),
    )


def joined_steps(parts: Sequence[SynchronisedSteps]) -> SynchronisedSteps:
    """Join the sums of tables that have no process in common."""
    names = sorted({name for part in parts for name in part.names})
    place = {name: i for i, name in enumerate(names)}
    moved = [
        part._replace(name=in_few_bytes(np.array([place[name] for name in part.names], np.int64))[part.name])
        for part in parts
    ]
    columns = (np.concatenate(values) for values in zip(*(part[1:] for part in moved), strict=True))
    return SynchronisedSteps._make((names, *columns))


_SCHEMA: Schema = {
    "operation": nw.String, "group": nw.String, "ranks": nw.Int64, "steps": nw.Int64,
    "least_rank": nw.Int64, "least_ms": nw.Float64, "least_in_steps": nw.Int64,
    "others_min_ms": nw.Float64, "others_median_ms": nw.Float64, "others_max_ms": nw.Float64,
    "ratio": nw.Float64, "stands_out": nw.Boolean,
}  # fmt: skip


def spread_between_ranks(timings: IntoDataFrameT) -> IntoDataFrameT:
    """Compare the time that ranks spend in operations that synchronise all ranks of a group.

    A step is a training iteration (of an epoch, where iterations restart), or one operation (``seq``) where
    no iteration is recorded. The steps that are compared are those in which all ranks of the group have
    equally many valid records (and, in a group without a name, equally many bytes). An operation and group
    that cannot be compared has no row: there is no such step, ranks of the group are missing, or a rank has
    several incarnations.

    Args:
        timings: a table of timings, as ``read_timings`` returns.

    Returns:
        One row for each operation that synchronises all ranks, and each group that called it.

    Columns:
        operation, group.
        ranks: number of ranks that were compared.
        steps: number of steps that were compared.
        least_rank: the rank with the least time over these steps.
        least_ms: time of ``least_rank``.
        least_in_steps: number of steps in which ``least_rank`` had the least time.
        others_min_ms, others_median_ms, others_max_ms: time of the other ranks.
        ratio: ``others_median_ms / least_ms``.
        stands_out: whether ``least_rank`` is far from all the others, by ``STANDS_OUT_TIMES``, in
            ``STANDS_OUT_STEPS`` steps or more and most of all, and by no trifle of the wall time.
    """
    frame = opened(timings, COLUMNS_OF["overview"])
    return spread_of_steps(frame, synchronised_steps(frame), wall_times_s(frame, processes_of(frame)))


def spread_of_steps(
    frame: nw.DataFrame[IntoDataFrameT], steps: SynchronisedSteps, walls_s: Floats
) -> IntoDataFrameT:
    """Compute :func:`spread_between_ranks` from sums by step.

    Args:
        frame: any table of the library that the result shall be of.
        steps: the sums by step of all processes.
        walls_s: the wall time of each process in seconds; those that are not positive are left out.
    """
    walls_s = walls_s[walls_s > 0]
    wall_ms = 1000 * float(np.median(walls_s)) if len(walls_s) else float("inf")
    found = [
        (*name, *_compared(*common, wall_ms))
        for code, name in enumerate(steps.names)
        if (common := _common_steps(steps.only(steps.name == code), is_named=name[1] != "")) is not None
    ]
    return like(frame, _SCHEMA, found)


def _compared(ranks: Ints, time_ms: Floats, wall_ms: float) -> tuple[object, ...]:
    total_ms = time_ms.sum(axis=0)
    least = int(total_ms.argmin())
    others = np.delete(total_ms, least)
    n_steps = len(time_ms)
    least_in_steps = int((time_ms.argmin(axis=1) == least).sum())
    stands_out = (
        n_steps >= criteria.STANDS_OUT_STEPS
        and least_in_steps > criteria.MOST_SHARE * n_steps
        and others.min() >= criteria.STANDS_OUT_TIMES * total_ms[least]
        and np.median(others) - total_ms[least] >= criteria.TRIFLE_SHARE * wall_ms
    )
    ratio = float(np.median(others)) / total_ms[least] if total_ms[least] > 0 else float("nan")
    return (
        len(ranks), n_steps, int(ranks[least]), float(total_ms[least]), least_in_steps,
        float(others.min()), float(np.median(others)), float(others.max()), ratio, bool(stands_out),
    )  # fmt: skip


def _common_steps(part: SynchronisedSteps, *, is_named: bool) -> tuple[Ints, Floats] | None:
    """Return ranks, and their times in ms in the steps that all recorded alike (steps x ranks).

    It is None if there are no such steps, or ranks are missing.
    """
    known_steps = (column for column in (_steps(part), part.seq) if not np.isnan(column).all())
    step = next(known_steps, None)
    if step is None:
        return None
    part, step = part.only(~np.isnan(step)), known(step)
    if not _all_ranks_once(part):
        return None
    ranks, rank_at = np.unique(part.rank, return_inverse=True)
    steps, step_at = np.unique(step, return_inverse=True)

    def placed(values: Floats | Ints) -> Floats:
        return sums(values, step_at * len(ranks) + rank_at, len(steps) * len(ranks)).reshape(len(steps), -1)

    alike = _same_on_all(placed(part.n_rows))
    if not is_named:
        alike &= _same_on_all(placed(part.total_bytes))
    time_ms = placed(part.time_ms)[alike]
    return (ranks, time_ms) if len(time_ms) else None


def _steps(part: SynchronisedSteps) -> Floats:
    process = dense_codes(part.rank, part.incarnation)
    restarts = np.isin(process, processes_that_restart(process, part.epoch, part.iteration))
    meaning = Meaning.TELL_STEPS_APART if restarts.any() else Meaning.NOTHING
    return numbered(Epochs(part.epoch, restarts, meaning), part.iteration).number


def _same_on_all(by_step_and_rank: Floats) -> Bools:
    alike: Bools = (by_step_and_rank == by_step_and_rank[:, :1]).all(axis=1)
    return alike


def _all_ranks_once(part: SynchronisedSteps) -> bool:
    n_ranks = len(np.unique(part.rank))
    group_sizes = known(part.group_size)
    whole = not len(group_sizes) or n_ranks >= group_sizes.max()
    n_processes = dense_codes(part.rank, part.incarnation).max(initial=-1) + 1
    return n_ranks >= 2 and whole and bool(n_processes == n_ranks)

"""How long the ranks of a collective waited for each other, and for whom."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.blocking import lanes_of, waited_for
from timing_logger.analysis.collectives.instances import Instances, find_instances
from timing_logger.analysis.collectives.matching import durations_ms, identified, instants
from timing_logger.analysis.collectives.problems import find_problems
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.group_members import own_numbers
from timing_logger.analysis.operations import (
    ALL_TO_ALL,
    FROM_ROOT,
    SYNCHRONISING,
    TO_ROOT,
    is_collective,
    is_wait,
)
from timing_logger.analysis.steps import with_epoch
from timing_logger.analysis.tables import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    each_text,
    new_column,
    nullable_integers,
    numbers,
    opened,
)

_COLUMNS = (
    "instance", "group", "group_size", "seq", "iteration", "operation", "layer_name", "phase", "rank",
    "incarnation", "elapsed_ms", "message_size_bytes", "matched_by", "row", "arrival_skew_ms", "wait_ms",
    "transfer_ms", "clock_free_wait_ms", "last_arriver", "clock_violation", "uncertainty_ms",
)  # fmt: skip


def waits(timings: IntoDataFrameT) -> IntoDataFrameT:
    """One row for each rank's part in each complete collective of two ranks or more.

    Rank i enters at a_i and is in the operation for d_i. What compares instants of ranks is NaN if the
    clock of one of them is not aligned (``clock_uncertainty_s`` NaN or not there). Of an operation that
    some ranks bring bytes to and others none, the latter are left out: they are neither waited for nor
    waiting (NaN). The definitions are Scalasca's.

    Columns:
        instance, group, group_size, seq, iteration, operation, layer_name, phase, rank, incarnation,
        elapsed_ms, message_size_bytes, matched_by, row: as in ``match_collectives``.
        epoch: only where iterations restart.
        arrival_skew_ms: max a - min a.
        wait_ms: how long this rank waited, from 0 to d_i. Where everybody needs everybody (also
            ``ALLTOALLV`` and ``ALLGATHERV``): max a - a_i, "Wait at NxN". ``BCAST`` and ``SCATTER``:
            a_root - a_i, "Late Broadcast". ``REDUCE`` and ``GATHER``: min a of the others - a_root at
            the root, "Early Reduce", and 0 elsewhere. NaN for other operations. While an operation
            goes on in the background nobody waits but in ``WAIT`` rows: of theirs, the time before
            that instant counts; NaN if there are none.
        transfer_ms: min d: the last to arrive waits for nobody. Needs no common clock. NaN where a row
            covers only the issue (see ``bandwidth``).
        clock_free_wait_ms: d_i - min d, for operations that synchronise all ranks, else NaN. In the
            background it is the operation that waited, not this rank.
        last_arriver: the rank with max a; without a common clock the one with min d, if the operation
            synchronises all ranks; the lowest of several (NA if unknown).
        clock_violation: whether this rank left before one arrived that it needed, by more than
            ``uncertainty_ms``: the clocks are further apart than they say, or the match is wrong.
        uncertainty_ms: how far the difference between this rank's instants and those of any other of
            the instance may be off: what both clocks may, but in an operation that synchronises all ranks
            no more than its rows allow, since each was in it when the others were. Where these contradict
            the clocks (``clock_violation`` of any rank), what the rows allow.
    """
    frame = opened(timings, COLUMNS_OF["waits"])
    parts = complete_instances(frame)
    found, last_arriver = _figures(frame, parts)
    table = identified(frame, parts).with_columns(
        *(new_column(frame, name, values) for name, values in found.items()),
        nullable_integers(frame, "last_arriver", last_arriver),
    )
    return cast("IntoDataFrameT", table.select(*with_epoch(_COLUMNS, table.columns)).to_native())


def _figures(frame: Frame, parts: Instances) -> tuple[dict[str, Floats | Bools], Floats]:
    """The columns that compare the parts of an instance, and beside them ``last_arriver``."""
    arrivals = Arrivals.of(frame, parts)
    violations = clock_violations(parts, arrivals)
    found: dict[str, Floats | Bools] = {
        "arrival_skew_ms": 1e3 * parts.for_parts(arrivals.latest_s - arrivals.earliest_s),
        "wait_ms": 1e3 * _wait_s(frame, parts, arrivals),
        "transfer_ms": _transfer_ms(parts, arrivals),
        "clock_free_wait_ms": clock_free_wait_ms(parts, arrivals.elapsed_s * 1e3, arrivals.counts),
        "clock_violation": violations,
        "uncertainty_ms": 1e3 * _uncertainty_s(parts, arrivals, violations),
    }
    return found, _last_arrivers(parts, arrivals)


def complete_instances(frame: Frame) -> Instances:
    """Collectives of two ranks or more, of which all parts are there."""
    parts = find_instances(frame)
    return complete_among(parts, find_problems(frame, parts))


def complete_among(parts: Instances, problems: Ints) -> Instances:
    """Those of these instances; their problems are as ``find_problems`` returns them."""
    return parts.only((problems == 0) & (parts.n_parts >= 2))


def clock_free_wait_ms(parts: Instances, elapsed_ms: Floats, counts: Bools) -> Floats:
    """For each part what its rank spent beyond the least; NaN where not all ranks need each other.

    The last to arrive waits for nobody, so the others waited that long.

    Args:
        elapsed_ms: how long each was in it.
        counts: which of them have a part in waiting, see ``with_bytes``.
    """
    beyond_ms = elapsed_ms - transfer_times_ms(parts, elapsed_ms, counts)
    return np.where(parts.is_one_of(SYNCHRONISING) & counts, beyond_ms, np.nan)


def _transfer_ms(parts: Instances, arrivals: Arrivals) -> Floats:
    return transfer_times_ms(parts, arrivals.elapsed_s * 1e3, arrivals.counts)


def transfer_times_ms(parts: Instances, elapsed_ms: Floats, counts: Bools) -> Floats:
    """For each part the least time of a rank that ``counts`` in its instance; NaN if one is unknown."""
    return parts.for_parts(_least(np.where(counts, elapsed_ms, np.inf), parts))


def with_bytes(frame: Frame, parts: Instances) -> Bools:
    """Whether the rank counts: it brings bytes, or nobody does."""
    sizes = np.nan_to_num(numbers(frame, "message_size_bytes")[parts.row], nan=1.0)
    nobody_does: Bools = parts.for_parts(_most(sizes, parts) == 0)
    return (sizes > 0) | nobody_does


def is_root(frame: Frame, parts: Instances) -> Bools:
    """Whether the part is that of the operation's root; the parts are those of complete instances."""
    group, names = coded_text(frame, "group")
    place = np.arange(len(parts.row)) - parts.for_parts(parts.first)
    number = own_numbers((group[parts.row], names), parts.rank, place)
    found: Bools = number == numbers(frame, "peer")[parts.row]
    return found


# -- arrivals ----------------------------------------------------------------------------------------


class Arrivals(NamedTuple):
    """When ranks came; one entry for each part, or each instance where it says so. NaN if unknown.

    Attributes:
        start_s: when it began; NaN for all parts of an instance with a clock that is not aligned.
        elapsed_s: how long it took; NaN where the operation went on after the row.
        counts: whether the rank has a part in waiting.
        is_root: whether it is the root, of a rooted operation.
        earliest_s, latest_s: for each instance, of the parts that count.
        uncertainty_s: of the difference to any other part's instant, as the clocks say.
    """

    start_s: Floats
    elapsed_s: Floats
    counts: Bools
    is_root: Bools
    earliest_s: Floats
    latest_s: Floats
    uncertainty_s: Floats

    @classmethod
    def of(cls, frame: Frame, parts: Instances) -> Arrivals:
        start_s, _, half_width_s = (values[parts.row] for values in instants(frame))
        widest_s = parts.for_parts(_most(half_width_s, parts))
        start_s = np.where(np.isnan(widest_s), np.nan, start_s)
        counts = with_bytes(frame, parts)
        return cls(
            start_s=start_s,
            elapsed_s=durations_ms(frame)[parts.row] / 1e3,
            counts=counts,
            is_root=is_root(frame, parts),
            earliest_s=_least(np.where(counts, start_s, np.inf), parts),
            latest_s=_most(np.where(counts, start_s, -np.inf), parts),
            uncertainty_s=half_width_s + widest_s,
        )


def _last_arrivers(parts: Instances, arrivals: Arrivals) -> Floats:
    by_clock = arrivals.start_s == parts.for_parts(arrivals.latest_s)
    least_s = parts.for_parts(_least(np.where(arrivals.counts, arrivals.elapsed_s, np.inf), parts))
    by_time = parts.is_one_of(SYNCHRONISING) & (arrivals.elapsed_s == least_s)
    is_last = np.where(parts.for_parts(np.isnan(arrivals.latest_s)), by_time, by_clock) & arrivals.counts
    lowest = _least(np.where(is_last, parts.rank, np.inf), parts)
    return parts.for_parts(np.where(np.isinf(lowest), np.nan, lowest))


# -- waiting -----------------------------------------------------------------------------------------


def _needed_from_s(parts: Instances, arrivals: Arrivals) -> tuple[Floats, Floats]:
    """For each part the instants of the first and of the last arrival without which it cannot end.

    Its own where it needs nobody's; NaN where that is unknown.
    """
    start_s, is_root = arrivals.start_s, arrivals.is_root
    has_root = parts.for_parts(np.logical_or.reduceat(is_root, parts.first)) if len(is_root) else is_root
    root_s = parts.for_parts(_most(np.where(is_root, start_s, -np.inf), parts))
    first_s = parts.for_parts(_least(np.where(is_root, np.inf, start_s), parts))
    last_s = parts.for_parts(_most(np.where(is_root, -np.inf, start_s), parts))
    everybody_s = parts.for_parts(arrivals.latest_s)
    needs_all, needs_root = parts.is_one_of(ALL_TO_ALL), parts.is_one_of(FROM_ROOT) & has_root
    needs_others = parts.is_one_of(TO_ROOT) & has_root
    cases = [~arrivals.counts, needs_all, needs_root, needs_others & is_root, needs_others]
    until_first = np.select(cases, [np.nan, everybody_s, root_s, first_s, start_s], np.nan)
    until_last = np.select(cases, [np.nan, everybody_s, root_s, last_s, start_s], np.nan)
    return until_first, until_last


def _wait_s(frame: Frame, parts: Instances, arrivals: Arrivals) -> Floats:
    until_s, _ = _needed_from_s(parts, arrivals)
    blocked_s = _within(until_s - arrivals.start_s, arrivals.elapsed_s)
    in_background = lanes_of(frame).in_background[parts.row]
    if not in_background.any():
        return blocked_s
    return np.where(in_background, _blocked_in_wait_rows_s(frame, parts, until_s), blocked_s)


def _blocked_in_wait_rows_s(frame: Frame, parts: Instances, until_s: Floats) -> Floats:
    """For each part, how long its rank's ``WAIT`` rows for it lay before ``until_s``; NaN without any."""
    named, has_number = coded_text(frame, "operation"), ~np.isnan(numbers(frame, "seq"))
    rows = np.flatnonzero(each_text(named, is_wait) & has_number)
    collectives = np.flatnonzero(each_text(named, is_collective) & has_number)
    part_of_row = np.full(len(frame), -1)
    part_of_row[parts.row] = np.arange(len(parts.row))
    waited = waited_for(frame, collectives, rows)
    part_of = np.where(waited >= 0, part_of_row[collectives[waited]] if len(collectives) else -1, -1)
    rows, part_of = rows[part_of >= 0], part_of[part_of >= 0]
    start_s, _, _ = instants(frame)
    blocked_s = _within(until_s[part_of] - start_s[rows], numbers(frame, "elapsed_ms")[rows] / 1e3)
    total_s = np.bincount(part_of, blocked_s, minlength=len(parts.row))
    return np.where(np.bincount(part_of, minlength=len(parts.row)) > 0, total_s, np.nan)


def clock_violations(parts: Instances, arrivals: Arrivals) -> Bools:
    """Whether a rank left before one arrived that it needed, by more than the clocks' uncertainty."""
    _, until_s = _needed_from_s(parts, arrivals)
    left_early_s = until_s - arrivals.start_s - arrivals.elapsed_s
    return left_early_s > arrivals.uncertainty_s


def _uncertainty_s(parts: Instances, arrivals: Arrivals, violations: Bools) -> Floats:
    """How far a difference of instants to any other part may be off, by the clocks and by the rows.

    Whoever synchronises leaves after every other has come: ``end_i >= start_j`` and ``end_j >= start_i``, on
    whatever clocks. So the error of their difference is from ``start_j - end_i`` to ``end_j - start_i``.
    """
    start_s, counts = arrivals.start_s, arrivals.counts
    end_s = start_s + arrivals.elapsed_s
    last_end_s = parts.for_parts(_most(np.where(counts, end_s, -np.inf), parts))
    by_rows_s = np.maximum(last_end_s - start_s, end_s - parts.for_parts(arrivals.earliest_s))
    contradicted = parts.for_parts(_most(violations.astype(np.float64), parts)) > 0
    by_clocks_s = np.where(contradicted, np.inf, arrivals.uncertainty_s)
    synchronises = parts.is_one_of(SYNCHRONISING) & counts
    return np.where(synchronises, np.minimum(by_clocks_s, by_rows_s), arrivals.uncertainty_s)


def _within(values: Floats, most: Floats) -> Floats:
    return np.minimum(np.maximum(values, 0.0), most)


def _least(values: Floats, parts: Instances) -> Floats:
    return np.minimum.reduceat(values, parts.first) if len(values) else values


def _most(values: Floats, parts: Instances) -> Floats:
    return np.maximum.reduceat(values, parts.first) if len(values) else values

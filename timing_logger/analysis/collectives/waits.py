"""Compute how long the ranks of a collective waited for each other, and which rank arrived last."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.collectives.matching import (
    Instances,
    find_instances,
    is_root,
    transfer_times_ms,
    with_bytes,
)
from timing_logger.analysis.collectives.problems import find_problems, identified, match_collectives
from timing_logger.analysis.rows.analysis import COLUMNS_OF, OfCommunication
from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    numbers,
)
from timing_logger.analysis.rows.grouping import any_row_of, known_sums, quantiles, sums
from timing_logger.analysis.rows.intervals import durations_ms, instants, lanes_of, waited_for
from timing_logger.analysis.rows.operations import (
    ALL_TO_ALL,
    FROM_ROOT,
    SYNCHRONISING,
    TO_ROOT,
    is_collective,
    is_wait,
)
from timing_logger.analysis.rows.steps import with_epoch
from timing_logger.analysis.rows.tables import new_columns, nullable_integers, opened, taken

_COLUMNS = (
    "instance", "group", "group_size", "seq", "iteration", "operation", "layer_name", "phase", "rank",
    "incarnation", "elapsed_ms", "message_size_bytes", "matched_by", "row", "arrival_skew_ms", "wait_ms",
    "transfer_ms", "clock_free_wait_ms", "last_arriver", "clock_violation", "uncertainty_ms",
)  # fmt: skip


def waits(timings: IntoDataFrameT) -> IntoDataFrameT:
    """Compute how long each rank waited in each complete collective of two ranks or more.

    Rank i enters at a_i and is in the operation for d_i. What compares instants of ranks is NaN if the
    clock of one of them is not aligned (``clock_uncertainty_s`` is NaN or missing). If some ranks bring bytes
    to an operation and others none, the latter are left out: they are neither waited for nor waiting (NaN).
    The definitions are Scalasca's.

    Args:
        timings: a table of timings, as ``read_timings`` returns.

    Returns:
        One row for each rank's part in each such collective, sorted by instance, then rank.

    Columns:
        instance, group, group_size, seq, iteration, operation, layer_name, phase, rank, incarnation,
        elapsed_ms, message_size_bytes, matched_by, row: as in ``match_collectives``.
        epoch: only where iterations restart.
        arrival_skew_ms: max a - min a.
        wait_ms: how long this rank waited, from 0 to d_i. Where every rank needs every other (also
            ``ALLTOALLV`` and ``ALLGATHERV``): max a - a_i, "Wait at NxN". ``BCAST`` and ``SCATTER``:
            a_root - a_i, "Late Broadcast". ``REDUCE`` and ``GATHER``: min a of the others - a_root at
            the root, "Early Reduce", and 0 elsewhere. NaN for other operations. In a non-blocking
            operation a rank waits only in its ``WAIT`` rows: the part of these before the instant at which
            the needed ranks had arrived counts; NaN if there are no such rows.
        transfer_ms: min d, since the last to arrive waits for nobody. Needs no common clock. NaN where a
            row covers only the issue (see ``bandwidth``).
        clock_free_wait_ms: d_i - min d, for operations that synchronise all ranks, else NaN. In a
            non-blocking operation it is the operation that waited, not this rank.
        last_arriver: the rank with max a; without a common clock the one with min d, if the operation
            synchronises all ranks; the lowest of several (NA if unknown).
        clock_violation: whether this rank left, by more than the uncertainty that the clocks state, before
            a rank arrived that it needed: the clocks are further apart than stated, or the match is wrong.
        uncertainty_ms: how far the difference between this rank's instants and those of any other rank of
            the instance may be off. It is the uncertainty of both clocks; but in an operation that
            synchronises all ranks no more than its rows allow, since all ranks were in it at one time.
            Where the rows contradict the clocks (``clock_violation`` of any rank), it is what the rows allow.
    """
    frame = opened(timings, COLUMNS_OF["waits"])
    parts = complete_instances(frame)
    found, last_arriver = _figures(frame, parts)
    table = identified(frame, parts).with_columns(
        *new_columns(frame, found),
        nullable_integers(frame, "last_arriver", last_arriver),
    )
    return cast("IntoDataFrameT", table.select(*with_epoch(_COLUMNS, table.columns)).to_native())


def _figures(frame: Frame, parts: Instances) -> tuple[dict[str, Floats | Bools], Floats]:
    """Compute the columns that compare the parts of an instance, and separately ``last_arriver``."""
    arrivals = Arrivals.of(frame, parts)
    violations = clock_violations(parts, arrivals)
    found: dict[str, Floats | Bools] = {
        "arrival_skew_ms": 1e3 * parts.for_parts(arrivals.latest_s - arrivals.earliest_s),
        "wait_ms": 1e3 * _wait_s(frame, parts, arrivals),
        "transfer_ms": transfer_times_ms(parts, arrivals.elapsed_s * 1e3, arrivals.counts),
        "clock_free_wait_ms": clock_free_wait_ms(parts, arrivals.elapsed_s * 1e3, arrivals.counts),
        "clock_violation": violations,
        "uncertainty_ms": 1e3 * _uncertainty_s(parts, arrivals, violations),
    }
    return found, _last_arrivers(parts, arrivals)


def complete_instances(frame: Frame) -> Instances:
    """Return the complete collectives of two ranks or more, of a table that ``opened`` returned."""
    parts = find_instances(frame)
    return complete_among(parts, find_problems(frame, parts))


def complete_among(parts: Instances, problems: Ints) -> Instances:
    """Return the instances of two ranks or more that have no problem.

    Args:
        parts: as ``find_instances`` returned them.
        problems: of these instances, as ``find_problems`` returned them.
    """
    return parts.only((problems == 0) & (parts.n_parts >= 2))


def clock_free_wait_ms(parts: Instances, elapsed_ms: Floats, counts: Bools) -> Floats:
    """Return for each part its rank's time in ms beyond the least time of the instance.

    The last rank to arrive waits for nobody, so the others waited that long. NaN for operations that do not
    synchronise all ranks, and for parts that do not count.

    Args:
        parts: complete instances.
        elapsed_ms: for each part how long its rank was in the operation.
        counts: for each part whether its rank waits or is waited for, see ``with_bytes``.
    """
    beyond_ms = elapsed_ms - transfer_times_ms(parts, elapsed_ms, counts)
    return np.where(parts.is_one_of(SYNCHRONISING) & counts, beyond_ms, np.nan)


# -- arrivals ----------------------------------------------------------------------------------------


class Arrivals(NamedTuple):
    """The arrival of ranks in collectives, in seconds.

    Attributes have one entry per part unless they say otherwise, and are NaN where unknown.

    Attributes:
        start_s: when the part began; NaN for all parts of an instance with a clock that is not aligned.
        elapsed_s: how long the part took; NaN where the operation went on after the row.
        counts: whether the rank waits or is waited for, see ``with_bytes``.
        is_root: whether the rank is the root of a rooted operation.
        earliest_s, latest_s: one entry per instance: the first and last start of the parts that count.
        uncertainty_s: uncertainty of the difference to the start of any other part, as the clocks state it.
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
        """Return the arrivals at the collectives of ``frame``, of which ``parts`` says who took part."""
        start_s, _, half_width_s = (values[parts.row] for values in instants(frame))
        widest_s = parts.for_parts(parts.most(half_width_s))
        start_s = np.where(np.isnan(widest_s), np.nan, start_s)
        counts = with_bytes(frame, parts)
        return cls(
            start_s=start_s,
            elapsed_s=durations_ms(frame)[parts.row] / 1e3,
            counts=counts,
            is_root=is_root(frame, parts),
            earliest_s=parts.least(np.where(counts, start_s, np.inf)),
            latest_s=parts.most(np.where(counts, start_s, -np.inf)),
            uncertainty_s=half_width_s + widest_s,
        )


def _last_arrivers(parts: Instances, arrivals: Arrivals) -> Floats:
    by_clock = arrivals.start_s == parts.for_parts(arrivals.latest_s)
    least_s = parts.for_parts(parts.least(np.where(arrivals.counts, arrivals.elapsed_s, np.inf)))
    by_time = parts.is_one_of(SYNCHRONISING) & (arrivals.elapsed_s == least_s)
    is_last = np.where(parts.for_parts(np.isnan(arrivals.latest_s)), by_time, by_clock) & arrivals.counts
    lowest = parts.least(np.where(is_last, parts.rank, np.inf))
    return parts.for_parts(np.where(np.isinf(lowest), np.nan, lowest))


# -- waiting -----------------------------------------------------------------------------------------


def _needed_from_s(parts: Instances, arrivals: Arrivals) -> tuple[Floats, Floats]:
    """Return for each part the instants of the first and of the last arrival that it needs, in seconds.

    They are the part's own start where it needs no other rank, and NaN where that is unknown.
    """
    start_s, is_root = arrivals.start_s, arrivals.is_root
    has_root = parts.for_parts(np.logical_or.reduceat(is_root, parts.first)) if len(is_root) else is_root
    root_s = parts.for_parts(parts.most(np.where(is_root, start_s, -np.inf)))
    first_s = parts.for_parts(parts.least(np.where(is_root, np.inf, start_s)))
    last_s = parts.for_parts(parts.most(np.where(is_root, -np.inf, start_s)))
    everybody_s = parts.for_parts(arrivals.latest_s)
    needs_all, needs_root = parts.is_one_of(ALL_TO_ALL), parts.is_one_of(FROM_ROOT) & has_root
    needs_others = parts.is_one_of(TO_ROOT) & has_root
    cases = [~arrivals.counts, needs_all, needs_root, needs_others & is_root, needs_others]
    until_first = np.select(cases, [np.nan, everybody_s, root_s, first_s, start_s], np.nan)
    until_last = np.select(cases, [np.nan, everybody_s, root_s, last_s, start_s], np.nan)
    return until_first, until_last


def _wait_s(frame: Frame, parts: Instances, arrivals: Arrivals) -> Floats:
    until_s, _ = _needed_from_s(parts, arrivals)
    blocked_s = np.clip(until_s - arrivals.start_s, 0.0, arrivals.elapsed_s)
    in_background = lanes_of(frame).in_background[parts.row]
    if not in_background.any():
        return blocked_s
    return np.where(in_background, _blocked_in_wait_rows_s(frame, parts, until_s), blocked_s)


def _blocked_in_wait_rows_s(frame: Frame, parts: Instances, until_s: Floats) -> Floats:
    """Return for each part how much of its rank's ``WAIT`` rows lies before ``until_s``; NaN without any."""
    named, has_number = coded_text(frame, "operation"), ~np.isnan(numbers(frame, "seq"))
    rows = np.flatnonzero(each_text(named, is_wait) & has_number)
    collectives = np.flatnonzero(each_text(named, is_collective) & has_number)
    part_of_row = np.full(len(frame), -1)
    part_of_row[parts.row] = np.arange(len(parts.row))
    waited = waited_for(frame, collectives, rows)
    part_of = np.where(waited >= 0, part_of_row[collectives[waited]] if len(collectives) else -1, -1)
    rows, part_of = rows[part_of >= 0], part_of[part_of >= 0]
    start_s, _, _ = instants(frame)
    blocked_s = np.clip(until_s[part_of] - start_s[rows], 0.0, numbers(frame, "elapsed_ms")[rows] / 1e3)
    total_s = np.bincount(part_of, blocked_s, minlength=len(parts.row))
    return np.where(np.bincount(part_of, minlength=len(parts.row)) > 0, total_s, np.nan)


def clock_violations(parts: Instances, arrivals: Arrivals) -> Bools:
    """Tell for each part whether its rank left before another arrived that it needed.

    Differences within the uncertainty of the clocks do not count.
    """
    _, until_s = _needed_from_s(parts, arrivals)
    left_early_s = until_s - arrivals.start_s - arrivals.elapsed_s
    return left_early_s > arrivals.uncertainty_s


def _uncertainty_s(parts: Instances, arrivals: Arrivals, violations: Bools) -> Floats:
    """Return how far the difference between instants of a part and any other may be off, in seconds.

    It is bounded by the clocks and by the rows. A rank that synchronises leaves after every other has
    arrived: ``end_i >= start_j`` and ``end_j >= start_i``, on whatever clocks. So the error of their
    difference is from ``start_j - end_i`` to ``end_j - start_i``.
    """
    start_s, counts = arrivals.start_s, arrivals.counts
    end_s = start_s + arrivals.elapsed_s
    last_end_s = parts.for_parts(parts.most(np.where(counts, end_s, -np.inf)))
    by_rows_s = np.maximum(last_end_s - start_s, end_s - parts.for_parts(arrivals.earliest_s))
    contradicted = parts.for_parts(parts.most(violations.astype(np.float64))) > 0
    by_clocks_s = np.where(contradicted, np.inf, arrivals.uncertainty_s)
    synchronises = parts.is_one_of(SYNCHRONISING) & counts
    return np.where(synchronises, np.minimum(by_clocks_s, by_rows_s), arrivals.uncertainty_s)


_OF_WAITS = ("operation", "group", "rank", "incarnation")


def summarize_waits(waits: IntoDataFrameT) -> IntoDataFrameT:
    """Summarize waits by operation, group, rank and incarnation.

    Args:
        waits: as :func:`timing_logger.analysis.waits` returns.

    Returns:
        One row for each operation, group, rank and incarnation, in ascending order.

    Columns:
        operation, group, rank, incarnation.
        count: number of collectives.
        wait_ms, clock_free_wait_ms: sums over the collectives (NaN if no collective has one).
        arrival_skew_ms, transfer_ms: medians over the collectives.
        times_last: number of collectives in which this rank was the last to arrive.
        clock_violations: number of collectives in which this rank's part contradicts the clocks.
        uncertainty_ms: the largest over the collectives.
    """
    frame = opened(waits, _OF_WAITS)
    key = dense_codes(
        coded_text(frame, "operation")[0], coded_text(frame, "group")[0],
        frame["rank"].to_numpy(), frame["incarnation"].to_numpy(),
    )  # fmt: skip
    row = any_row_of(key)
    figures = {"count": np.bincount(key, minlength=len(row)), **_wait_figures(frame, key, len(row))}
    table = taken(frame, _OF_WAITS, row).with_columns(*new_columns(frame, figures))
    return cast("IntoDataFrameT", table.to_native())


def _wait_figures(frame: Frame, key: Ints, n_groups: int) -> dict[str, Floats | Ints]:
    is_last = (numbers(frame, "last_arriver") == numbers(frame, "rank")).astype(np.float64)
    violates = frame["clock_violation"].to_numpy().astype(np.float64)
    return {
        "wait_ms": known_sums(numbers(frame, "wait_ms"), key, n_groups),
        "clock_free_wait_ms": known_sums(numbers(frame, "clock_free_wait_ms"), key, n_groups),
        "arrival_skew_ms": quantiles(numbers(frame, "arrival_skew_ms"), key, n_groups, [0.5])[0],
        "transfer_ms": quantiles(numbers(frame, "transfer_ms"), key, n_groups, [0.5])[0],
        "times_last": sums(is_last, key, n_groups).astype(np.int64),
        "clock_violations": sums(violates, key, n_groups).astype(np.int64),
        "uncertainty_ms": quantiles(numbers(frame, "uncertainty_ms"), key, n_groups, [1.0])[0],
    }


_OF_THE_FLAWED = ["group", "seq", "operation", "state", "why"]


class WaitsAndStates(NamedTuple):
    """The summed waits of ranks, and the collectives that are not complete.

    Attributes:
        totals: as ``summarize_waits`` returns.
        states: the number of collectives in each state of ``match_collectives``.
        flawed: the collectives that are not complete, with ``group``, ``seq``, ``operation``, ``state`` and
            ``why``.
    """

    totals: pd.DataFrame
    states: dict[str, int]
    flawed: pd.DataFrame


def waits_and_states(timings: pd.DataFrame) -> WaitsAndStates:
    """Sum the waits of a table of timings, and list the collectives that are not complete."""
    matched = match_collectives(timings).drop_duplicates("instance")
    states = {str(state): int(count) for state, count in matched["state"].value_counts().items() if count}
    flawed = matched.loc[matched["state"] != "complete", _OF_THE_FLAWED].reset_index(drop=True)
    return WaitsAndStates(summarize_waits(waits(timings)), states, flawed)


WAITS = OfCommunication(COLUMNS_OF["waits"], waits_and_states)
"""The analysis :func:`waits_and_states`."""

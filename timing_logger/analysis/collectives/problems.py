"""Find what is wrong with each instance of a collective, and state it in words."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag
from typing import cast

import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.collectives.matching import Instances, find_instances
from timing_logger.analysis.rows.analysis import COLUMNS_OF
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
from timing_logger.analysis.rows.grouping import any_row_of, greatest_of_each, least_of_each
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.operations import FROM_ROOT, TO_ROOT
from timing_logger.analysis.rows.steps import Meaning, epochs_of, steps_of, with_epoch
from timing_logger.analysis.rows.tables import new_column, opened, taken, text_column
from timing_logger.reading.named_ranks import named_ranks
from timing_logger.results import criteria
from timing_logger.schema.record import INCONSISTENT_COUNTERS, INVALID_VALUE, NOT_ENTERED, OK, UNRESOLVED

STATES = ["complete", "incomplete", "mismatched"]

_EQUAL_BYTES = frozenset({"ALLREDUCE", "ALLGATHER", "REDUCE", "REDUCE_SCATTER", "SCAN", "EXSCAN", "BARRIER"})
"""Operations to which all ranks must bring equally many bytes.

``ALLTOALL`` is not among them: its name says that a rank sends equal pieces, but another rank may send
pieces of another size."""

_FINISHED = frozenset({OK, "", INVALID_VALUE, INCONSISTENT_COUNTERS, NOT_ENTERED})
_OPEN = frozenset({UNRESOLVED, "inflight"})


class Problem(IntFlag):
    """What is wrong with an instance; from ``NAME_SHARED`` on, its parts are not of one collective."""

    MISSING = 1
    UNFINISHED = 2
    NAME_SHARED = 4
    UNEQUAL_COUNTS = 8
    OPERATIONS = 16
    SIZES = 32
    ROOTS = 64
    ITERATIONS = 128


def states(problems: Ints) -> Ints:
    """Return for each instance the index of its state in ``STATES``.

    Args:
        problems: as ``find_problems`` returned them.
    """
    return np.where(problems >= Problem.NAME_SHARED, 2, np.where(problems > 0, 1, 0))


def find_problems(frame: Frame, parts: Instances) -> Ints:
    """Return for each instance the sum of its :class:`Problem` flags; 0 if it is complete.

    Args:
        frame: a table that ``opened`` returned.
        parts: its instances, as ``find_instances`` returned them.
    """
    if not len(parts.row):
        return np.zeros(0, np.int64)
    status = coded_text(frame, "status")
    unfinished = ~each_text(status, _FINISHED.__contains__)[parts.row]
    sizes, roots = (numbers(frame, name)[parts.row] for name in ("message_size_bytes", "peer"))
    ranks_seen = np.bincount(_members(frame, parts)[:, 0])  # in any instance of each communicator
    seen = ranks_seen[parts.communicator[parts.first]]
    size = parts.group_size[parts.first]
    found = {
        Problem.MISSING: parts.n_parts < np.where(np.isnan(size), seen, size),
        Problem.UNFINISHED: np.logical_or.reduceat(unfinished, parts.first),
        Problem.NAME_SHARED: seen > size,
        Problem.UNEQUAL_COUNTS: _unequal_counts(parts),
        Problem.OPERATIONS: _differ(parts.operation.astype(np.float64), parts.first),
        Problem.SIZES: _differ(np.where(parts.is_one_of(_EQUAL_BYTES), sizes, np.nan), parts.first),
        Problem.ROOTS: _differ(np.where(parts.is_one_of(FROM_ROOT | TO_ROOT), roots, np.nan), parts.first),
        Problem.ITERATIONS: _iterations_apart(frame, parts) > criteria.MAX_ITERATIONS_APART,
    }
    return sum((problem * has_it for problem, has_it in found.items()), np.zeros(len(parts.first), np.int64))


def _members(frame: Frame, parts: Instances) -> Ints:
    """Return the distinct pairs of communicator and rank, one per row of an array of two columns."""
    _, any_part = np.unique(dense_codes(parts.communicator, parts.rank), return_index=True)
    return np.stack([parts.communicator[any_part], parts.rank[any_part]], axis=1)


def _unequal_counts(parts: Instances) -> Bools:
    """Tell for each instance whether ranks have different numbers of unnumbered operations in its step.

    Such operations are matched only by their order. A rank that has none in the step is missing, and shifts
    nothing.
    """
    of_rank = np.bincount(cell := dense_codes(parts.step, parts.rank))[cell]
    step = dense_codes(parts.step)
    differs = _range(of_rank, step) > 0
    return (differs[step] & ~parts.numbered)[parts.first]


def _iterations_apart(frame: Frame, parts: Instances) -> Floats:
    """Return the largest difference between the iterations of the parts of each instance; 0 if unknown.

    Processes whose iterations restart are compared among themselves within an epoch, the other processes
    among themselves.
    """
    iteration = numbers(frame, "iteration")[parts.row]
    number = np.repeat(np.arange(len(parts.first)), parts.n_parts)
    apart = _range(iteration, number)
    if not (apart > criteria.MAX_ITERATIONS_APART).any():
        return apart
    epochs = epochs_of(frame)
    if epochs.meaning == Meaning.NOTHING:
        return apart
    restarts = epochs.restarts[parts.row]
    alike = dense_codes(number, restarts, np.where(restarts, epochs.of_row[parts.row], 0.0))
    apart = np.zeros(len(parts.first))
    np.maximum.at(apart, number[any_row_of(alike)], _range(iteration, alike))
    return apart


def _range(values: Floats | Ints, of: Ints) -> Floats:
    """Return the difference of the greatest and least known value of each number in ``of``; 0 without any."""
    n_numbers = of.max(initial=-1) + 1
    return np.nan_to_num(greatest_of_each(values, of, n_numbers) - least_of_each(values, of, n_numbers))


def _differ(values: Floats, first: Ints) -> Bools:
    """Tell for each instance whether its parts have different values; NaN agrees with all."""
    return np.fmax.reduceat(values, first) > np.fmin.reduceat(values, first)


# -- in words ------------------------------------------------------------------------------------------


def reasons_for(frame: Frame, parts: Instances, problems: Ints) -> tuple[list[str], Ints]:
    """State in words what is wrong with each instance.

    Args:
        frame: a table that ``opened`` returned.
        parts: its instances, as ``find_instances`` returned them.
        problems: of these instances, as ``find_problems`` returned them.

    Returns:
        The distinct reasons, the first of which is blank, and for each instance the index of its reason.
    """
    reasons, reason_of = [""], np.zeros(len(problems), np.int64)
    flawed = np.flatnonzero(problems)
    if not len(flawed):
        return reasons, reason_of
    statuses = coded_text(frame, "status")
    apart = _iterations_apart(frame, parts)
    apart = np.where(problems & Problem.ITERATIONS, apart, 0.0)
    alike = dense_codes(_fingerprints(parts, statuses[0][parts.row])[flawed], problems[flawed], apart[flawed])
    _, examples = np.unique(alike, return_index=True)
    members = _members(frame, parts)
    reasons += [
        "; ".join(_sentences(parts, int(i), Problem(int(problems[i])), apart[i], statuses, members))
        for i in flawed[examples]
    ]
    reason_of[flawed] = 1 + alike
    return reasons, reason_of


def _fingerprints(parts: Instances, status: Ints) -> Ints:
    """Return a number for each instance, equal for instances that share a reason.

    Their parts have the same communicator, ranks, operations and statuses.
    """
    kinds = dense_codes(parts.communicator, parts.rank, parts.operation, status)
    marks = np.random.default_rng(0).integers(2**63, size=kinds.max() + 1)
    return np.add.reduceat(marks[kinds], parts.first)


def _sentences(
    parts: Instances,
    instance: int,
    problems: Problem,
    apart: float,
    statuses: tuple[Ints, list[str]],
    members: Ints,
) -> Iterator[str]:
    here = slice(parts.first[instance], parts.first[instance] + parts.n_parts[instance])
    communicator, size = parts.communicator[here][0], parts.group_size[here][0]
    known = members[members[:, 0] == communicator, 1]
    if Problem.NAME_SHARED in problems:
        yield f"{len(known)} ranks share the name of a group of {size:.0f}: give each group a name of its own"
    if Problem.UNEQUAL_COUNTS in problems:
        yield "no seq, and ranks have unequally many collectives in this iteration"
    if Problem.OPERATIONS in problems:
        yield "operations " + ", ".join(parts.operations[i] for i in np.unique(parts.operation[here]))
    if Problem.SIZES in problems:
        yield "sizes differ"
    if Problem.ROOTS in problems:
        yield "roots differ"
    if Problem.ITERATIONS in problems:
        yield (
            f"ranks are {apart:.0f} iterations apart: these are probably rows of different runs, or of a "
            "group that was created again"
        )
    if Problem.MISSING in problems and Problem.NAME_SHARED not in problems:
        if len(missing := np.setdiff1d(known, parts.rank[here])):
            yield f"{named_ranks(missing)} missing"
        if (unheard_of := size - len(known)) > 0:
            yield f"no rows of {unheard_of:.0f} of the group's ranks"
    if Problem.UNFINISHED in problems:
        yield from _unfinished(parts, here, statuses)


def _unfinished(parts: Instances, here: slice, statuses: tuple[Ints, list[str]]) -> Iterator[str]:
    status = np.array(statuses[1])[statuses[0][parts.row[here]]]
    is_open = np.array([text in _OPEN for text in status])
    failed = np.array([text not in _OPEN | _FINISHED for text in status])
    for those, what in ((is_open, "did not finish"), (failed, "failed")):
        if those.any():
            yield f"{named_ranks(parts.rank[here][those])} {what}"


_OF_THE_ROW = (
    "group", "group_size", "seq", "iteration", "layer_name", "phase", "rank", "incarnation", "elapsed_ms",
    "message_size_bytes",
)  # fmt: skip

_COLUMNS = (
    "instance", "group", "group_size", "seq", "iteration", "operation", "layer_name", "phase", "rank",
    "incarnation", "start_s", "end_s", "elapsed_ms", "message_size_bytes", "clock_uncertainty_s",
    "matched_by", "state", "why", "row",
)  # fmt: skip


def match_collectives(timings: IntoDataFrameT) -> IntoDataFrameT:
    """Match the parts that ranks have in the same collective.

    Parts belong together if they have the same group (name and size) and ``seq``. Parts without a
    ``seq`` are matched by the order in which they began in the group, counted from 0 in each step; where
    ranks have different numbers of them in a step, the order does not tell which belong together, and they
    are mismatched. So are parts whose iterations are more than 1 apart. Runs of ranks that were started
    several times are matched by their incarnation if some rank has all incarnations, else first with first,
    second with second. If more ranks carry the name of a group than it has members, several groups share the
    name, and their parts are mismatched too.

    ``WAIT`` and messages are no collectives. A non-blocking collective (``IALLREDUCE``) is matched like
    the blocking one.

    Args:
        timings: a table of timings, as ``read_timings`` returns.

    Returns:
        One row for each rank's part in each collective, sorted by instance, then rank.

    Columns:
        instance: number from 0, by group, then order (int64).
        group, group_size, seq, iteration, layer_name, phase, rank, incarnation, elapsed_ms,
        message_size_bytes: of the part, as in ``timings``.
        epoch: only where iterations restart.
        operation: the base operation; of an exchange ``ALLTOALLV`` if any rank calls it so.
        start_s, end_s, clock_uncertainty_s: of the part, as in ``timings``; if ``timings`` has no instants
            common to all ranks, ``start_counter`` and ``end_counter`` of the part, and NaN.
        matched_by: "seq" or "ordinal".
        state: "complete"; "incomplete" if some rank's part is missing or did not finish; or
            "mismatched" if the parts are not of one operation, or it cannot be told whether they are.
        why: what is wrong, in words; "" if complete.
        row: position in ``timings`` (int64).
    """
    frame = opened(timings, COLUMNS_OF["match_collectives"])
    parts = find_instances(frame)
    problems = find_problems(frame, parts)
    reasons, reason_of = reasons_for(frame, parts, problems)
    instants_of_rows = zip(("start_s", "end_s", "clock_uncertainty_s"), instants(frame), strict=True)
    table = identified(frame, parts).with_columns(
        *(new_column(frame, name, values[parts.row]) for name, values in instants_of_rows),
        text_column(frame, "state", STATES, states(problems)[parts.instance]),
        text_column(frame, "why", reasons, reason_of[parts.instance]),
    )
    return cast("IntoDataFrameT", table.select(*with_epoch(_COLUMNS, table.columns)).to_native())


def identified(frame: Frame, parts: Instances) -> Frame:
    """Return the columns that identify each part: its instance, operation, rank and position, and others."""
    return taken(frame, _OF_THE_ROW, parts.row).with_columns(
        *steps_of(frame).columns(frame, parts.row).values(),
        new_column(frame, "instance", parts.instance),
        text_column(frame, "operation", parts.operations, parts.operation),
        text_column(frame, "matched_by", ["ordinal", "seq"], parts.numbered.astype(np.int64)),
        new_column(frame, "row", parts.row),
    )

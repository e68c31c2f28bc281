"""What ranks did together, matched once: how long they waited for each other in collectives, by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from timing_logger.analysis.collectives.instances import Instances, find_instances
from timing_logger.analysis.collectives.matching import durations_ms
from timing_logger.analysis.collectives.problems import find_problems
from timing_logger.analysis.collectives.waits import clock_free_wait_ms, complete_among, with_bytes
from timing_logger.analysis.columns import EPOCH_OF_STEP, MEANING_OF_EPOCHS, PROCESS_RESTARTS, RUN_OF_RANK
from timing_logger.analysis.epochs import epochs_of
from timing_logger.analysis.grouping import any_row_of, sums
from timing_logger.analysis.operations import base_operation, is_collective
from timing_logger.analysis.runs import runs_of
from timing_logger.analysis.tables import (
    Bools,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    new_column,
    taken,
)
from timing_logger.reading.sources import compact, joined

_COLUMNS = (
    "rank", "incarnation", "operation", "group", "group_size", "seq", "peer", "message_size_bytes",
    "status", "elapsed_ms", "start_counter", "iteration",
)  # fmt: skip

_PROCESS, _PLACE = "process", "place"
_OF_EPOCHS = EPOCH_OF_STEP, PROCESS_RESTARTS, MEANING_OF_EPOCHS


class Shape(NamedTuple):
    """Of arrays by step and rank."""

    steps: int
    ranks: int


class Meetings(NamedTuple):
    """Rows of collectives and messages of a run, and which of them are parts of one collective.

    Attributes:
        frame: the rows.
        step: of each, the row of its step in arrays by step and rank; NaN outside of any.
        column: of each, the column of its rank there.
        parts: the complete collectives of two ranks or more.
        elapsed_ms: of each part.
        counts: of each part, whether it has a part in waiting, see ``with_bytes``.
    """

    frame: Frame
    step: Floats
    column: Ints
    parts: Instances
    elapsed_ms: Floats
    counts: Bools


class Waits(NamedTuple):
    """Waits in collectives that synchronise ranks, summed by step and rank (steps x ranks).

    NaN where the rank took part in none that is complete.

    Attributes:
        own_ms: how long the rank waited.
        others_ms: how long the other ranks of its collectives waited, on average.
        last_share: of the groups that it met in the step, the part in which no other rank waited less: in
            which it was the last to arrive, all their collectives taken together.
    """

    own_ms: Floats
    others_ms: Floats
    last_share: Floats


def rows_to_match(frame: Frame, process: Ints, place: Ints) -> Any:
    """The rows of collectives and messages, as a table of their own.

    Args:
        frame: rows of whole processes, that ``opened`` returned.
        process: of each row, which of these processes it is of, from 0.
        place: where its step stands among those of the process; -1 outside of any.
    """
    row = np.flatnonzero(each_text(coded_text(frame, "operation"), _is_matched))
    epochs = epochs_of(frame)
    table = taken(frame, _COLUMNS, row).with_columns(
        new_column(frame, EPOCH_OF_STEP, epochs.of_row[row]),
        new_column(frame, PROCESS_RESTARTS, epochs.restarts[row]),
        new_column(frame, MEANING_OF_EPOCHS, np.full(len(row), int(epochs.meaning), np.int8)),
        new_column(frame, _PROCESS, process[row].astype(np.int32)),
        new_column(frame, _PLACE, place[row].astype(np.int32)),
    )
    return table.to_native()


def _is_matched(name: str) -> bool:
    return is_collective(name) or base_operation(name) in ("SEND", "RECV")


class Part(NamedTuple):
    """The rows to match of some processes, and which incarnations of their ranks these are."""

    rows: Any
    incarnations: Sequence[int]


def meetings(
    parts: Sequence[Part], columns: Sequence[int], steps: Sequence[Ints], *, by_step: bool
) -> Meetings:
    """The meetings of all processes, whose parts come in ascending order.

    Args:
        columns: for each process the column of its rank.
        steps: for each process the row of each of its steps.
        by_step: whether collectives without a number are matched step by step.
    """
    frame = _of_all(parts)
    incarnations = np.concatenate([part.incarnations for part in parts])
    run_of = runs_of(np.array(columns, np.int64), incarnations)
    process, place = (frame[name].to_numpy().astype(np.int64) for name in (_PROCESS, _PLACE))
    frame = frame.with_columns(new_column(frame, RUN_OF_RANK, run_of[process]))
    step = _steps(process, place, steps)
    found = find_instances(frame, step if by_step else np.full(len(step), np.nan))
    complete = complete_among(found, find_problems(frame, found))
    elapsed_ms = durations_ms(frame)[complete.row]
    column = np.array(columns, np.int64)[process]
    return Meetings(frame, step, column, complete, elapsed_ms, with_bytes(frame, complete))


def _of_all(parts: Sequence[Part]) -> Frame:
    """One table, in which processes are numbered through."""
    if len(parts) == 1:
        return nw.from_native(parts[0].rows, eager_only=True)
    n_processes = [len(part.incarnations) for part in parts]
    first = np.cumsum(n_processes) - n_processes
    moved = [
        {str(name): small[name] for name in small} | {_PROCESS: small[_PROCESS] + before}
        for small, before in zip((compact(part.rows) for part in parts), first, strict=True)
    ]
    return nw.from_native(joined(moved, [*_COLUMNS, *_OF_EPOCHS, _PROCESS, _PLACE]), eager_only=True)


def _steps(process: Ints, place: Ints, steps: Sequence[Ints]) -> Floats:
    """The row of each one's step; NaN outside of any, and for processes that are said to have none."""
    n_steps = np.array([len(those) for those in steps], np.int64)
    first = np.cumsum(n_steps) - n_steps
    inside = (place >= 0) & (place < n_steps[process])
    found = np.full(len(place), np.nan)
    found[inside] = np.concatenate(steps)[(first[process] + place)[inside]]
    return found


# -- waits -----------------------------------------------------------------------------------------------


def waits_by_step(met: Meetings, shape: Shape) -> Waits:
    """Who waited for whom in the collectives."""
    step, column = met.step[met.parts.row], met.column[met.parts.row]
    own_ms = clock_free_wait_ms(met.parts, met.elapsed_ms, met.counts)
    others_ms = _means_of_others(own_ms, met.parts.instance)
    known = ~np.isnan(own_ms) & ~np.isnan(step)
    cell = step[known].astype(np.int64) * shape.ranks + column[known]
    of_group, was_last = _last_of_groups(met.parts.communicator[known], cell, own_ms[known], shape)
    return Waits(
        own_ms=_by_cell(cell, own_ms[known], shape),
        others_ms=_by_cell(cell, others_ms[known], shape),
        last_share=_by_cell(of_group, was_last, shape) / _by_cell(of_group, np.ones(len(of_group)), shape),
    )


def _last_of_groups(communicator: Ints, cell: Ints, own_ms: Floats, shape: Shape) -> tuple[Ints, Floats]:
    """For each group, step and rank its cell, and whether no other rank waited less in them together."""
    pair = dense_codes(communicator, cell)
    example = any_row_of(pair)
    total_ms = np.bincount(pair, own_ms)
    group = dense_codes(communicator[example], cell[example] // shape.ranks)
    least_ms = np.full(int(group.max(initial=-1)) + 1, np.inf)
    np.minimum.at(least_ms, group, total_ms)
    return cell[example], (total_ms == least_ms[group]).astype(np.float64)


def _means_of_others(values: Floats, instance: Ints) -> Floats:
    """For each part the mean over the other parts of its instance of which the value is known."""
    n_instances = int(instance.max(initial=-1)) + 1
    n_known = np.bincount(instance, ~np.isnan(values), minlength=n_instances)[instance]
    return (sums(values, instance, n_instances)[instance] - values) / np.maximum(n_known - 1, 1)


def _by_cell(cell: Ints, values: Floats, shape: Shape) -> Floats:
    """Sums, steps x ranks; NaN in cells without any."""
    n_cells = shape.steps * shape.ranks
    total = np.bincount(cell, values, minlength=n_cells)
    known = np.bincount(cell, minlength=n_cells) > 0
    return np.where(known, total, np.nan).reshape(shape)

"""Match the collectives and messages of a run, and sum by step how long ranks waited for each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrame

from timing_logger.analysis.collectives.matching import Instances, find_instances
from timing_logger.analysis.collectives.problems import find_problems
from timing_logger.analysis.collectives.waits import clock_free_wait_ms, complete_among, with_bytes
from timing_logger.analysis.columns import EPOCH_OF_STEP, MEANING_OF_EPOCHS, PROCESS_RESTARTS, RUN_OF_RANK
from timing_logger.analysis.epochs import epochs_of
from timing_logger.analysis.grouping import any_row_of, least_of_each, sums
from timing_logger.analysis.instants import durations_ms
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

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    "rank", "incarnation", "operation", "group", "group_size", "seq", "peer", "message_size_bytes",
    "status", "elapsed_ms", "start_counter", "iteration",
)  # fmt: skip

_PROCESS, _PLACE = "process", "place"
_OF_EPOCHS = EPOCH_OF_STEP, PROCESS_RESTARTS, MEANING_OF_EPOCHS


class Shape(NamedTuple):
    """The shape of arrays by step and rank."""

    steps: int
    ranks: int


class Meetings(NamedTuple):
    """The rows of collectives and messages of a run, and the collectives that they are parts of.

    Attributes:
        frame: the table of rows.
        step: for each row, the row of its step in arrays by step and rank; NaN outside of any step.
        column: for each row, the column of its rank in those arrays.
        parts: the complete collectives of two ranks or more.
        elapsed_ms: for each part, how long its operation took.
        counts: for each part, whether its rank waits or is waited for, see ``with_bytes``.
    """

    frame: Frame
    step: Floats
    column: Ints
    parts: Instances
    elapsed_ms: Floats
    counts: Bools


class Waits(NamedTuple):
    """Waits in collectives that synchronise ranks, summed by step and rank (steps x ranks).

    Entries are NaN where the rank took part in no complete collective.

    Attributes:
        own_ms: how long the rank waited.
        others_ms: how long the other ranks of its collectives waited, on average.
        last_share: the fraction of the rank's groups in the step in which no other rank waited less, over
            all collectives of the group together. In those groups it was the last to arrive.
    """

    own_ms: Floats
    others_ms: Floats
    last_share: Floats


def rows_to_match(frame: Frame, process: Ints, place: Ints) -> Part:
    """Return the rows of collectives and messages, for ``meetings``.

    Args:
        frame: the rows of whole processes, a table that ``opened`` returned.
        process: for each row the number of its process, from 0.
        place: for each row the position of its step among the steps of its process; -1 outside of any step.
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
    incarnations = frame["incarnation"].to_numpy()[any_row_of(process)].tolist()
    return Part([table.to_native()], incarnations)


def _is_matched(name: str) -> bool:
    return is_collective(name) or base_operation(name) in ("SEND", "RECV")


class Part(NamedTuple):
    """The rows to match of some processes.

    Attributes:
        rows: a list with a table of these rows; :func:`meetings` takes it out, so that no row is held twice.
        incarnations: the incarnation of each of these processes.
    """

    rows: list[IntoDataFrame]
    incarnations: Sequence[int]


def meetings(
    parts: Sequence[Part], columns: Sequence[int], steps: Sequence[Ints], *, by_step: bool
) -> Meetings:
    """Match the collectives of all processes.

    Args:
        parts: the rows to match, in ascending order of their processes.
        columns: for each process the column of its rank in arrays by step and rank.
        steps: for each process the row of each of its steps in those arrays.
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
    """Join the rows of all parts, and number the processes consecutively."""
    if len(parts) == 1:
        return nw.from_native(parts[0].rows.pop(), eager_only=True)
    n_processes = [len(part.incarnations) for part in parts]
    first = np.cumsum(n_processes) - n_processes
    # Of other libraries than pandas all rows are one part.
    tables = (cast("pd.DataFrame", part.rows.pop()) for part in parts)
    moved = [
        {str(name): small[name] for name in small} | {_PROCESS: small[_PROCESS] + before}
        for small, before in zip((compact(rows) for rows in tables), first, strict=True)
    ]
    return nw.from_native(joined(moved, [*_COLUMNS, *_OF_EPOCHS, _PROCESS, _PLACE]), eager_only=True)


def _steps(process: Ints, place: Ints, steps: Sequence[Ints]) -> Floats:
    """Return the array row of each table row's step; NaN outside of any step, and for processes without."""
    n_steps = np.array([len(those) for those in steps], np.int64)
    first = np.cumsum(n_steps) - n_steps
    inside = (place >= 0) & (place < n_steps[process])
    found = np.full(len(place), np.nan)
    found[inside] = np.concatenate([first[:0], *steps])[(first[process] + place)[inside]]
    return found


# -- waits -----------------------------------------------------------------------------------------------


def waits_by_step(met: Meetings, shape: Shape) -> Waits:
    """Sum the waits in collectives by step and rank."""
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
    """Tell for each group, step and rank whether no other rank waited less, over all collectives together.

    Returns:
        For each combination of group, step and rank the cell of the step and rank, and 1 or 0.
    """
    pair = dense_codes(communicator, cell)
    example = any_row_of(pair)
    total_ms = np.bincount(pair, own_ms)
    group = dense_codes(communicator[example], cell[example] // shape.ranks)
    least_ms = least_of_each(total_ms, group, int(group.max(initial=-1)) + 1)
    return cell[example], (total_ms == least_ms[group]).astype(np.float64)


def _means_of_others(values: Floats, instance: Ints) -> Floats:
    """Return for each part the mean of the known values of the other parts of its instance."""
    n_instances = int(instance.max(initial=-1)) + 1
    n_known = np.bincount(instance, ~np.isnan(values), minlength=n_instances)[instance]
    return (sums(values, instance, n_instances)[instance] - values) / np.maximum(n_known - 1, 1)


def _by_cell(cell: Ints, values: Floats, shape: Shape) -> Floats:
    """Sum the values of each cell, as an array of steps x ranks; NaN in cells without values."""
    n_cells = shape.steps * shape.ranks
    total = np.bincount(cell, values, minlength=n_cells)
    known = np.bincount(cell, minlength=n_cells) > 0
    return np.where(known, total, np.nan).reshape(shape)

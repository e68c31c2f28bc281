"""What ranks did together, by the step of each: how long they waited for each other in collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from timing_logger._sources import compact, joined
from timing_logger.analysis._flaws import find_flaws
from timing_logger.analysis._frames import (
    Floats,
    Frame,
    Ints,
    coded_text,
    each_text,
    new_column,
    numbers,
    taken,
)
from timing_logger.analysis._grouped import sums
from timing_logger.analysis._instances import find_instances
from timing_logger.analysis.columns import RUN_OF_RANK
from timing_logger.analysis.operations import is_collective
from timing_logger.analysis.waiting import clock_free_wait_ms, complete_among, with_bytes

_COLUMNS = (
    "rank", "incarnation", "operation", "group", "group_size", "seq", "peer", "message_size_bytes",
    "status", "elapsed_ms", "start_counter",
)  # fmt: skip

_PROCESS, _PLACE = "process", "place"


class Waits(NamedTuple):
    """Waits in collectives that synchronise ranks, summed by step and rank (steps x ranks); NaN where the
    rank took part in none that is complete.

    Attributes:
        own_ms: how long the rank waited.
        others_ms: how long the other ranks of its collectives waited, on average.
    """

    own_ms: Floats
    others_ms: Floats


def collectives_of(frame: Frame, process: Ints, place: Ints) -> Any:
    """The rows that are matched across ranks, as a table of their own.

    Args:
        frame: rows of whole processes, that ``opened`` returned.
        process: of each row, which of these processes it is of, from 0.
        place: where its step stands among those of the process; -1 outside of any.
    """
    row = np.flatnonzero(each_text(coded_text(frame, "operation"), is_collective))
    table = taken(frame, _COLUMNS, row).with_columns(
        new_column(frame, _PROCESS, process[row].astype(np.int32)),
        new_column(frame, _PLACE, place[row].astype(np.int32)),
    )
    return table.to_native()


def waits_by_step(
    tables: Sequence[Any],
    n_processes: Sequence[int],
    ranks: Sequence[int],
    steps: Sequence[Ints],
    shape: tuple[int, int],
    *,
    by_step: bool,
) -> Waits:
    """The waits of all processes, whose tables come in ascending order.

    Args:
        tables: as ``collectives_of`` made them.
        n_processes: of how many processes each table is.
        ranks: of each process, the column of its rank.
        steps: for each process the row of each of its steps.
        shape: how many steps and ranks there are.
        by_step: whether collectives without a number are matched step by step.
    """
    frame = _of_all(tables, n_processes)
    process, place = (frame[name].to_numpy().astype(np.int64) for name in (_PROCESS, _PLACE))
    frame = frame.with_columns(new_column(frame, RUN_OF_RANK, _runs(ranks)[process]))
    step = _steps(process, place, steps)
    parts = find_instances(frame, step if by_step else np.full(len(step), np.nan))
    complete = complete_among(parts, find_flaws(frame, parts))
    elapsed_ms = numbers(frame, "elapsed_ms")[complete.row]
    own_ms = clock_free_wait_ms(complete, elapsed_ms, with_bytes(frame, complete))
    rank = np.array(ranks, np.int64)[process[complete.row]]
    known = ~np.isnan(own_ms) & ~np.isnan(step[complete.row])
    cell = step[complete.row][known].astype(np.int64) * shape[1] + rank[known]
    others_ms = _means_of_others(own_ms, complete.instance)
    return Waits(*(_cell_sums(cell, values[known], shape) for values in (own_ms, others_ms)))


def _of_all(tables: Sequence[Any], n_processes: Sequence[int]) -> Frame:
    """One table, in which processes are numbered through."""
    if len(tables) == 1:
        return nw.from_native(tables[0], eager_only=True)
    first = np.cumsum(n_processes) - n_processes
    moved = [
        {str(name): small[name] for name in small} | {_PROCESS: small[_PROCESS] + before}
        for small, before in zip(map(compact, tables), first, strict=True)
    ]
    return nw.from_native(joined(moved, [*_COLUMNS, _PROCESS, _PLACE]), eager_only=True)


def _runs(ranks: Sequence[int]) -> Ints:
    """For each process, how many of its rank came before."""
    return np.array([ranks[:i].count(rank) for i, rank in enumerate(ranks)], np.int64)


def _steps(process: Ints, place: Ints, steps: Sequence[Ints]) -> Floats:
    """The row of each one's step; NaN outside of any, and for processes that are said to have none."""
    n_steps = np.array([len(those) for those in steps], np.int64)
    first = np.cumsum(n_steps) - n_steps
    inside = (place >= 0) & (place < n_steps[process])
    found = np.full(len(place), np.nan)
    found[inside] = np.concatenate(steps)[(first[process] + place)[inside]]
    return found


def _means_of_others(values: Floats, instance: Ints) -> Floats:
    """For each part the mean over the other parts of its instance of which the value is known."""
    n_instances = int(instance.max(initial=-1)) + 1
    n_known = np.bincount(instance, ~np.isnan(values), minlength=n_instances)[instance]
    return (sums(values, instance, n_instances)[instance] - values) / np.maximum(n_known - 1, 1)


def _cell_sums(cell: Ints, values: Floats, shape: tuple[int, int]) -> Floats:
    """NaN in cells of which nothing is known."""
    total = np.bincount(cell, values, minlength=shape[0] * shape[1])
    count = np.bincount(cell, minlength=shape[0] * shape[1])
    summed: Floats = np.where(count > 0, total, np.nan).reshape(shape)
    return summed

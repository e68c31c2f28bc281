"""Sum the account of a run by step and rank: how long ranks waited, and how long others waited for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.blocked import NO_RANK, NOT_MATCHED, TRANSFER, WAITING
from timing_logger.analysis.accounting.lines import is_set_up
from timing_logger.analysis.accounting.part import BLOCKS
from timing_logger.analysis.rows.arrays import (
    Bools,
    Floats,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    in_few_bytes,
)
from timing_logger.analysis.rows.grouping import any_row_of, greatest_of_each
from timing_logger.analysis.rows.intervals import instants
from timing_logger.analysis.rows.operations import SYNCHRONISING, base_operation
from timing_logger.analysis.step_times.transfers import Communication, Shape


class Waits(NamedTuple):
    """Waits by step and rank (steps x ranks), in ms.

    Entries are NaN where nothing tells: the rank was in no communication that could be matched.

    Attributes:
        own_ms: how long the rank waited for others.
        for_it_ms: how long all others together waited for the rank.
        longest_ms: how long that one waited for it which waited longest.
        unmatched_ms: how long the rank was blocked in communication that does not tell for whom it waited.
            The set-up of communication, as ``MPI_INIT``, does not count.
        pending_ms: how long that operation of the rank in the background waited for others that waited
            longest: a stream of a device may stand still for it, and no row tells.
        varying_ms: for each rank, and at last for transfers between others, how long others waited for it
            beyond what each waited for it in half of the steps or more: waits that recur so are how the ranks
            share their work.
        recurring_ms: likewise, those waits that recur so.
        transfer_ms: how long the rank was blocked in collectives that all leave together after the last had
            come. Others do not count: a root has more to do than the rest.
        clock_ms: by how much that may be wrong, as clocks are compared; NaN where nobody measured them.
    """

    own_ms: Floats
    for_it_ms: Floats
    longest_ms: Floats
    unmatched_ms: Floats
    pending_ms: Floats
    varying_ms: Floats
    recurring_ms: Floats
    transfer_ms: Floats
    clock_ms: Floats


def waits_by_step(of: Communication) -> Waits:
    """Sum the waits of a run by step and rank."""
    stretches = _Stretches.of(of)
    shape = of.shape
    is_told = _sum(stretches.cell, np.ones(len(stretches.ms)), stretches.is_known, shape) > 0
    told = (
        stretches.sums(stretches.waits),
        _sum(stretches.owner_cell, stretches.ms, stretches.for_another, shape),
        _longest_ms(stretches, shape),
        stretches.sums(stretches.transfers),
    )
    own_ms, for_it_ms, longest_ms, transfer_ms = (np.where(is_told, values, np.nan) for values in told)
    varying_ms, recurring_ms = _varying_and_recurring_ms(of, stretches)
    return Waits(
        own_ms, for_it_ms, longest_ms, stretches.sums(stretches.unmatched), _pending_ms(of), varying_ms,
        recurring_ms, transfer_ms, _clock_ms(of, stretches),
    )  # fmt: skip


class _Stretches(NamedTuple):
    """The times in which ranks were blocked; one entry for each.

    Attributes:
        row: the row that blocked the rank.
        step: the position of its step; 0 outside of any step.
        by: the column of the rank.
        owner: the column of the rank that it waited for; that behind the last for no rank.
        cell, owner_cell: the places of the rank, and of the one that it waited for, by step and rank.
        ms: how long each lasted, in ms.
        is_known, waits, for_another, transfers, unmatched: what it is: told at all, waiting, waiting for
            another rank, transfer of a collective that all leave together, and of unknown whom; none of these
            outside of any step.
        shape: of arrays by step and rank.
    """

    row: Ints
    step: Ints
    by: Ints
    owner: Ints
    cell: Ints
    owner_cell: Ints
    ms: Floats
    is_known: Bools
    waits: Bools
    for_another: Bools
    transfers: Bools
    unmatched: Bools
    shape: Shape

    @classmethod
    def of(cls, of: Communication) -> _Stretches:
        blocked, shape = of.blocked, of.shape
        row, what, by = blocked.row, blocked.what, of.column[blocked.row]
        inside = ~np.isnan(of.step[row])
        waits = inside & (what == WAITING)
        to_rank = waits & (blocked.rank != NO_RANK)
        owner = np.where(to_rank, np.searchsorted(of.ranks, blocked.rank), shape.ranks)
        step = np.where(inside, of.step[row], 0).astype(np.int64)
        numbers = step, by, owner, step * shape.ranks + by, step * shape.ranks + owner
        step, by, owner, cell, owner_cell = (in_few_bytes(values) for values in numbers)
        unmatched = inside & (what == NOT_MATCHED)
        named = coded_text(of.rows.axis.frame, "operation")
        together = each_text(named, lambda name: base_operation(name) in SYNCHRONISING)
        return cls(
            row, step, by, owner, cell, owner_cell, blocked.ms, inside & ~unmatched, waits,
            to_rank & (owner != by), inside & (what == TRANSFER) & together[row],
            unmatched & ~is_set_up(of.rows.axis.frame)[row], shape,
        )  # fmt: skip

    def sums(self, wanted: Bools) -> Floats:
        """Return how long each rank was blocked in each step in the stretches that are wanted."""
        return _sum(self.cell, self.ms, wanted, self.shape)


def _longest_ms(found: _Stretches, shape: Shape) -> Floats:
    key = dense_codes(found.owner_cell[found.for_another], found.by[found.for_another])
    one = np.flatnonzero(found.for_another)[any_row_of(key)]
    longest_ms = np.zeros(shape.steps * shape.ranks)
    np.maximum.at(longest_ms, found.owner_cell[one], np.bincount(key, found.ms[found.for_another]))
    return longest_ms.reshape(shape)


def _clock_ms(of: Communication, found: _Stretches) -> Floats:
    _, _, uncertainty_s = instants(of.rows.axis.frame)
    off_ms = 1e3 * uncertainty_s[found.row] + (np.nan if of.rows.axis.by_rows else 0.0)
    return _sum(found.cell, off_ms, found.transfers, of.shape)


def _varying_and_recurring_ms(of: Communication, found: _Stretches) -> tuple[Floats, Floats]:
    counts = found.waits & (found.owner != found.by)
    owner, ms = found.owner[counts], found.ms[counts]
    varying_ms = _varying_ms(of, owner, found.by[counts], found.step[counts], ms)
    return varying_ms, np.bincount(owner, ms, minlength=of.shape.ranks + 1) - varying_ms


def _pending_ms(of: Communication) -> Floats:
    start_s, end_s, _ = instants(of.rows.axis.frame)
    until_s = np.minimum(of.rows.needs.until_s, end_s)
    beside = ~of.rows.axis.frame[BLOCKS].to_numpy() & ~np.isnan(of.step) & ~np.isnan(until_s)
    cell = of.step[beside].astype(np.int64) * of.shape.ranks + of.column[beside]
    waited_ms = 1e3 * np.maximum(until_s - start_s, 0.0)[beside]
    return greatest_of_each(waited_ms, cell, of.shape.steps * of.shape.ranks).reshape(of.shape)


def _varying_ms(of: Communication, owner: Ints, by: Ints, step: Ints, ms: Floats) -> Floats:
    order = np.lexsort((step, by, owner))
    owner, by, step = owner[order], by[order], step[order]
    is_new_pair = (np.diff(owner, prepend=-1) != 0) | (np.diff(by, prepend=-1) != 0)
    is_new = is_new_pair | (np.diff(step, prepend=-1) != 0)
    in_step_ms = np.bincount(np.cumsum(is_new) - 1, ms[order])
    owner, pair = owner[is_new], np.cumsum(is_new_pair)[is_new]
    in_step_ms = in_step_ms[np.lexsort((-in_step_ms, pair))]
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    n = np.diff(first, append=len(pair))
    middle = of.shape.steps // 2
    recurs = n > middle
    usual_ms = np.zeros(len(first))
    usual_ms[recurs] = in_step_ms[first[recurs] + middle]
    beyond_ms = np.maximum(in_step_ms - np.repeat(usual_ms, n), 0.0)
    return np.bincount(owner, beyond_ms, minlength=of.shape.ranks + 1).astype(np.float64)


def _sum(cell: Ints, values: Floats, wanted: Bools, shape: Shape) -> Floats:
    total = np.bincount(cell[wanted], values[wanted], minlength=shape.steps * shape.ranks)
    return total.reshape(shape).astype(np.float64)

"""Sum the account of a run by step and rank: how long ranks waited, and how long others waited for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.blocked import NO_RANK, NOT_MATCHED, TRANSFER, WAITING
from timing_logger.analysis.accounting.lines import is_set_up
from timing_logger.analysis.accounting.part import BLOCKS
from timing_logger.analysis.accounting.run import BlockedRows
from timing_logger.analysis.grouping import any_row_of, greatest_of_each
from timing_logger.analysis.instants import instants
from timing_logger.analysis.tables import Bools, Floats, Ints, dense_codes


class Shape(NamedTuple):
    """The shape of arrays by step and rank."""

    steps: int
    ranks: int


class Communication(NamedTuple):
    """The rows of communication of a run, placed in arrays by step and rank.

    Attributes:
        rows: the rows, and what lines did while these blocked them.
        step: for each row the position of its step; NaN outside of any step.
        column: for each row the column of its rank.
        ranks: the rank of each column, ascending.
        shape: of arrays by step and rank.
    """

    rows: BlockedRows
    step: Floats
    column: Ints
    ranks: Ints
    shape: Shape


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
        transfer_ms: how long the rank was blocked in communication after all that it needed had come.
    """

    own_ms: Floats
    for_it_ms: Floats
    longest_ms: Floats
    unmatched_ms: Floats
    pending_ms: Floats
    varying_ms: Floats
    recurring_ms: Floats
    transfer_ms: Floats


def waits_by_step(of: Communication) -> Waits:
    """Sum the waits of a run by step and rank."""
    blocked, shape = of.rows.blocked, of.shape
    at, by, ms = of.step[blocked.row], of.column[blocked.row], blocked.ms
    inside = ~np.isnan(at)
    known = inside & (blocked.what != NOT_MATCHED)
    waits = known & (blocked.what == WAITING)
    to_rank = waits & (blocked.rank != NO_RANK)
    owner = np.searchsorted(of.ranks, blocked.rank)
    to_other = to_rank & (owner != by)
    cell = np.where(inside, at, 0).astype(np.int64) * shape.ranks
    is_told = _sum(cell + by, np.ones(len(by)), known, shape) > 0
    key = dense_codes((cell + owner)[to_other], by[to_other])
    one = np.flatnonzero(to_other)[any_row_of(key)]
    of_pair_ms = np.bincount(key, ms[to_other])
    longest_ms = np.zeros(shape.steps * shape.ranks)
    np.maximum.at(longest_ms, (cell + owner)[one], of_pair_ms)
    found = (
        _sum(cell + by, ms, waits, shape),
        _sum(cell + owner, ms, to_other, shape),
        longest_ms.reshape(shape),
    )
    owner = np.where(to_rank, owner, shape.ranks)
    counts = waits & (owner != by)
    varying_ms = _varying_ms(of, owner[counts], by[counts], at[counts].astype(np.int64), ms[counts])
    recurring_ms = np.bincount(owner[counts], ms[counts], minlength=shape.ranks + 1) - varying_ms
    told = (*found, _sum(cell + by, ms, inside & (blocked.what == TRANSFER), shape))
    own_ms, for_it_ms, longest, transfer_ms = (np.where(is_told, values, np.nan) for values in told)
    unmatched_ms = _sum(cell + by, ms, inside & ~known & ~is_set_up(of.rows.axis.frame)[blocked.row], shape)
    return Waits(
        own_ms, for_it_ms, longest, unmatched_ms, _pending_ms(of), varying_ms, recurring_ms, transfer_ms
    )


def _pending_ms(of: Communication) -> Floats:
    start_s, end_s, _ = instants(of.rows.axis.frame)
    until_s = np.minimum(of.rows.needs.until_s, end_s)
    beside = ~of.rows.axis.frame[BLOCKS].to_numpy() & ~np.isnan(of.step) & ~np.isnan(until_s)
    cell = of.step[beside].astype(np.int64) * of.shape.ranks + of.column[beside]
    waited_ms = 1e3 * np.maximum(until_s - start_s, 0.0)[beside]
    return greatest_of_each(waited_ms, cell, of.shape.steps * of.shape.ranks).reshape(of.shape)


def _varying_ms(of: Communication, owner: Ints, by: Ints, step: Ints, ms: Floats) -> Floats:
    pair = dense_codes(owner, by)
    key = dense_codes(pair, step)
    one = any_row_of(key)
    in_step_ms, pair = np.bincount(key, ms, minlength=len(one)), pair[one]
    order = np.lexsort((-in_step_ms, pair))
    in_step_ms, pair, owner = in_step_ms[order], pair[order], owner[one][order]
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

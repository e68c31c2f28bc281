"""Count rounds, for runs that record no iteration: what all ranks reduce repeats in every round.

A program that calls MPI in a loop makes the same collectives in each pass. All ranks make them in the same
order and of the same size, so all of them find the same rounds, and no clocks are compared.
"""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.rows import operations
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
from timing_logger.analysis.rows.grouping import rows_of_each
from timing_logger.results import criteria

_LONGEST = 256  # collectives in a round
_LOOKED_AT = 8192  # collectives at the beginning of a process


def rounds_of(frame: Frame, process: Ints) -> Floats:
    """Return the number of each row's round, from 0; NaN before the first, and for processes without any.

    A round ends with the last collective in it: what a rank does before a collective belongs to that one.
    Those of the largest group count that synchronise its ranks, since all of them make these alike; those of
    a smaller one, as of the workers of a server, if the process makes few in the largest and many more there.
    A process that makes none that synchronise has rounds of what else it makes together with all others, as
    broadcasts.

    Args:
        frame: a table that ``opened`` returned.
        process: the number of each row's process.
    """
    start_s = numbers(frame, "start_counter")
    named, has_start = coded_text(frame, "operation"), ~np.isnan(start_s)
    synchronise, are_collective = (
        each_text(named, tell) & has_start for tell in (_synchronises, _of_all_ranks)
    )
    group_size = np.nan_to_num(numbers(frame, "group_size"), nan=np.inf)  # unknown: that of all ranks
    kind = dense_codes(named[0], np.nan_to_num(numbers(frame, "message_size_bytes"), nan=-1))
    found = np.full(len(start_s), np.nan)
    for rows in rows_of_each(process):
        size, starts_s = group_size[rows], start_s[rows]
        alike = synchronise[rows] if synchronise[rows].any() else are_collective[rows]
        marked = alike & (size == _size_in_which_it_loops(size[alike]))
        in_order = np.argsort(starts_s[marked], kind="stable")
        found[rows] = _numbered(starts_s, starts_s[marked][in_order], kind[rows][marked][in_order])
    return found


def _of_all_ranks(name: str) -> bool:
    """Tell whether a collective of this name may end a round: making a communicator belongs to the set-up."""
    return operations.is_collective(name) and operations.base_operation(name) not in operations.CONSTRUCTION


def _synchronises(name: str) -> bool:
    return operations.synchronises_all_ranks(name) and _of_all_ranks(name)


def _size_in_which_it_loops(sizes: Floats) -> float:
    """Return the size of the groups whose collectives count, of the sizes of a process's collectives."""
    best, most = 0.0, 0
    for size, n in zip(
        *(found[::-1].tolist() for found in np.unique(sizes, return_counts=True)), strict=True
    ):
        if not most or (most < criteria.FEW_ROUNDS and n > criteria.MANY_MORE_TIMES * most):
            best, most = size, n
    return best


def _numbered(starts_s: Floats, marks_s: Floats, kinds: Ints) -> Floats:
    """Return the round of each row of a process by the starts and kinds of its marks, in order of time."""
    if not len(kinds):
        return np.full(len(starts_s), np.nan)
    kept, first, period = _rounds(kinds)
    marks_s = marks_s[kept]
    ends_s = marks_s[first + period - 1 :: period]
    number = np.searchsorted(ends_s, starts_s).astype(np.float64)
    began = np.ones(len(starts_s), np.bool_) if first == 0 else starts_s > marks_s[first - 1]
    return np.where(began & (number < len(ends_s)), number, np.nan)


def _rounds(kinds: Ints) -> tuple[Bools, int, int]:
    """Return which marks to keep, the first of the first round, and the number of marks in a round.

    A kind that comes now and then, as a checkpoint's, makes rounds long: the rarest kinds are left out as
    long as there are few rounds, and it makes many more. It does not where a kind comes once in a loop and
    another twice, as the fences around each exchange. A kind that comes several times on end may come more
    often in one round than in another, as the reductions of a solver: then the last of them counts.
    """
    counts = np.bincount(kinds)
    best = np.ones(len(kinds), np.bool_), 0, 1
    most = 0
    for rarest in np.sort(np.unique(counts[counts > 0])):
        kept = counts[kinds] >= rarest
        first, period = _period(kinds[kept][:_LOOKED_AT])
        if not period:
            kept = _last_on_end(kinds, kept)
            first, period = _period(kinds[kept][:_LOOKED_AT])
        n_rounds = (int(kept.sum()) - first) // period if period else 0
        if n_rounds > most * (1.0 if most < criteria.FEW_ROUNDS else criteria.MANY_MORE_TIMES):
            best, most = (kept, first, period), n_rounds
        if most >= criteria.ENOUGH_ROUNDS:
            break
    return best


def _last_on_end(kinds: Ints, wanted: Bools) -> Bools:
    """Mark of those that are wanted the last of each stretch of equal ones."""
    place = np.flatnonzero(wanted)
    found = np.zeros(len(kinds), np.bool_)
    found[place[np.diff(kinds[place], append=-1) != 0]] = True
    return found


def _period(kinds: Ints) -> tuple[int, int]:
    """Return where the kinds begin to repeat, and after how many; 0 if they do not."""
    for period in range(1, min(_LONGEST, len(kinds) // 3) + 1):
        repeats = np.concatenate([[False], kinds[period:] == kinds[:-period], [False]])
        edges = np.flatnonzero(np.diff(repeats.astype(np.int8))).reshape(-1, 2)
        lengths = edges[:, 1] - edges[:, 0] + period
        if len(lengths) and lengths.max() >= max(3 * period, criteria.MOST_SHARE * len(kinds)):
            return int(edges[lengths.argmax(), 0]), period
    return 0, 0

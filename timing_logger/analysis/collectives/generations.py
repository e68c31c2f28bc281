"""Tell apart the generations of a group: groups made one after the other under the same name.

Each generation numbers its operations from 0 again, so a number alone does not name one operation.
"""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.rows.arrays import dense_codes
from timing_logger.analysis.rows.grouping import any_row_of, order_by
from timing_logger.analysis.rows.table_types import Bools, Floats, Ints
from timing_logger.results import criteria


def generations(earlier: Ints, group_of_rank: Ints, starts: Floats) -> Ints:
    """Return the generation of its group that each row belongs to, from 0.

    Within the rows of one rank, a sequence number that occurs again starts the next generation.

    Args:
        earlier: for each row, how many earlier rows of its rank and group have the same number.
        group_of_rank: for each row a number for its group and rank.
        starts: when each row began, in seconds.
    """
    if not earlier.any():
        return earlier
    order = order_by(group_of_rank, starts)
    offset = group_of_rank[order] * (earlier.max() + 1)
    found = np.empty_like(earlier)
    found[order] = np.maximum.accumulate(earlier[order] + offset) - offset
    return found


def generations_by_iteration(generation: Ints, operation: Ints, rank: Ints, iteration: Floats) -> Ints:
    """Correct the generations of ranks that lost rows of an earlier generation, by iteration.

    Counting alone would take a later generation for the lost one. A rank that has a number fewer times
    than another rank gets the generation whose iteration is nearest to its own.

    Args:
        generation: as :func:`generations` returned it.
        operation: for each row the number of the pair of its group and sequence number: rows of one
            operation and rank differ only in their generation.
        rank: of each row.
        iteration: of each row; NaN where it is unknown, and such rows keep their generation.

    Returns:
        The corrected generations. Where a correction would give a rank the same operation twice in one
        generation, its generations of that operation stay as they were.
    """
    of_rank = dense_codes(operation, rank)
    n_times = np.bincount(of_rank)
    one = any_row_of(of_rank)
    fullest = _fullest(operation[one], n_times)
    told = np.flatnonzero((n_times[fullest[operation]] > 1) & ~np.isnan(iteration))
    is_full = of_rank == fullest[operation]
    reference, asked = told[is_full[told]], told[n_times[of_rank[told]] < n_times[fullest[operation[told]]]]
    if not len(asked) or not len(reference):
        return generation
    nearest = _nearest(operation, iteration, reference, asked)
    found = generation.copy()
    found[asked[nearest >= 0]] = generation[nearest[nearest >= 0]]
    return np.where(_has_one_twice(of_rank, found), generation, found)


def _fullest(operation: Ints, n_times: Ints) -> Ints:
    """Return for each operation the position of the entry whose rank has it most often.

    Both arguments have one entry per pair of operation and rank.
    """
    order = np.lexsort((-n_times, operation))
    return order[np.flatnonzero(np.diff(operation[order], prepend=-1))]


def _nearest(operation: Ints, iteration: Floats, reference: Ints, asked: Ints) -> Ints:
    """Return for each row of ``asked`` that of ``reference`` in the nearest iteration; -1 if none is near."""
    reference = reference[np.lexsort((iteration[reference], operation[reference]))]
    place = operation * (np.nanmax(iteration) - np.nanmin(iteration) + 3.0) + iteration
    at = np.searchsorted(place[reference], place[asked])
    candidates = reference[np.stack([np.maximum(at - 1, 0), np.minimum(at, len(reference) - 1)])]
    apart = abs(place[candidates] - place[asked])
    nearer = apart.argmin(axis=0)
    chosen = np.arange(len(asked))
    return np.where(apart[nearer, chosen] <= criteria.MAX_ITERATIONS_APART, candidates[nearer, chosen], -1)


def _has_one_twice(of_rank: Ints, generation: Ints) -> Bools:
    """Tell for each row whether its rank would have the row's operation twice in one generation."""
    n_alike = np.bincount(alike := dense_codes(of_rank, generation))
    twice = np.bincount(of_rank, n_alike[alike] > 1) > 0
    return twice[of_rank]

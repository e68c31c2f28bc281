"""How often a group had been made anew under its old name, when it numbers operations from 0 again."""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.grouping import any_row_of, order_by
from timing_logger.analysis.tables import Bools, Floats, Ints, dense_codes

MOST_APART = 1
"""Ranks may be in two iterations, one after the other, when they meet. Those farther apart did not."""


def generations(earlier: Ints, group_of_rank: Ints, starts: Floats) -> Ints:
    """Which generation of its group each row is of, as its rank's rows tell: a number that comes again is of
    the next one.

    Args:
        earlier: how often the row's number had been there before.
    """
    if not earlier.any():
        return earlier
    order = order_by(group_of_rank, starts)
    offset = group_of_rank[order] * (earlier.max() + 1)
    found = np.empty_like(earlier)
    found[order] = np.maximum.accumulate(earlier[order] + offset) - offset
    return found


def generations_by_iteration(generation: Ints, operation: Ints, rank: Ints, iteration: Floats) -> Ints:
    """The same, but of a rank that has a number fewer times than another, the one whose iteration it had.

    Rows of an earlier generation may be lost, and then counting alone takes the next one for it.

    Args:
        operation: of each row the number of its group and its own: rows of one differ in generation alone.
        iteration: NaN where it is unknown; such rows stay where they are.
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
    """For each operation, at which place of these ranks' is the one that has it most often."""
    order = np.lexsort((-n_times, operation))
    first: Ints = order[np.flatnonzero(np.diff(operation[order], prepend=-1))]
    return first


def _nearest(operation: Ints, iteration: Floats, reference: Ints, asked: Ints) -> Ints:
    """For each row that is asked of, that of the reference in the nearest iteration; -1 if none is near."""
    reference = reference[np.lexsort((iteration[reference], operation[reference]))]
    least = np.nanmin(iteration)
    place = operation * (np.nanmax(iteration) - least + 3.0) + iteration - least
    at = np.searchsorted(place[reference], place[asked])
    candidates = reference[np.stack([np.maximum(at - 1, 0), np.minimum(at, len(reference) - 1)])]
    apart = abs(place[candidates] - place[asked])
    nearer = apart.argmin(axis=0)
    chosen = np.arange(len(asked))
    return np.where(apart[nearer, chosen] <= MOST_APART, candidates[nearer, chosen], -1)


def _has_one_twice(of_rank: Ints, generation: Ints) -> Bools:
    """Whether a rank would have the row's operation twice in one generation."""
    n_alike = np.bincount(alike := dense_codes(of_rank, generation))
    twice = np.bincount(of_rank, n_alike[alike] > 1) > 0
    of_row: Bools = twice[of_rank]
    return of_row

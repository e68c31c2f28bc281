"""Tell how likely chance is: that events gather on one of equal ranks, or that a sum is above 0."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from timing_logger.analysis.rows.table_types import Bools, Floats

_MOST_BLOCKS = 4096
"""The most blocks into which a run is divided; the time that the test takes grows with their square."""

_LEAST_CHANCE = 1e-15  # a smaller one is lost in rounding

_LEVELS = 512  # of the sum of a stretch of steps, from the least to the most


def chances(events: Bools, counts: Bools, block_times: int) -> Floats:
    """Return for each rank how likely any of the ranks has as many events as it, if all are equal.

    Events are compared by a permutation test (E. J. G. Pitman, 1937): if ranks are equal, those that had an
    event in a block of steps might as well have been any others of them. So the number of a rank's blocks
    with an event is a sum of independent draws, each with the share of the ranks that had one in that block;
    its distribution (Poisson binomial) is computed exactly, by convolution.

    Events of a rank that follow each other are one: what lasts for several steps has one cause.

    Args:
        events: steps x ranks.
        counts: whether the rank could have had an event in the step; of the same shape.
        block_times: how many times as long as a usual event a block of steps is.

    Returns:
        One probability per rank, at most 1: for ``k`` events that only one of ``n`` ranks had it is
        ``n ** (1 - k)``.
    """
    length = max(block_times * _usual_length(events), -(-len(events) // _MOST_BLOCKS))
    had, could = _in_blocks(events, length), _in_blocks(counts, length)
    share = had.sum(axis=1) / np.maximum(could.sum(axis=1), 1)
    at_least = _at_least(share[(share > 0) & (share < 1)])
    beyond = had.sum(axis=0) - int((share == 1).sum())
    found: Floats = events.shape[1] * at_least[np.clip(beyond, 0, len(at_least) - 1)]
    return np.minimum(found, 1.0)


def _in_blocks(of_steps: Bools, length: int) -> Bools:
    """Tell of each block of steps whether any of them is marked; one column per rank."""
    n_ranks = of_steps.shape[1]
    whole = np.zeros((-(-len(of_steps) // length) * length, n_ranks), np.bool_)
    whole[: len(of_steps)] = of_steps
    found: Bools = whole.reshape(-1, length, n_ranks).max(axis=1)
    return found


def _usual_length(events: Bools) -> int:
    """Return for how many steps events usually last, at least one."""
    begins = events & ~np.vstack([np.zeros((1, events.shape[1]), np.bool_), events[:-1]])
    n_runs = int(begins.sum())
    return max(1, round(int(events.sum()) / n_runs)) if n_runs else 1


def _at_least(share: Floats) -> Floats:
    """Return for k = 0, 1, ... how likely at least k of independent events come about.

    Args:
        share: the probability of each.
    """
    exactly = np.zeros(len(share) + 1)
    exactly[0] = 1.0
    for n, p in enumerate(share.tolist(), start=1):
        exactly[1 : n + 1] = exactly[1 : n + 1] * (1 - p) + exactly[:n] * p
        exactly[0] *= 1 - p
    return np.cumsum(exactly[::-1])[::-1]


def z_of_chance(chance: float) -> float:
    """Return how many standard deviations normal noise exceeds with this probability."""
    return NormalDist().inv_cdf(1 - max(chance, _LEAST_CHANCE))


def likelihood_above_0(of_steps: Floats) -> float:
    """Return how likely the sum over as many other steps like these is above 0.

    Stretches of the run are drawn independently until they are as many steps: the block bootstrap (Kunsch,
    Annals of Statistics 17, 1989), of which the whole distribution is computed, by convolution. A stretch is
    as long as the square root of the run, so that what lasts a few steps is drawn as a whole.
    """
    length = max(1, round(len(of_steps) ** 0.5))
    around = np.cumsum(np.concatenate([[0.0], of_steps, of_steps[: length - 1]]))
    sums = around[length:] - around[:-length]
    least, most = float(sums.min()), float(sums.max())
    if least == most:
        return float(most > 0)
    n_drawn, width = round(len(of_steps) / length), (most - least) / (_LEVELS - 1)
    share = np.bincount(np.round((sums - least) / width).astype(np.int64), minlength=_LEVELS) / len(sums)
    n_sums = n_drawn * (_LEVELS - 1) + 1
    each = np.fft.irfft(np.fft.rfft(share, 2 * n_sums) ** n_drawn, 2 * n_sums)[:n_sums]
    above = n_drawn * least + width * np.arange(n_sums) > 0
    return float(np.clip(round(each[above].sum(), 9), 0.0, 1.0))  # more digits are lost in the sums

"""Measure how far the level of a series wanders by itself, and find where it changes beyond that.

A rank that was a little slow in one step may be so in the next: noise may be correlated from step to step.
Slow stretches then come about by chance, the more of them the longer a run is, and they would be significant
if the steps were independent. The measure is the Allan deviation, as of clocks (D. W. Allan, Proc. IEEE 54,
1966): how much the means of two neighbouring stretches of m steps differ. For independent steps it falls as
1 / sqrt(m), for correlated noise later or never. Only few of these differences contain a change of level.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from timing_logger.analysis.rows.arrays import Bools, Floats, Ints
from timing_logger.results.policy import Policy

MAD_TO_SIGMA = 1.4826  # for normal noise
_QUARTILE_OF_SIZES = 0.3186  # of the absolute values of normal noise, in sigmas


class Noise(NamedTuple):
    """The noise that the ranks of a run have in common.

    Attributes:
        lengths: lengths of stretches in steps, ascending from 1.
        errors: for each length the standard error of the mean of a stretch, as a multiple of the standard
            deviation of a single step.
    """

    lengths: tuple[int, ...]
    errors: tuple[float, ...]

    @property
    def error_factor(self) -> float:
        """The largest ratio of the standard error of a mean to that of independent steps."""
        return float(np.max(np.array(self.errors) * np.array(self.lengths) ** 0.5))

    def error_of_mean(self, n_steps: int) -> float:
        """Return the standard error of a mean of ``n_steps`` steps, in standard deviations of a single step.

        For stretches longer than all of ``lengths``, it is that of the longest.
        """
        return float(np.exp(np.interp(np.log(n_steps), np.log(self.lengths), np.log(self.errors))))


WHITE = Noise((1, 1_000_000), (1.0, 0.001))


def sigma_of(differences: Floats) -> float:
    """Estimate the standard deviation of independent steps from the differences between neighbours.

    A change of level is only one difference of many.
    """
    return float(sigmas_of(differences[None])[0])


def sigmas_of(differences: Floats) -> Floats:
    """Return :func:`sigma_of` of each row; 0 for fewer than two values."""
    if not differences.shape[1]:
        return np.zeros(len(differences))
    deviations = np.abs(differences - np.median(differences, axis=1, keepdims=True))
    return MAD_TO_SIGMA * np.median(deviations, axis=1) / 2**0.5


def robust_sigma(values: Floats) -> float:
    """Estimate the standard deviation from the median absolute deviation; 0 for fewer than two values."""
    return MAD_TO_SIGMA * float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0


def error_of_median(values: Floats) -> float:
    """Estimate the standard error of the median of independent values: that of normal noise as wide."""
    return 1.2533 * robust_sigma(values) / math.sqrt(max(1, len(values)))


_BETWEEN_QUANTILES = 0.7572  # from the 10% to the 30% quantile of normal noise, in sigmas
_MIDDLE = 0.5244  # from the 30% quantile to the median, in sigmas


def usual_of(values: Floats) -> tuple[float, float]:
    """Estimate the usual level and its noise from the quicker values: up to half of all may be slow.

    Args:
        values: at least one.
    """
    high, sigma = (float(of_row[0]) for of_row in _usual_of_rows(values[None]))
    return high + _MIDDLE * sigma, sigma


def usual_sigmas_of(series: Floats) -> Floats:
    """Return the noise that :func:`usual_of` finds in each column; 0 where nothing is known.

    Args:
        series: steps x ranks; NaN where unknown.
    """
    sigmas = np.zeros(series.shape[1])
    for columns, rows in known_rows(series):
        if rows.shape[1]:
            sigmas[columns] = _usual_of_rows(rows)[1]
    return sigmas


def _usual_of_rows(rows: Floats) -> tuple[Floats, Floats]:
    """Return the 30% quantile of each row, and the standard deviation of its quicker values."""
    low, high = np.quantile(rows, (0.1, 0.3), axis=1)
    return high, (high - low) / _BETWEEN_QUANTILES


def known_rows(series: Floats) -> Iterator[tuple[Ints, Floats]]:
    """Yield the columns with equally many known values, and these values, a row for each column.

    So thousands of ranks are computed with at once.
    """
    is_known = ~np.isnan(series)
    n_known = is_known.sum(axis=0)
    for n in np.unique(n_known).tolist():
        columns = np.flatnonzero(n_known == n)
        yield columns, series.T[columns][is_known.T[columns]].reshape(len(columns), n)


def noise_of(series: Floats, min_stretches: int, min_sigma: float = 0.0, cap: float = float("inf")) -> Noise:
    """Measure the noise that the ranks have in common.

    Args:
        series: steps x ranks; NaN where unknown.
        min_stretches: the least number of stretches of a length in a run, for it to tell how much they
            differ.
        min_sigma: the least standard deviation of independent steps; what is below it is rounding.
        cap: values are capped at +- cap around the median of their rank: a spike is no wandering level.
    """
    ranks = _in_sigmas(series, min_sigma, cap)
    lengths = _lengths(max((rows.shape[1] for rows in ranks), default=0), min_stretches)
    errors = [1.0]
    for length in lengths[1:]:
        white = length**-0.5
        errors.append(max(white, _sigma_of_quieter(_between_neighbours(ranks, length)) / 2**0.5))
    return Noise(tuple(lengths), tuple(errors))


def _in_sigmas(series: Floats, min_sigma: float, cap: float) -> list[Floats]:
    """Return the known steps of ranks that have equally many, in units of the deviation between neighbours.

    Returns:
        Arrays of ranks x steps.
    """
    found = []
    for _, rows in known_rows(series):
        if rows.shape[1]:
            middle = np.median(rows, axis=1, keepdims=True)
            capped = np.clip(rows, middle - cap, middle + cap)
            sigmas = np.maximum(min_sigma, sigmas_of(np.diff(capped, axis=1)))
            found.append(capped[sigmas > 0] / sigmas[sigmas > 0, None])
    return [rows for rows in found if len(rows)]


def _lengths(n_steps: int, min_stretches: int) -> list[int]:
    longest = max(1, n_steps // min_stretches)
    return sorted({*(2**i for i in range(longest.bit_length())), longest})


def _sigma_of_quieter(differences: Floats) -> float:
    """Estimate the standard deviation from the smallest quarter of the differences.

    Half of the differences between long stretches may contain one and the same change of level.
    """
    if not len(differences):
        return 0.0
    return float(np.quantile(np.abs(differences), 0.25)) / _QUARTILE_OF_SIZES


def _between_neighbours(ranks: Sequence[Floats], length: int) -> Floats:
    """Return the differences between the means of all neighbouring stretches of this length."""
    differences = [np.zeros(0)]
    for rows in ranks:
        if rows.shape[1] >= 2 * length:
            sums = np.cumsum(np.insert(rows, 0, 0.0, axis=1), axis=1)
            change = sums[:, 2 * length :] - 2 * sums[:, length:-length] + sums[:, : -2 * length]
            differences.append(change.ravel())
    return np.concatenate(differences) / length


# -- tell how likely chance is: that events gather on one of equal ranks, or that a sum is above 0 -------


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


# -- find the changes of level of a noisy series, by seeded binary segmentation --------------------------
# In each interval of a fixed family of overlapping intervals of all lengths, the best split is found by the
# CUSUM statistic. Of the splits above the threshold, the one in the shortest interval is taken first, so that
# an interval with two changes does not blur them (Kovacs, Li, Buehlmann, Munk: Seeded binary
# segmentation, Biometrika 2023; narrowest over threshold: Baranowski, Chen, Fryzlewicz, JRSS B 2019).
# The method is deterministic, and takes n log n time.


_AT_ONCE = 2**15
"""How many sums are worked on at a time: as many as stay in a processor's cache."""


class _Splits(NamedTuple):
    """The start of each interval of one length; for each series its best split, and the CUSUM statistic."""

    starts: npt.NDArray[np.int64]
    splits: npt.NDArray[np.int64]
    strengths: Floats


def change_points(
    series: Floats, policy: Policy, *, cap: float, min_sigma: float, noise: Noise = WHITE
) -> list[int]:
    """Return the positions at which a new level begins, ascending, without 0 and the length.

    Args:
        series: the values, without NaN. No outliers are removed: short windows consist of outliers.
        policy: the numbers by which they are looked for.
        cap: values are capped at +- cap around the median, so that one spike cannot outweigh a level.
        min_sigma: the least standard deviation that the noise is taken to have.
        noise: how much the level wanders by itself, without any change of level.
    """
    return change_points_of_each(series[None], policy, cap=cap, min_sigma=min_sigma, noise=noise)[0]


def change_points_of_each(
    series: Floats, policy: Policy, *, cap: float, min_sigma: float, noise: Noise = WHITE
) -> list[list[int]]:
    """Return the change points of each row of ``series``, as :func:`change_points` does of one.

    All are looked at together, as most of thousands of ranks have none.
    """
    if series.shape[1] < 2 * policy.min_level_steps:
        return [[] for _ in series]
    centred = np.clip(series - np.median(series, axis=1, keepdims=True), -cap, cap)
    sigma = np.maximum(min_sigma, noise.error_factor * sigmas_of(np.diff(centred, axis=1)))
    in_sigmas = centred / sigma[:, None]
    return [
        _between_others(values, _narrowest_first(found), policy) if found else []
        for values, found in zip(in_sigmas, _candidates(in_sigmas, policy), strict=True)
    ]


def _candidates(series: Floats, policy: Policy) -> list[list[tuple[int, int, int]]]:
    """Return of each series (start, end, split) of the intervals whose best split is over the threshold.

    The narrowest intervals come first; of equally long ones that with the strongest split.
    """
    n = series.shape[1]
    threshold = policy.min_change_z_growth * float(np.log(n)) ** 0.5 + policy.min_change_z
    sums = _sums(series)
    found: list[list[tuple[int, int, int]]] = [[] for _ in series]
    for length in _interval_lengths(n, policy):
        best = _best_splits(sums, length, policy)
        over = best.strengths > threshold
        for row in np.flatnonzero(over.any(axis=1)).tolist():
            by_strength = np.argsort(-best.strengths[row, over[row]], kind="stable")
            starts, splits = (values[over[row]][by_strength] for values in (best.starts, best.splits[row]))
            found[row] += zip(starts.tolist(), (starts + length).tolist(), splits.tolist(), strict=True)
    return found


def _sums(series: Floats) -> Floats:
    """Return the sum of the first 0, 1, 2, ... values of each series."""
    return np.concatenate([np.zeros((len(series), 1)), np.cumsum(series, axis=1)], axis=1)


def _interval_lengths(n: int, policy: Policy) -> Iterator[int]:
    least, ratio = 2 * policy.min_level_steps, policy.interval_length_ratio
    layers = range(int(np.log(n / least) / -np.log(ratio)), -1, -1)
    yield from sorted({max(least, int(n * ratio**layer)) for layer in layers})


def _best_splits(sums: Floats, length: int, policy: Policy) -> _Splits:
    """Find the split with the largest CUSUM statistic in each interval of this length, of each series."""
    n, shortest = sums.shape[1] - 1, policy.min_level_steps
    starts = np.arange(0, n - length + 1, max(1, int(length * policy.interval_shift_share)))
    if starts[-1] < n - length:
        starts = np.append(starts, n - length)
    left = np.arange(shortest, length - shortest + 1)
    scale = np.sqrt(length / (left * (length - left)))
    shape = len(sums), len(starts)
    best, strengths = np.empty(shape, np.int64), np.empty(shape)
    every_window = sliding_window_view(sums, length + 1, axis=1)
    for rows, its in _blocks(*shape, max(1, _AT_ONCE // length)):
        windows = every_window[rows, starts[its]]
        windows -= windows[..., :1]
        strength = windows[..., shortest : length - shortest + 1]
        strength -= windows[..., -1:] * (left / length)
        np.abs(strength, out=strength)
        strength *= scale
        best[rows, its] = strength.argmax(axis=2)
        strengths[rows, its] = strength.max(axis=2)
    return _Splits(starts, starts + left[best], strengths)


def _blocks(n_series: int, n_starts: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Yield which series and starts are looked at together, so that there are ``most`` windows at a time."""
    n_together = max(1, most // n_starts)
    for row in range(0, n_series, n_together):
        for at in range(0, n_starts, most):
            yield slice(row, row + n_together), slice(at, at + most)


def _narrowest_first(candidates: list[tuple[int, int, int]]) -> list[int]:
    taken: list[int] = []
    for start, end, split in candidates:
        after = bisect_right(taken, start)
        if after == len(taken) or taken[after] >= end:
            insort(taken, split)
    return taken


def _between_others(series: Floats, splits: list[int], policy: Policy) -> list[int]:
    """Move each split to the best place between its two neighbours, since narrow intervals place it poorly.

    Splits are moved one after the other, so that each keeps the least distance to its neighbours, where they
    are by then.
    """
    sums = _sums(series[None])
    edges = [0, *splits, len(series)]
    for at in range(1, len(edges) - 1):
        start, end = edges[at - 1], edges[at + 1]
        edges[at] = start + int(_best_splits(sums[:, start : end + 1], end - start, policy).splits[0, 0])
    return edges[1:-1]

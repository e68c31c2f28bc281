"""Find the changes of level of a noisy series, by seeded binary segmentation.

In each interval of a fixed family of overlapping intervals of all lengths, the best split is found by the
CUSUM statistic. Of the splits above the threshold, the one in the shortest interval is taken first, so that
an interval with two changes does not blur them (Kovacs, Li, Buehlmann, Munk: Seeded binary
segmentation, Biometrika 2023; narrowest over threshold: Baranowski, Chen, Fryzlewicz, JRSS B 2019).
The method is deterministic, and takes n log n time.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.step_times.noise import WHITE, Noise, sigmas_of
from timing_logger.results.policy import Policy

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
        _between_neighbours(values, _narrowest_first(found), policy) if found else []
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
    for length in _lengths(n, policy):
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


def _lengths(n: int, policy: Policy) -> Iterator[int]:
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


def _between_neighbours(series: Floats, splits: list[int], policy: Policy) -> list[int]:
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

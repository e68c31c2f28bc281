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

from timing_logger.analysis.stragglers.noise import WHITE, Noise, sigma_of
from timing_logger.analysis.stragglers.policy import Policy
from timing_logger.analysis.tables import Floats


class _Splits(NamedTuple):
    """The start of each interval of one length, its best split, and the CUSUM statistic of that split."""

    starts: npt.NDArray[np.int64]
    splits: npt.NDArray[np.int64]
    strengths: Floats


def change_points(
    series: Floats, policy: Policy, *, cap: float, min_sigma: float, noise: Noise = WHITE
) -> list[int]:
    """Return the positions at which a new level begins, ascending, without 0 and the length.

    Args:
        series: the values, without NaN. No outliers are removed: short windows consist of outliers.
        policy: the numbers that decide.
        cap: values are capped at +- cap around the median, so that one spike cannot outweigh a level.
        min_sigma: the least standard deviation that the noise is taken to have.
        noise: how much the level wanders by itself, without any change of level.
    """
    if len(series) < 2 * policy.min_level_steps:
        return []
    centred = np.clip(series - np.median(series), -cap, cap)
    sigma = max(min_sigma, noise.error_factor * sigma_of(np.diff(centred)))
    found = _candidates(centred / sigma, policy)
    return _between_neighbours(centred / sigma, _narrowest_first(found), policy)


def _candidates(series: Floats, policy: Policy) -> list[tuple[int, int, int]]:
    """Return (start, end, split) of each interval whose best split is over the threshold, narrowest first."""
    threshold = policy.min_change_z_growth * float(np.log(len(series))) ** 0.5 + policy.min_change_z
    sums = np.concatenate([[0.0], np.cumsum(series)])
    found = []
    for length in _lengths(len(series), policy):
        best = _best_splits(sums, length, policy)
        over = best.strengths > threshold
        # Of equally long intervals the one with the strongest split comes first.
        by_strength = np.argsort(-best.strengths[over], kind="stable")
        starts, splits = best.starts[over][by_strength], best.splits[over][by_strength]
        found += list(zip(starts.tolist(), (starts + length).tolist(), splits.tolist(), strict=True))
    return found


def _lengths(n: int, policy: Policy) -> Iterator[int]:
    least, ratio = 2 * policy.min_level_steps, policy.interval_length_ratio
    layers = range(int(np.log(n / least) / -np.log(ratio)), -1, -1)
    yield from sorted({max(least, int(n * ratio**layer)) for layer in layers})


def _best_splits(sums: Floats, length: int, policy: Policy) -> _Splits:
    """Find the split with the largest CUSUM statistic in each interval of this length."""
    n, shortest = len(sums) - 1, policy.min_level_steps
    starts = np.arange(0, n - length + 1, max(1, int(length * policy.interval_shift_share)))
    if starts[-1] < n - length:
        starts = np.append(starts, n - length)
    left = np.arange(shortest, length - shortest + 1)
    scale = np.sqrt(length / (left * (length - left)))
    best, strengths = np.empty(len(starts), np.int64), np.empty(len(starts))
    chunk = max(1, 2_000_000 // len(left))  # bounds memory
    for at in range(0, len(starts), chunk):
        windows = sliding_window_view(sums, length + 1)[starts[at : at + chunk]]
        windows -= windows[:, :1]
        left_sum = windows[:, shortest : length - shortest + 1]
        strength = np.abs(left_sum - windows[:, -1:] * (left / length)) * scale
        best[at : at + chunk] = strength.argmax(axis=1)
        strengths[at : at + chunk] = strength.max(axis=1)
    return _Splits(starts, starts + left[best], strengths)


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
    sums = np.concatenate([[0.0], np.cumsum(series)])
    edges = [0, *splits, len(series)]
    for at in range(1, len(edges) - 1):
        start, end = edges[at - 1], edges[at + 1]
        edges[at] = start + int(_best_splits(sums[start : end + 1], end - start, policy).splits[0])
    return edges[1:-1]

"""Where does the level of a noisy series change? Seeded binary segmentation.

A fixed family of overlapping intervals of all lengths is searched for its best split, by the CUSUM
statistic; of the splits above the threshold the one in the shortest interval is taken first, so that
an interval with two changes does not blur them (Kovacs, Li, Buehlmann, Munk: Seeded binary
segmentation, Biometrika 2023; narrowest over threshold: Baranowski, Chen, Fryzlewicz, JRSS B 2019).
Deterministic, and n log n.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from timing_logger.analysis.stragglers.noise import WHITE, Noise, sigma_of
from timing_logger.analysis.tables import Floats

MIN_STEPS = 3
"""A level is held for at least this many steps; what is shorter is a spike."""

_DECAY = 2**-0.5  # each layer of intervals is this much shorter than the one before


class _Splits(NamedTuple):
    """For each interval of one length: where it starts, its best split, and how strong that is."""

    starts: npt.NDArray[np.int64]
    splits: npt.NDArray[np.int64]
    strengths: Floats


def change_points(series: Floats, *, cap: float, min_sigma: float, noise: Noise = WHITE) -> list[int]:
    """Positions at which a new level begins, ascending; neither 0 nor the length is among them.

    Args:
        series: without NaN. Nothing is removed from it: outliers are what short windows consist of.
        cap: values are capped at +- cap around the median, so that one spike cannot outweigh a level.
        min_sigma: noise is taken to be at least this.
        noise: how much it wanders by itself, without any change of level.
    """
    if len(series) < 2 * MIN_STEPS:
        return []
    centred = np.clip(series - np.median(series), -cap, cap)
    sigma = max(min_sigma, noise.error_factor * sigma_of(np.diff(centred)))
    found = _candidates(centred / sigma, threshold=2 * float(np.log(len(series))) ** 0.5 + 1)
    return _between_neighbours(centred / sigma, _narrowest_first(found))


def _candidates(series: Floats, threshold: float) -> list[tuple[int, int, int]]:
    """(start, end, split) of each interval whose best split is over the threshold, narrowest first."""
    sums = np.concatenate([[0.0], np.cumsum(series)])
    found = []
    for length in _lengths(len(series)):
        best = _best_splits(sums, length)
        over = best.strengths > threshold
        # Of equally long intervals the clearer one speaks first.
        by_strength = np.argsort(-best.strengths[over], kind="stable")
        starts, splits = best.starts[over][by_strength], best.splits[over][by_strength]
        found += list(zip(starts.tolist(), (starts + length).tolist(), splits.tolist(), strict=True))
    return found


def _lengths(n: int) -> Iterator[int]:
    layers = range(int(np.log(n / (2 * MIN_STEPS)) / -np.log(_DECAY)), -1, -1)
    yield from sorted({max(2 * MIN_STEPS, int(n * _DECAY**layer)) for layer in layers})


def _best_splits(sums: Floats, length: int) -> _Splits:
    """CUSUM over every split of every interval of this length; half of two neighbours overlaps."""
    n = len(sums) - 1
    starts = np.arange(0, n - length + 1, max(1, length // 4))
    if starts[-1] < n - length:
        starts = np.append(starts, n - length)
    left = np.arange(MIN_STEPS, length - MIN_STEPS + 1)
    scale = np.sqrt(length / (left * (length - left)))
    best, strengths = np.empty(len(starts), np.int64), np.empty(len(starts))
    chunk = max(1, 2_000_000 // len(left))  # bounds memory
    for at in range(0, len(starts), chunk):
        windows = sliding_window_view(sums, length + 1)[starts[at : at + chunk]]
        windows -= windows[:, :1]
        left_sum = windows[:, MIN_STEPS : length - MIN_STEPS + 1]
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


def _between_neighbours(series: Floats, splits: list[int]) -> list[int]:
    """Each split where it is best between the splits beside it: narrow intervals see little.

    One after the other, so that each keeps the least distance to where its neighbours are by then.
    """
    sums = np.concatenate([[0.0], np.cumsum(series)])
    edges = [0, *splits, len(series)]
    for at in range(1, len(edges) - 1):
        start, end = edges[at - 1], edges[at + 1]
        edges[at] = start + int(_best_splits(sums[start : end + 1], end - start).splits[0])
    return edges[1:-1]

"""Find the steps in which a rank is slower than its peers.

They are stretches between change points, or single steps that recur.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from timing_logger.analysis.stragglers.change_points import MIN_STEPS, change_points
from timing_logger.analysis.stragglers.noise import Noise, noise_of, robust_sigma, sigma_of
from timing_logger.analysis.tables import Bools, Floats, Ints

Kind = Literal["persistent", "ongoing", "bounded", "intermittent"]

MIN_GAP = 0.10
"""The least difference to the score of the peers that matters; 1 / (1 - MIN_GAP) as a ratio of times."""

FLAGGED_SCORE = 0.75
"""The relative or individual score below which a rank is flagged."""

MIN_Z = 3.5
"""The least significant robust z-score, from the median absolute deviation (Iglewicz, Hoaglin 1993)."""

MIN_SHARE_SLOWER = 0.75
"""The least fraction of the steps of a slow stretch in which the rank is slower than its peers."""

MIN_RECURRING_SHARE = 0.05
"""Single slow steps recur if they are this fraction of all; the edge of a run is the same fraction of it."""

MIN_SIGMA = 0.02
"""The least standard deviation assumed for log ratios: times within 2% are equal, however quiet the run."""

_FLAGGED = -float(np.log(FLAGGED_SCORE))
_BETWEEN_QUANTILES = 0.7572  # from the 10% to the 30% quantile of normal noise, in sigmas
_MEDIAN_ERROR = 1.2533  # the standard error of a median is that of the mean times sqrt(pi / 2)


class SlowSteps(NamedTuple):
    """The slow steps of one rank that belong together.

    Attributes:
        column: column of the rank.
        steps: positions of the slow steps, ascending.
        kind: persistent; ongoing: still slow at the end; bounded; intermittent: single steps that recur.
        level: median of log(time / peer median) in these steps.
        z: by how many standard errors the level is above 0; of single steps, their number above the expected.
    """

    column: int
    steps: Ints
    kind: Kind
    level: float
    z: float


def slow_steps(ratios: Floats, *, min_gap: float = MIN_GAP) -> list[SlowSteps]:
    """Find the slow steps of every rank.

    Args:
        ratios: log(time / peer median), steps x ranks of one role; NaN where unknown.
        min_gap: in a slow stretch, the least difference of the rank's score to that of its peers.
    """
    noise, least = noise_of(ratios), -float(np.log(1 - min_gap))
    columns = range(ratios.shape[1])
    stretches = [found for column in columns for found in _stretches(ratios[:, column], column, noise, least)]
    return stretches + _recurring(ratios, stretches)


def _stretches(series: Floats, column: int, noise: Noise, least: float) -> list[SlowSteps]:
    known = np.flatnonzero(~np.isnan(series))
    values = series[known]
    changes = change_points(values, cap=_FLAGGED, min_sigma=MIN_SIGMA, noise=noise)
    spans = [(a, b) for a, b in pairwise([0, *changes, len(values)]) if _is_slow(values[a:b], noise, least)]
    return [_stretch(values, known, span, column, noise) for span in _joined(values, spans)]


def _is_slow(values: Floats, noise: Noise, least: float) -> bool:
    return bool(
        len(values) > 0
        and np.median(values) >= least
        and np.mean(values > 0) >= MIN_SHARE_SLOWER
        and z_of_level(values, noise) >= MIN_Z
    )


def z_of_level(values: Floats, noise: Noise) -> float:
    """Return the median of the values in standard errors; the noise is estimated from absolute deviations."""
    wandering = max(MIN_SIGMA, sigma_of(np.diff(values))) * noise.error_of_mean(len(values))
    scattered = robust_sigma(values) / len(values) ** 0.5
    return float(np.median(values) / (_MEDIAN_ERROR * max(wandering, scattered)))


def _joined(values: Floats, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join slow spans that touch, which differ only in their level, and those that only a spike separates."""
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and _is_spike(values[joined[-1][1] : start], _level(values, joined[-1], (start, end))):
            start = joined.pop()[0]
        joined.append((start, end))
    return joined


def _level(values: Floats, *spans: tuple[int, int]) -> float:
    return max(float(np.median(values[slice(*span)])) for span in spans)


def _is_spike(between: Floats, level: float) -> bool:
    """Tell whether fewer than ``MIN_STEPS`` steps are nearer to the peers than to the slow ``level``."""
    return int(np.sum(between < level / 2)) < MIN_STEPS


def _stretch(values: Floats, known: Ints, span: tuple[int, int], column: int, noise: Noise) -> SlowSteps:
    inside = values[slice(*span)]
    edge = MIN_RECURRING_SHARE * len(values)
    from_start, to_end = span[0] <= edge, span[1] >= len(values)
    kind: Kind = "ongoing" if to_end else "bounded"
    if from_start and span[1] >= len(values) - edge:
        kind = "persistent"
    return SlowSteps(column, known[slice(*span)], kind, float(np.median(inside)), z_of_level(inside, noise))


def _recurring(ratios: Floats, stretches: list[SlowSteps]) -> list[SlowSteps]:
    """Find single slow steps outside of the stretches, of ranks with far more of them than their peers."""
    single = _single_slow(ratios, stretches)
    counts = single.sum(axis=0)
    found: list[SlowSteps] = []
    if len(counts) < 2:
        return found
    for column in range(len(counts)):
        expected = float(np.median(np.delete(counts, column)))
        steps = np.flatnonzero(single[:, column])
        z = (counts[column] - expected) / (expected + 1) ** 0.5  # counts of rare events
        if z >= MIN_Z and len(steps) - expected >= MIN_RECURRING_SHARE * len(ratios):
            found.append(SlowSteps(column, steps, "intermittent", float(np.median(ratios[steps, column])), z))
    return found


def _single_slow(ratios: Floats, stretches: list[SlowSteps]) -> Bools:
    sigma = np.array([_sigma_of_usual(column[~np.isnan(column)]) for column in ratios.T])
    single: Bools = np.nan_to_num(ratios) > np.maximum(_FLAGGED, MIN_Z * sigma)
    for stretch in stretches:
        single[stretch.steps, stretch.column] = False
    return single


def _sigma_of_usual(values: Floats) -> float:
    """Estimate the noise from the quicker steps: up to half of all may be slow, and these are no noise."""
    if not len(values):
        return 0.0
    low, middle = np.quantile(values, (0.1, 0.3))
    return float(middle - low) / _BETWEEN_QUANTILES

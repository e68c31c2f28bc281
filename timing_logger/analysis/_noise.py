"""How noisy are times whose noise has a memory? A rank that was a little slow is so in the next step, too.

Slow stretches come about by chance then, and the more of them the longer a run is. Taken for steps that
have nothing to do with each other, they would be significant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis._frames import Floats

_MAD_TO_SIGMA = 1.4826  # for normal noise
_MAX_CORRELATION = 0.95
_CLIPPED_AT = 3.0  # sigmas: a change of level is one difference among many


class Noise(NamedTuple):
    """An autoregressive process of first order.

    Attributes:
        correlation: of one step with the next, in [0, 1).
    """

    correlation: float

    @property
    def error_factor(self) -> float:
        """The standard error of a mean over that of independent steps."""
        return float(((1 + self.correlation) / (1 - self.correlation)) ** 0.5)

    def sigma_of(self, differences: Floats) -> float:
        """The standard deviation of a series as the ``differences`` between its steps tell it.

        A change of level is one difference of many, and a short stretch of noise with a memory varies less
        than all of it.
        """
        return robust_sigma(differences) / float((2 * (1 - self.correlation)) ** 0.5)


WHITE = Noise(0.0)


def robust_sigma(values: Floats) -> float:
    """The standard deviation as the median absolute deviation tells it; 0 for fewer than two values."""
    return _MAD_TO_SIGMA * float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0


def noise_of(series: Floats) -> Noise:
    """The noise that the ranks have in common.

    The differences between steps d have the correlation -(1 - phi) / 2 with the next, where phi is that of
    the steps themselves. A level or its change is in no difference, or in a single one.

    Args:
        series: steps x ranks; NaN where unknown.
    """
    products, squares = 0.0, 0.0
    for column in series.T:
        differences = np.diff(column[~np.isnan(column)])
        sigma = robust_sigma(differences)
        if sigma > 0:
            clipped = np.clip(differences / sigma, -_CLIPPED_AT, _CLIPPED_AT)
            products += float(np.sum(clipped[1:] * clipped[:-1]))
            squares += float(np.sum(clipped**2))
    if squares == 0:
        return WHITE
    correlation = 1 + 2 * products / squares
    by_chance = 2 / max(1, series.size) ** 0.5
    return Noise(float(np.clip(correlation - by_chance, 0.0, _MAX_CORRELATION)))

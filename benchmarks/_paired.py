"""Estimates a difference and its confidence interval from the pairs of measurements of one run.

Two things are measured in turn, close together, many times. The median of the pairs' differences is the
estimate. Resampling the pairs tells how much the median would vary from run to run.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 2000
METHOD = f"median of the pairs' differences, 95% percentile bootstrap with {RESAMPLES} resamples of the pairs"


class Estimate(NamedTuple):
    """A median and its 95% confidence interval."""

    median: float
    low: float
    high: float

    def in_units_of(self, unit: float) -> Estimate:
        """Return the estimate divided by ``unit``."""
        return Estimate(self.median / unit, self.low / unit, self.high / unit)


def estimate(differences: Iterable[float]) -> Estimate:
    """Return the median of ``differences``, one value per pair, with its 95% confidence interval."""
    values = np.fromiter(differences, dtype=float)
    generator = np.random.default_rng(0)
    picked = generator.integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(np.median(values[picked], axis=1), (2.5, 97.5))
    return Estimate(float(np.median(values)), float(low), float(high))


def shuffled(names: Sequence[str], generator: random.Random) -> list[str]:
    """Return ``names`` in a random order, so that none is always measured first."""
    return generator.sample(names, len(names))

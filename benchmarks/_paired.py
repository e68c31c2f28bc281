"""What the paired benchmarks have in common: an interval for a difference, from pairs of one run.

Two things are measured in turn, close together, again and again; the pairs' differences have a median,
and resampling the pairs tells how far another run's median would lie from it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 2000
METHOD = f"median of the pairs' differences, 95% percentile bootstrap with {RESAMPLES} resamples of the pairs"


class Estimate(NamedTuple):
    """A median and its 95% interval."""

    median: float
    low: float
    high: float

    def in_units_of(self, unit: float) -> Estimate:
        return Estimate(self.median / unit, self.low / unit, self.high / unit)


def estimate(differences: Iterable[float]) -> Estimate:
    """The median of ``differences``, one value per pair, and where it lies with 95% confidence."""
    values = np.fromiter(differences, dtype=float)
    generator = np.random.default_rng(0)
    picked = generator.integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(np.median(values[picked], axis=1), (2.5, 97.5))
    return Estimate(float(np.median(values)), float(low), float(high))


def shuffled(names: Sequence[str], generator: random.Random) -> list[str]:
    """All of them in a new order: what comes first in a pair is never the same one for long."""
    return generator.sample(names, len(names))

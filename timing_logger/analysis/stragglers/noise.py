"""How far does a level wander by itself? A rank that was a little slow in one step may be so in the next.

Slow stretches come about by chance then, and the more of them the longer a run is. Taken for steps that have
nothing to do with each other, they would be significant. The measure is the Allan deviation, as of clocks
(D. W. Allan, Proc. IEEE 54, 1966): how much the means of two neighbouring stretches of m steps differ. For
independent steps it falls as the root of m, for noise with a memory later or never; and a change of level is
in few of these differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.tables import Floats

MAD_TO_SIGMA = 1.4826  # for normal noise
_QUARTILE_OF_SIZES = 0.3186  # of the absolute values of normal noise, in sigmas
_MIN_STRETCHES = 8
"""So many stretches of a length must lie in a run, for the run to tell how much they differ."""


class Noise(NamedTuple):
    """The noise that the ranks of a run have in common.

    Attributes:
        lengths: of stretches, ascending from 1, in steps.
        errors: by how much the mean of such a stretch is off, as a multiple of that of a single step.
    """

    lengths: tuple[int, ...]
    errors: tuple[float, ...]

    @property
    def error_factor(self) -> float:
        """The standard error of a mean over that of independent steps."""
        return float(np.max(np.array(self.errors) * np.array(self.lengths) ** 0.5))

    def error_of_mean(self, n_steps: int) -> float:
        """The standard error of a mean of so many steps, in standard deviations of a single one.

        Of longer stretches than the run can tell of it is taken to be no smaller.
        """
        return float(np.exp(np.interp(np.log(n_steps), np.log(self.lengths), np.log(self.errors))))


WHITE = Noise((1, 1_000_000), (1.0, 0.001))


def sigma_of(differences: Floats) -> float:
    """The standard deviation of independent steps, as the differences between neighbours tell it.

    A change of level is one difference of many.
    """
    return robust_sigma(differences) / 2**0.5


def robust_sigma(values: Floats) -> float:
    """The standard deviation as the median absolute deviation tells it; 0 for fewer than two values."""
    return MAD_TO_SIGMA * float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0


def noise_of(series: Floats) -> Noise:
    """The noise that the ranks have in common.

    Args:
        series: steps x ranks; NaN where unknown.
    """
    columns = _in_sigmas(series)
    lengths = _lengths(max(map(len, columns), default=0))
    errors = [1.0]
    for length in lengths[1:]:
        white = length**-0.5
        errors.append(max(white, _sigma_of_quieter(_between_neighbours(columns, length)) / 2**0.5))
    return Noise(tuple(lengths), tuple(errors))


def _in_sigmas(series: Floats) -> list[Floats]:
    """Each rank's known steps, in standard deviations from one to the next."""
    known = [column[~np.isnan(column)] for column in series.T]
    sigmas = [sigma_of(np.diff(column)) for column in known]
    return [column / sigma for column, sigma in zip(known, sigmas, strict=True) if sigma > 0]


def _lengths(n_steps: int) -> list[int]:
    longest = max(1, n_steps // _MIN_STRETCHES)
    return sorted({*(2**i for i in range(longest.bit_length())), longest})


def _sigma_of_quieter(differences: Floats) -> float:
    """The standard deviation as the smallest quarter tells it: half of the differences between long stretches
    have one and the same change of level in them."""
    if not len(differences):
        return 0.0
    return float(np.quantile(np.abs(differences), 0.25)) / _QUARTILE_OF_SIZES


def _between_neighbours(columns: Sequence[Floats], length: int) -> Floats:
    """The differences between the means of all neighbouring stretches of this length."""
    sums = [np.concatenate([[0.0], np.cumsum(column)]) for column in columns if len(column) >= 2 * length]
    differences = [s[2 * length :] - 2 * s[length:-length] + s[: -2 * length] for s in sums]
    return np.concatenate(differences or [np.zeros(0)]) / length

"""Measure how far the level of a series wanders by itself: noise that is correlated from step to step.

A rank that was a little slow in one step may be so in the next. Slow stretches then come about by chance, the
more of them the longer a run is, and they would be significant if the steps were independent. The measure is
the Allan deviation, as of clocks (D. W. Allan, Proc. IEEE 54, 1966): how much the means of two neighbouring
stretches of m steps differ. For independent steps it falls as 1 / sqrt(m), for correlated noise later or
never. Only few of these differences contain a change of level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.table_types import Floats, Ints

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

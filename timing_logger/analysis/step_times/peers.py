"""Compare the times of a rank with those of its peers, the other ranks of its role, in the same step."""

from __future__ import annotations

import warnings

import numpy as np

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.step_times.noise import MAD_TO_SIGMA

_FEW_STEPS = 600
"""Of fewer, ``nanmedian`` is that of masked arrays, which takes seven times as long as ``median``."""


def peer_medians(times: Floats) -> Floats:
    """Return for each step and rank the median of the *other* ranks; NaN where there is none.

    For an even number of peers it is the lower of the two middle values: among three ranks, one slow rank
    would otherwise make each of the others look quick.

    Args:
        times: steps x ranks of one role; NaN where unknown.
    """
    ascending = np.sort(times, axis=1)  # NaN come last
    is_known = ~np.isnan(times)
    n_known = is_known.sum(axis=1, keepdims=True)
    low, high, of_all = (
        np.take_along_axis(ascending, np.clip(place, 0, max(times.shape[1] - 1, 0)), axis=1)
        for place in ((n_known - 2) // 2, n_known // 2, (n_known - 1) // 2)
    )
    found = np.where(is_known, np.where(times > low, low, high), of_all)  # a rank itself is passed over
    return np.where(n_known > is_known, found, np.nan)


def log_ratios(times: Floats, baseline: Floats) -> Floats:
    """Return log(time / peer median); NaN where either is unknown or not positive."""
    usable = (times > 0) & (baseline > 0)
    return np.log(np.where(usable, times, np.nan) / np.where(usable, baseline, np.nan))


def peer_ratios(times: Floats) -> Floats:
    """Return log(time / median of the other ranks), steps x ranks of one role; NaN where unknown."""
    return log_ratios(times, peer_medians(times))


def relative_scores(times: Floats) -> Floats:
    """Return for each rank the least median time of all ranks divided by its own, in (0, 1].

    It is NaN where unknown.

    Args:
        times: steps x ranks of one role.
    """
    medians = column_medians(times)
    least = np.fmin.reduce(medians, initial=np.nan)
    found: Floats = least / np.where(medians > 0, medians, np.nan)
    return found


def n_known_steps(times: Floats) -> int:
    """Count the steps (rows) that are known of any rank; one rank's file may end early."""
    return int((~np.isnan(times)).any(axis=1).sum())


def column_medians(values: Floats) -> Floats:
    """Return the median of the known values of each column; NaN for a column without any."""
    if 0 < len(values) < _FEW_STEPS and not np.isnan(values).any():
        of_known: Floats = np.median(values, axis=0)
        return of_known
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column of which nothing is known is NaN
        medians: Floats = np.nanmedian(values, axis=0) if values.size else np.full(values.shape[1], np.nan)
    return medians


def column_means(values: Floats) -> Floats:
    """Return the mean of the known values of each column; NaN for a column without any."""
    n_known = (~np.isnan(values)).sum(axis=0)
    means: Floats = np.nansum(values, axis=0) / np.where(n_known, n_known, np.nan)
    return means


def row_medians(values: Floats) -> Floats:
    """Return the lower median of the known values of each row; NaN for a row without any."""
    ascending = np.sort(values, axis=1)
    n_known = (~np.isnan(values)).sum(axis=1, keepdims=True)
    return np.take_along_axis(ascending, np.maximum((n_known - 1) // 2, 0), axis=1)[:, 0]


def correlations(series: Floats, column: int, min_known: int) -> Floats:
    """Return the correlation of each column with a given one, from their differences between steps.

    It is computed from robust spreads, 1 - var(x - y) / (var(x) + var(y)). Differences do not depend on the
    level of a rank. The correlation is 0 where too little is known or nothing varies.

    Args:
        series: steps x ranks; NaN where unknown.
        column: the column that the others are compared with.
        min_known: the least number of known differences between steps.
    """
    differences = np.diff(series, axis=0)
    mine = differences[:, [column]]
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = variances(differences - mine)
        together = variances(np.where(np.isnan(mine), np.nan, differences)) + variances(
            np.where(np.isnan(differences), np.nan, mine)
        )
        found = 1 - apart / together
    known = (~np.isnan(differences - mine)).sum(axis=0)
    return np.where((known >= min_known) & np.isfinite(found), found, 0.0)


def variances(differences: Floats) -> Floats:
    """Return the robust variance of each column, from its absolute deviations from 0."""
    return (MAD_TO_SIGMA * column_medians(np.abs(differences))) ** 2

"""Compare the times of a rank with those of its peers, the other ranks of its role, in the same step."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from timing_logger.analysis.tables import Floats, Ints


def members(ranks: Sequence[int], roles: Mapping[int, str]) -> dict[str, Ints]:
    """Return the columns of the ranks of each role.

    Args:
        ranks: the rank of each column.
        roles: the role of each rank.
    """
    return {
        role: np.array([i for i, rank in enumerate(ranks) if roles[rank] == role], dtype=np.int64)
        for role in sorted({roles[rank] for rank in ranks})
    }


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


def relative_scores(times: Floats) -> Floats:
    """Return for each rank the least median time of all ranks divided by its own, in (0, 1].

    It is NaN where unknown.

    Args:
        times: steps x ranks of one role.
    """
    medians = column_medians(times)
    known = medians[~np.isnan(medians)]
    least = known.min() if len(known) else np.nan
    return least / np.where(medians > 0, medians, np.nan)


def n_known_steps(times: Floats) -> int:
    """Count the steps (rows) that are known of any rank; one rank's file may end early."""
    return int((~np.isnan(times)).any(axis=1).sum())


def column_medians(values: Floats) -> Floats:
    """Return the median of the known values of each column; NaN for a column without any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column of which nothing is known is NaN
        medians: Floats = np.nanmedian(values, axis=0) if values.size else np.full(values.shape[1], np.nan)
    return medians


def row_medians(values: Floats) -> Floats:
    """Return the lower median of the known values of each row; NaN for a row without any."""
    ascending = np.sort(values, axis=1)
    n_known = (~np.isnan(values)).sum(axis=1, keepdims=True)
    return np.take_along_axis(ascending, np.maximum((n_known - 1) // 2, 0), axis=1)[:, 0]

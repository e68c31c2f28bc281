"""Statistics of two sides of which each has some runs: the unit is the run.

Steps of one run are no independent measurements of the program: what the machine was like during the run is
in all of them. So each run gives one number, and its uncertainty is how far the runs of a side lie apart
(Kalibera and Jones, Rigorous benchmarking in reasonable time, 2013, section 5). The intervals are those of
Welch's t-test, by scipy.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from timing_logger.errors import ConfigurationError
from timing_logger.results import criteria
from timing_logger.results.comparison import Shift
from timing_logger.results.run_summary import MOST_RUNS_NAMED


def shift_between(
    values: Sequence[float],
    against: Sequence[float],
    *,
    paired: bool = False,
    confidence: float = criteria.DIFFERENCE_CONFIDENCE,
) -> Shift:
    """Return by how much ``values`` differ from ``against``, with its interval.

    Two sides of two or more are compared by Welch's t-test, which does not take their spreads to be equal.
    One value is compared with several by Student's: its spread is taken to be theirs, so that the interval is
    that in which a further one of them lies.

    Args:
        values, against: one number for each run.
        paired: whether the n-th of one side belongs to the n-th of the other: then the spread is that of
            their differences.
        confidence: of the interval.
    """
    a, b = np.asarray(values, np.float64), np.asarray(against, np.float64)
    estimate = float((a - b).mean()) if paired else float(a.mean() - b.mean())
    spread = _spread_of_pairs(a, b) if paired else spread_of(a, b)
    if math.isnan(spread) or (paired and len(a) < 2):
        return Shift(estimate, -math.inf, math.inf, math.nan, math.nan)
    if spread <= criteria.ROUNDING_SHARE * max(abs(float(a.mean())), abs(float(b.mean()))):
        return Shift(estimate, estimate, estimate, 1.0 if estimate == 0 else 0.0, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a side without any spread: the other has some
        found = (
            _stats().ttest_rel(a, b)
            if paired
            else _stats().ttest_ind(a, b, equal_var=min(len(a), len(b)) == 1)
        )
        interval = found.confidence_interval(confidence)
    return Shift(estimate, float(interval.low), float(interval.high), float(found.pvalue), spread)


class TimeShift(NamedTuple):
    """What something takes on both sides, in ms.

    Attributes:
        ms, against_ms: the means.
        shift: their difference, with its interval.
    """

    ms: float
    against_ms: float
    shift: Shift


def time_shift(
    ms: Sequence[float],
    against_ms: Sequence[float],
    floor_ms: float,
    *,
    paired: bool = False,
    confidence: float = criteria.DIFFERENCE_CONFIDENCE,
) -> TimeShift:
    """Return by how many ms one thing takes longer, by the logarithms of its times and a floor.

    A busy machine makes times longer by a factor, so that the longer ones are spread more: their logarithms
    are spread alike. What is far below the floor, or 0, is compared by its differences.

    Args:
        ms, against_ms: of each run, what it takes in a step, at least 0.
        floor_ms: is added to each time.
        paired, confidence: as of :func:`shift_between`.
    """
    logs, others = (np.log(np.asarray(side, np.float64) + floor_ms) for side in (ms, against_ms))
    found = shift_between(logs.tolist(), others.tolist(), paired=paired, confidence=confidence)
    mean, other = float(np.exp(logs.mean())), float(np.exp(others.mean()))
    low, high = (other * as_part(end) for end in (found.low, found.high))
    return TimeShift(mean - floor_ms, other - floor_ms, Shift(mean - other, low, high, found.p, found.spread))


def as_part(log_change: float) -> float:
    """Return a difference of logarithms as a fraction: 0.05 for 5% more. What is infinite stays so."""
    return log_change if math.isinf(log_change) else math.expm1(min(log_change, _MOST_LOG))


_MOST_LOG = 700.0  # of which a float has the exponential


def spread_of(*sides: Sequence[float] | np.ndarray) -> float:
    """Return the standard deviation of the runs within their sides; NaN where no side has two."""
    deviations = [np.asarray(side) - np.mean(side) for side in sides]
    freedom = sum(len(side) - 1 for side in sides)
    squares = sum(float((one**2).sum()) for one in deviations)
    return math.sqrt(squares / freedom) if freedom > 0 else math.nan


def _spread_of_pairs(a: np.ndarray, b: np.ndarray) -> float:
    """Return the spread that runs would have, each for itself, whose differences are spread like these."""
    return spread_of(a - b) / math.sqrt(2)


def runs_needed(effect: float, spread: float, confidence: float) -> int | None:
    """Return how many runs of each side show a difference in nine of ten comparisons.

    That is the power of the t-test (its noncentral distribution) for two sides of equal spread.

    Args:
        effect: the difference; not 0.
        spread: the standard deviation of the runs of a side, in the same unit.
        confidence: of the interval that is to exclude 0.

    Returns:
        At least 3; None if it is more than a thousand, or the spread is not known.
    """
    if not spread >= 0 or effect == 0:
        return None
    low, high = 3, MOST_RUNS_NAMED
    if _power(abs(effect), spread, high, confidence) < criteria.FOUND_LIKELIHOOD:
        return None
    while low < high:  # the power grows with the number of runs
        middle = (low + high) // 2
        enough = _power(abs(effect), spread, middle, confidence) >= criteria.FOUND_LIKELIHOOD
        low, high = (low, middle) if enough else (middle + 1, high)
    return low


def _power(effect: float, spread: float, n: int, confidence: float) -> float:
    """Return how likely the interval excludes 0, of two sides of ``n`` runs each."""
    if spread == 0:
        return 1.0
    return _power_of(effect / (spread * math.sqrt(2 / n)), 2 * n - 2, confidence)


def _power_of(distance: float, freedom: int, confidence: float) -> float:
    """Return the same of a difference of so many standard errors, with so many degrees of freedom."""
    stats = _stats()
    limit = float(stats.t.ppf((1 + confidence) / 2, freedom))
    if distance > 10 * limit:  # where the noncentral distribution is not computed well, and is 1
        return 1.0
    return float(stats.nct.sf(limit, freedom, distance))


def effect_found(spread: float, n: int, n_against: int, confidence: float) -> float:
    """Return the difference that nine of ten comparisons of so many runs show; infinite where none is.

    Args:
        spread: the standard deviation of the runs of a side.
        n, n_against: the numbers of runs, of which one has at least two.
        confidence: of the interval that is to exclude 0.
    """
    freedom = n + n_against - 2
    if not spread >= 0 or freedom < 1:
        return math.inf
    low, high = 0.0, 10 * float(_stats().t.ppf((1 + confidence) / 2, freedom))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (
            (low, middle)
            if _power_of(middle, freedom, confidence) >= criteria.FOUND_LIKELIHOOD
            else (middle, high)
        )
    return high * spread * math.sqrt(1 / n + 1 / n_against)


_HALVINGS = 30


def shown_beyond_chance(p: Sequence[float], part: float) -> list[bool]:
    """Tell which of many differences to name, so that of those on average no more than a part are by chance.

    They are those of Benjamini and Hochberg (Controlling the false discovery rate, 1995), by scipy.

    Args:
        p: of each difference the likelihood by chance; NaN where it is not known.
        part: the part that may be by chance.
    """
    given = np.asarray(p, np.float64)
    found, known = np.zeros(len(given), np.bool_), ~np.isnan(given)
    if known.any():
        found[known] = _stats().false_discovery_control(given[known]) <= part
    return [bool(one) for one in found]


def _stats() -> Any:
    """Return ``scipy.stats``.

    Raises:
        ConfigurationError: scipy is not installed, or too old.
    """
    try:
        from scipy import stats
    except ImportError:
        raise ConfigurationError(_NO_SCIPY) from None
    if not hasattr(stats, "false_discovery_control"):
        raise ConfigurationError(_NO_SCIPY)
    return stats


_NO_SCIPY = (
    "compare: the statistics are those of scipy 1.11 or later, which is not installed. "
    "pip install 'timing_logger[compare]' installs it."
)

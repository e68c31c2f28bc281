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

from timing_logger.analysis.rows.arrays import Bools, Floats
from timing_logger.errors import ConfigurationError
from timing_logger.results import criteria
from timing_logger.results.comparison import CourseOfSide, Courses, Shift, Since
from timing_logger.results.run_summary import MOST_RUNS_NAMED, Course, RunSummary


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
    # Of pairs it is that of runs, each for itself, whose differences are spread like these.
    spread = spread_of(a - b) / math.sqrt(2) if paired else spread_of(a, b)
    if math.isnan(spread) or (paired and len(a) < 2):
        return Shift(estimate, -math.inf, math.inf, math.nan, math.nan)
    rounding = criteria.ROUNDING_SHARE * max(abs(float(a.mean())), abs(float(b.mean())))
    if spread <= rounding and abs(estimate) <= rounding:
        return Shift(estimate, estimate - rounding, estimate + rounding, 1.0, 0.0)
    if spread <= rounding:
        return Shift(estimate, estimate, estimate, 0.0, 0.0)
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
        found = _power_of(middle, freedom, confidence) >= criteria.FOUND_LIKELIHOOD
        low, high = (low, middle) if found else (middle, high)
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


_Members = Sequence[Sequence[RunSummary]]


class _Stretches(NamedTuple):
    """The stretches that all runs have: what they are, and the median of each run there, in ms."""

    counted_by: str
    width: int
    first: list[int]
    here: list[Floats]
    against: list[Floats]


def courses_of(here: _Members, there: _Members) -> Courses | None:
    """Return the course of both sides; None where runs have no stretches in common.

    Args:
        here, there: the runs of each unit of a side.
    """
    found = _in_common(here, there)
    if found is None:
        return None
    sides = (_side(np.concatenate(units)) for units in (found.here, found.against))
    return Courses(found.counted_by, found.width, tuple(found.first), *sides)


def _side(ms: Floats) -> CourseOfSide:
    figures = (np.median(ms, axis=0), ms.min(axis=0), ms.max(axis=0))
    return CourseOfSide(*(tuple(figure.tolist()) for figure in figures))


def since_when(here: _Members, there: _Members, *, paired: bool, least: float) -> Since | None:
    """Return from where on the sides differ otherwise than before; None if that is not shown.

    Of each run, the mean length of its steps after a place, over that before it, is one number; in these
    numbers the sides are compared as in all others, so that what a run has in all of its steps cancels out.
    The place is the one at which two levels describe the difference of the sides best (least squares). As it
    is chosen among many, the interval holds for all of them together (Bonferroni).

    Args:
        here, there: the runs of each unit of a side.
        paired: whether the units are pairs.
        least: the least change that is told, as a fraction.
    """
    found = _in_common(here, there)
    if found is None or len(found.first) < criteria.MIN_COURSE_STRETCHES:
        return None
    sides = [np.stack([np.log(ms).mean(axis=0) for ms in units]) for units in (found.here, found.against)]
    off = _misfits(sides[0].mean(axis=0) - sides[1].mean(axis=0))
    at = int(np.nanargmin(off))
    levels = [(side[:, :at].mean(axis=1), side[:, at:].mean(axis=1)) for side in sides]
    confidence = 1 - (1 - criteria.STEP_CONFIDENCE) / int(np.isfinite(off).sum())
    contrasts = [(after - before).tolist() for before, after in levels]
    shift = shift_between(contrasts[0], contrasts[1], paired=paired, confidence=confidence)
    if not shift.is_shown or abs(shift.estimate) < math.log1p(max(least, criteria.MIN_CHANGE_SHARE)):
        return None
    before, after = (float(levels[0][when].mean() - levels[1][when].mean()) for when in (0, 1))
    likely = np.flatnonzero(_as_likely(off, len(found.first)))
    places = (found.first[one] for one in (at, int(likely[0]), int(likely[-1])))
    ends = (math.expm1(min(one, _MOST_LOG)) for one in (before, after, shift.estimate, shift.low, shift.high))
    return Since(found.counted_by, *places, *ends)


def _misfits(differences: Floats) -> Floats:
    """Return for each place how far two levels are from a series, as a sum of squares; NaN where a level
    would be too short."""
    n = len(differences)
    off = np.full(n, np.nan)
    for at in range(criteria.MIN_LEVEL_STRETCHES, n - criteria.MIN_LEVEL_STRETCHES + 1):
        levels = differences[:at], differences[at:]
        off[at] = sum(float(((level - level.mean()) ** 2).sum()) for level in levels)
    return off


def _as_likely(off: Floats, n: int) -> Bools:
    """Tell which places are not ruled out, if the series is two levels with normal noise."""
    least = max(float(np.nanmin(off)), _LEAST_MISFIT)
    likely: Bools = n * np.log(np.maximum(off, _LEAST_MISFIT) / least) <= criteria.LIKELY_SIGMAS**2
    return likely


_LEAST_MISFIT = 1e-18


# -- stretches ---------------------------------------------------------------------------------------


def _in_common(here: _Members, there: _Members) -> _Stretches | None:
    """Return the stretches that all runs of both sides have."""
    courses = [run.course for side in (here, there) for unit in side for run in unit]
    known = [one for one in courses if one is not None]
    if len(known) < len(courses) or len({one.counted_by for one in known}) != 1:
        return None
    width = max(one.width for one in known)
    wide = [_widened(one, width) for one in known]
    first = sorted(set.intersection(*(set(one) for one in wide)))
    if not first:
        return None
    rows = iter(np.array([one[begin] for begin in first]) for one in wide)
    sides = [[np.stack([next(rows) for _ in unit]) for unit in side] for side in (here, there)]
    return _Stretches(known[0].counted_by, width, first, *sides)


def _widened(course: Course, width: int) -> dict[int, float]:
    """Return the medians of stretches of a multiple of their width, by where these begin: the means of
    those within."""
    sums: dict[int, tuple[float, int]] = {}
    for first, ms, n in zip(course.first, course.median_ms, course.n_steps, strict=True):
        begin = first // width * width
        sum_ms, n_before = sums.get(begin, (0.0, 0))
        sums[begin] = sum_ms + n * ms, n_before + n
    return {begin: sum_ms / n for begin, (sum_ms, n) in sums.items()}

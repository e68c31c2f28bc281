"""The course of the runs of two sides, stretch by stretch, and since when they differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.comparison.between_runs import shift_between
from timing_logger.analysis.rows.table_types import Bools, Floats
from timing_logger.results import criteria
from timing_logger.results.courses import CourseOfSide, Courses, Since
from timing_logger.results.run_summary import Course, RunSummary

_Members = Sequence[Sequence[RunSummary]]

_MOST_LOG = 700.0  # of which a float has the exponential


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

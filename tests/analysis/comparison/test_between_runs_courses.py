"""Since when two sides differ: found where they do, in stretches that all runs have, and hardly ever by
chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from compared_runs import course, noisy, summary
from slow import slow

from timing_logger.analysis.comparison.between_runs import _as_likely, _misfits, courses_of, since_when
from timing_logger.analysis.comparison.compare import compare_runs
from timing_logger.results.run_summary import Course, RunSummary

N = 40


def of(*courses: Course | None) -> list[list[RunSummary]]:
    """Return a side whose runs have these courses."""
    return [[summary(course=one)] for one in courses]


def side(
    seed: int, later: float = 1.0, *, n: int = 5, since: int = N // 2, noise: float = 0.01, apart: float = 0.1
) -> list[list[RunSummary]]:
    """Return runs that lie apart, and whose steps take longer by a factor since one of 40 stretches."""
    rng = np.random.default_rng(seed)
    levels = np.where(np.arange(N) >= since, later, 1.0)
    drawn = [100.0 * np.exp(rng.normal(0, apart) + rng.normal(0, noise, N)) * levels for _ in range(n)]
    return of(*(course(ms.tolist()) for ms in drawn))


def test_a_slowdown_of_the_second_half_is_found_where_runs_lie_farther_apart_than_it_is_large() -> None:
    found = since_when(side(1, 1.05), side(2), paired=False, least=0.01)
    assert found is not None
    assert found.first == pytest.approx(4 * N // 2, abs=4)
    assert found.earliest <= 4 * N // 2 <= found.latest
    assert found.low < 0.05 < found.high
    assert found.after - found.before == pytest.approx(0.05, abs=0.01)


def test_a_side_that_becomes_faster_is_found_too() -> None:
    found = since_when(side(1, 0.9), side(2), paired=False, least=0.01)
    assert found is not None
    assert found.high < 0


def test_where_both_sides_become_slower_at_once_there_is_nothing_to_tell() -> None:
    assert since_when(side(1, 1.3), side(2, 1.3), paired=False, least=0.01) is None


def test_a_side_that_is_slower_all_along_has_no_since() -> None:
    slower = [[replace(run, course=course([1.2 * ms for ms in run.course.median_ms]))] for (run,) in side(1)]
    assert since_when(slower, side(2), paired=False, least=0.01) is None


@pytest.mark.parametrize("n", [20, slow(150, "more of the same")])
def test_of_equal_sides_next_to_none_is_said_to_differ_since_something(n: int) -> None:
    found = [since_when(side(2 * at), side(2 * at + 1), paired=False, least=0.0) for at in range(n)]
    assert sum(one is not None for one in found) <= n // 50  # 0.5% are expected at most


@pytest.mark.parametrize("n", [20, slow(150, "more of the same")])
def test_steps_that_depend_on_those_before_them_are_no_since(n: int) -> None:
    def wandering(seed: int) -> list[list[RunSummary]]:
        walks = np.random.default_rng(seed).normal(0, 0.01, (5, N)).cumsum(axis=1)
        return of(*(course(ms.tolist()) for ms in 100 * np.exp(walks)))

    found = [since_when(wandering(2 * at), wandering(2 * at + 1), paired=False, least=0.0) for at in range(n)]
    assert sum(one is not None for one in found) <= n // 50


def test_a_change_below_the_bound_is_not_told() -> None:
    small = side(1, 1.02, noise=0.001, apart=0.001), side(2, noise=0.001, apart=0.001)
    assert since_when(*small, paired=False, least=0.01) is not None
    assert since_when(*small, paired=False, least=0.05) is None


def test_few_stretches_tell_nothing() -> None:
    short = [of(*(course([100.0 + at] * 3 + [later + at] * 3) for at in range(5))) for later in (150, 100)]
    assert since_when(*short, paired=False, least=0.01) is None


def test_single_runs_have_courses_and_no_since() -> None:
    found = compare_runs([summary(course=course([1.0] * 9))], [summary(course=course([1.0] * 9))])
    assert found.courses is not None
    assert found.since is None


@pytest.mark.parametrize("paired", [False, True])
def test_the_comparison_says_since_when(paired: bool) -> None:
    here, there = ([run for unit in one for run in unit] for one in (side(1, 1.2), side(2)))
    found = compare_runs(here, there, paired=paired)
    assert found.since is not None
    assert found.as_dict()["since"]["first"] == found.since.first
    assert found.as_dict()["courses"]["here"]["median_ms"] == found.courses.here.median_ms


# -- stretches ---------------------------------------------------------------------------------------------


def firsts(here: Sequence[Sequence[RunSummary]], there: Sequence[Sequence[RunSummary]]) -> list[int]:
    found = courses_of(here, there)
    return [] if found is None else list(found.first)


def test_only_stretches_that_all_runs_have_are_compared() -> None:
    assert firsts(of(course([1.0] * 5)), of(course([1.0] * 5, first=8))) == [8, 12, 16]
    assert firsts(of(course([1.0] * 2)), of(course([1.0] * 2, first=8))) == []


def test_shorter_stretches_are_put_together() -> None:
    narrow = course([1.0, 3.0, 5.0, 7.0], width=2, n_steps=2)
    found = courses_of(of(narrow), of(course([2.0, 6.0])))
    assert found is not None
    assert (found.width, found.first, found.here.median_ms) == (4, (0, 4), (2.0, 6.0))


def test_the_median_and_the_ends_are_those_of_the_runs_of_a_side() -> None:
    found = courses_of(of(course([1.0]), course([2.0]), course([9.0])), of(course([5.0])))
    assert found is not None
    assert found.here == ((2.0,), (1.0,), (9.0,))
    assert found.against == ((5.0,), (5.0,), (5.0,))


def test_runs_that_count_otherwise_or_do_not_tell_have_nothing_in_common() -> None:
    assert firsts(of(course([1.0] * 5)), of(course([1.0] * 5, counted_by="steps"))) == []
    assert firsts(of(course([1.0] * 5)), of(None)) == []
    assert compare_runs(noisy(3, 0.01, 1), noisy(3, 0.01, 2)).courses is None


def test_steps_of_different_kinds_have_no_course_together() -> None:
    sides = ([summary(steps_are=kind, course=course([1.0] * 9))] for kind in ("iterations", "rounds"))
    assert compare_runs(*sides).courses is None


def test_stretches_that_no_clock_could_tell_apart_are_no_error() -> None:
    tiny, huge = 1e-300, 1e17
    here = of(*(course([tiny * (1 + at)] * 20 + [huge * (1 + at)] * 20) for at in range(3)))
    there = of(*(course([huge * (1 + at)] * 20 + [tiny * (1 + at)] * 20) for at in range(3)))
    found = since_when(here, there, paired=False, least=0.01)
    assert found is not None
    assert found.first == 80


def test_a_place_is_not_ruled_out_where_two_levels_describe_the_sides_nearly_as_well() -> None:
    nearly, hardly = np.exp(3.83 / 20), np.exp(3.85 / 20)  # the bound of 95% is 3.84
    found = _as_likely(np.array([np.nan, hardly, nearly, 1.0, nearly, hardly]), 20)
    assert found.tolist() == [False, False, True, True, True, False]
    assert _as_likely(np.array([np.nan, 1.0, 0.0, 1e-20]), 20).tolist() == [False, False, True, True]


@pytest.mark.parametrize(("n", "is_told"), [(8, True), (7, False)])
def test_eight_stretches_are_enough_and_seven_are_not(n: int, is_told: bool) -> None:
    level = [100.0] * (n // 2) + [200.0] * (n - n // 2)
    here, there = (
        of(*(course([ms * (1 + 1e-3 * (run + at % 2)) for at, ms in enumerate(series)]) for run in range(5)))
        for series in (level, [100.0] * n)
    )
    assert (since_when(here, there, paired=False, least=0.01) is not None) is is_told


@pytest.mark.parametrize(("later", "is_told"), [(1.013, True), (1.007, False)])
def test_a_change_of_less_than_one_percent_is_not_told_whatever_is_asked_for(
    later: float, is_told: bool
) -> None:
    small = side(1, later, noise=0.0003, apart=0.001), side(2, noise=0.0003, apart=0.001)
    assert (since_when(*small, paired=False, least=0.0) is not None) is is_told


def test_a_level_has_two_stretches_or_more() -> None:
    assert np.flatnonzero(np.isfinite(_misfits(np.arange(10.0)))).tolist() == [2, 3, 4, 5, 6, 7, 8]

"""The statistics between runs: intervals hold what they promise, and the numbers of runs are those needed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from slow import slow

from timing_logger.analysis.comparison.between_runs import (
    _power,
    as_part,
    effect_found,
    runs_needed,
    shift_between,
    shown_beyond_chance,
    spread_of,
    time_shift,
)

RNG = np.random.default_rng(0)


def quantile_of_t(probability: float, freedom: float) -> float:
    from scipy import stats  # which takes a second: not where tests are only collected

    return float(stats.t.ppf(probability, freedom))


@pytest.mark.slow("against scipy, over random samples; the figures of an example are quick")
def test_the_interval_is_that_of_welch() -> None:
    a, b = RNG.normal(1.0, 0.1, 5), RNG.normal(0.9, 0.3, 7)
    found = shift_between(a.tolist(), b.tolist(), confidence=0.95)
    variances = a.var(ddof=1) / 5, b.var(ddof=1) / 7
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / 4 + variances[1] ** 2 / 6)
    half = quantile_of_t(0.975, freedom) * math.sqrt(sum(variances))
    assert (found.low, found.high) == pytest.approx((a.mean() - b.mean() - half, a.mean() - b.mean() + half))


@pytest.mark.parametrize("n", [40, slow(1000, "more of the same")])
def test_of_equal_sides_as_few_intervals_exclude_0_as_is_said(n: int) -> None:
    sides = np.random.default_rng(1).normal(0, 1, (n, 2, 5)).tolist()
    shown = [shift_between(*two, confidence=0.9).is_shown for two in sides]
    assert np.mean(shown) == pytest.approx(0.1, abs=0.03)


def test_the_interval_of_five_values_and_three_is_that_of_welch() -> None:
    a, b = [1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 4.0, 10.0]
    t_of_2_29 = 3.820353617671593  # 97.5% of Student's t at 7.5**2 / (0.5**2 / 4 + 7**2 / 2) degrees
    found = shift_between(a, b, confidence=0.95)
    half = t_of_2_29 * math.sqrt(2.5 / 5 + 21.0 / 3)
    assert (found.low, found.high) == pytest.approx((-2.0 - half, -2.0 + half))


def test_one_value_is_held_against_the_interval_of_a_further_one_of_the_others() -> None:
    others = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    found = shift_between([9.0], others, confidence=0.9)
    t_of_5 = 2.0150483733330233  # 95% of Student's t at 5 degrees
    half = t_of_5 * np.std(others, ddof=1) * math.sqrt(1 + 1 / 6)
    assert (found.low, found.high) == pytest.approx((5.5 - half, 5.5 + half))


def test_of_one_value_on_each_side_nothing_is_known_but_their_difference() -> None:
    found = shift_between([2.0], [1.5])
    assert (found.estimate, found.low, found.high) == (0.5, -math.inf, math.inf)
    assert math.isnan(found.p)
    assert not found.is_shown


def test_values_that_never_differ_differ_for_certain_where_they_do() -> None:
    assert shift_between([2.0] * 3, [1.0] * 3).is_shown
    assert not shift_between([2.0] * 3, [2.0] * 3).is_shown


def test_pairs_are_told_apart_where_what_they_share_is_uneven() -> None:
    shared = RNG.normal(0, 1, 6)
    a, b = (shared + 0.1 + RNG.normal(0, 0.01, 6)).tolist(), (shared + RNG.normal(0, 0.01, 6)).tolist()
    assert shift_between(a, b, paired=True).is_shown
    assert not shift_between(a, b).is_shown


@pytest.mark.parametrize("times", [60, slow(500, "more of the same")])
def test_the_number_of_runs_that_is_named_finds_the_effect_nine_times_in_ten(times: int) -> None:
    rng = np.random.default_rng(2)
    n = runs_needed(0.05, 0.03, 0.99)
    assert n is not None
    found = [
        shift_between(*(rng.normal((0.05, 0), 0.03, (n, 2)).T.tolist()), confidence=0.99).is_shown
        for _ in range(times)
    ]
    assert np.mean(found) == pytest.approx(0.9, abs=0.05)


def test_the_effect_that_is_said_to_be_found_needs_as_many_runs_as_there_are() -> None:
    effect = effect_found(0.03, 8, 8, 0.99)
    assert runs_needed(effect, 0.03, 0.99) == 8
    assert runs_needed(0.99 * effect, 0.03, 0.99) == 9


@pytest.mark.parametrize(("effect", "spread"), [(0.0, 0.1), (0.1, math.nan), (1e-6, 1.0)])
def test_no_number_is_named_that_nobody_knows_or_makes(effect: float, spread: float) -> None:
    assert runs_needed(effect, spread, 0.99) is None


def test_three_runs_are_the_fewest_that_are_named() -> None:
    assert runs_needed(1.0, 0.0, 0.99) == runs_needed(1.0, 1e-6, 0.99) == 3


def test_of_many_differences_by_chance_next_to_none_are_named() -> None:
    assert sum(shown_beyond_chance(RNG.uniform(0, 1, 1000).tolist(), 0.05)) <= 1
    assert shown_beyond_chance([0.001, math.nan, 0.9], 0.05) == [True, False, False]


def test_the_spread_is_that_within_sides() -> None:
    assert spread_of([1.0, 3.0], [101.0, 103.0]) == pytest.approx(math.sqrt(2))
    assert math.isnan(spread_of([1.0], [2.0]))


def test_a_side_without_spread_is_compared_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    found = shift_between([2.0, 2.0 + 1e-15, 2.0], [1.0, 1.1, 0.9])
    assert found.is_shown
    assert len(recwarn) == 0


def test_sides_that_differ_by_rounding_alone_are_alike() -> None:
    found = shift_between([1.5 + 4e-8, 1.5 - 2e-8, 1.5], [1.5 + 1e-7, 1.5 - 1e-8, 1.5])
    assert found.estimate != 0
    assert not found.is_shown
    assert found.p == 1.0
    assert shift_between([1.5 + 4e-8, 1.5, 1.5], [1.6, 1.6, 1.6]).is_shown


def test_the_spread_of_pairs_is_that_of_runs_of_which_each_has_its_own() -> None:
    a, b = RNG.normal(0, 0.2, (2, 4000))
    assert shift_between(a.tolist(), b.tolist(), paired=True).spread == pytest.approx(0.2, rel=0.05)


def test_times_that_are_spread_by_a_factor_are_told_apart_by_their_logarithms() -> None:
    against_ms = [0.6, 0.8, 1.0, 1.3, 1.7]
    ms = [4.0 * one for one in against_ms]
    found = time_shift(ms, against_ms, 0.01, confidence=0.998)
    assert found.shift.is_shown
    assert not shift_between(ms, against_ms, confidence=0.998).is_shown
    assert found.shift.low < found.shift.estimate < found.shift.high
    assert found.shift.estimate == pytest.approx(found.ms - found.against_ms)


def test_what_takes_nothing_on_one_side_is_compared_by_its_difference() -> None:
    found = time_shift([8.0, 9.0, 10.0], [0.0, 0.0, 0.0], 1.0)
    assert (found.against_ms, found.shift.is_shown) == (0.0, True)
    assert 0 < found.shift.low < 8.9 < found.shift.high
    assert not time_shift([0.0, 0.0, 0.01], [0.0, 0.0, 0.0], 1.0).shift.is_shown


def test_times_of_single_runs_have_no_interval() -> None:
    found = time_shift([2.0], [1.0], 0.1)
    assert (found.shift.estimate, found.shift.low, found.shift.high) == (
        pytest.approx(1.0),
        -math.inf,
        math.inf,
    )


def test_what_both_of_a_pair_share_is_no_part_of_the_spread_of_pairs() -> None:
    assert shift_between([1.0, 12.0, 23.0], [0.0, 10.0, 20.0], paired=True).spread == pytest.approx(
        1 / math.sqrt(2)
    )


@pytest.mark.parametrize(
    ("log_change", "part"),
    [(0.0, 0.0), (math.log(1.05), 0.05), (math.log(2), 1.0), (math.log(0.5), -0.5), (-800.0, -1.0)],
)
def test_a_difference_of_logarithms_is_told_as_a_fraction(log_change: float, part: float) -> None:
    assert as_part(log_change) == pytest.approx(part)


def test_what_is_infinite_stays_so_and_what_is_finite_too() -> None:
    assert (as_part(math.inf), as_part(-math.inf)) == (math.inf, -math.inf)
    assert 1e300 < as_part(1e4) < math.inf


def test_one_run_less_than_is_named_finds_the_effect_less_often_than_nine_times_in_ten() -> None:
    n = runs_needed(1.0, 1.0, 0.99)
    assert n is not None
    assert _power(1.0, 1.0, n - 1, 0.99) < 0.9 <= _power(1.0, 1.0, n, 0.99) < 0.93


def test_an_interval_holds_with_99_percent_unless_another_confidence_is_asked_for() -> None:
    sides = [1.0, 2.0, 4.0], [2.0, 3.0, 7.0]
    assert shift_between(*sides) == shift_between(*sides, confidence=0.99)
    assert time_shift(*sides, 0.1) == time_shift(*sides, 0.1, confidence=0.99)

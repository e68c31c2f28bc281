"""All ranks slower than in their own past, by hand: at once, or little by little."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hand_made_cases import POLICY, case_of, times_of

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.verdict.whole_run.systemic import (
    _at_once,
    _grown_operation,
    _growth,
    _information,
    _is_a_line,
    _Level,
    _little_by_little,
    _Slower,
    _verdict,
    _wandering,
    all_slower,
)
from timing_logger.results.facts import AllSlower
from timing_logger.results.policy import Policy


def slower_from(at: int, factor: float, n_steps: int = 100, *, n_ranks: int = 4, n_slower: int = 4) -> Floats:
    self_ms = 10.0 * np.exp(np.random.default_rng(1).normal(0.0, 0.01, (n_steps, n_ranks)))
    self_ms[at:, :n_slower] *= factor
    return self_ms


def test_ranks_that_became_slower_at_once_are_told_from_then_on() -> None:
    found = all_slower(case_of(slower_from(60, 1.5)))
    assert found is not None
    assert (found.verdict, found.window, found.first_iteration) == ("group-wide", "ongoing", 60)
    assert (found.slow_steps, found.operation) == (40, "FORWARD")
    assert found.score == pytest.approx(1 / 1.5, rel=0.02)
    assert found.cost_ms == pytest.approx(40 * 5.0, rel=0.05)
    assert found.evidence == (AllSlower(1.0, pytest.approx(1.5, rel=0.02), "together"),)


def test_ranks_that_were_slower_for_a_while_are_told_to_have_been() -> None:
    self_ms = slower_from(40, 1.5)
    self_ms[70:] /= 1.5
    found = all_slower(case_of(self_ms))
    assert found is not None
    assert (found.window, found.first_iteration, found.last_iteration) == ("bounded", 40, 69)


@pytest.mark.parametrize(
    ("at", "factor", "n_slower", "is_told"),
    [
        (60, 1.14, 4, True), (60, 1.08, 4, False), (80, 1.5, 4, True), (82, 1.5, 4, False),
        (20, 1.5, 4, True), (17, 1.5, 4, False), (60, 1.5, 3, True), (60, 1.5, 2, False),
    ],
)  # fmt: skip
def test_most_ranks_must_be_slower_by_enough_in_enough_steps_after_a_past(
    at: int, factor: float, n_slower: int, is_told: bool
) -> None:
    assert (all_slower(case_of(slower_from(at, factor, n_slower=n_slower))) is not None) == is_told


@pytest.mark.parametrize("times", [2.0, 3.0])  # of which the second would also pass for levels
def test_ranks_that_became_slower_little_by_little_are_told_in_all_steps(times: float) -> None:
    self_ms = slower_from(0, 1.0) * np.linspace(1.0, times, 100)[:, None]
    found = all_slower(case_of(self_ms))
    assert found is not None
    assert (found.slow_steps, found.window) == (100, "ongoing")
    assert isinstance(found.evidence[0], AllSlower)
    assert found.evidence[0].how == "little by little"


def test_a_run_that_is_even_or_short_is_not_slower() -> None:
    assert all_slower(case_of(slower_from(0, 1.0))) is None
    assert all_slower(case_of(slower_from(10, 2.0, 19))) is None
    assert all_slower(case_of(np.full((50, 3), math.nan))) is None


def test_a_line_describes_a_growth_better_than_levels_do() -> None:
    assert _is_a_line(np.arange(50.0), [(0, 25), (25, 50)])
    assert not _is_a_line(np.repeat([0.0, 1.0], 25), [(0, 25), (25, 50)])


@pytest.mark.parametrize(("noise", "is_a_line"), [(0.46, True), (0.36, False)])
def test_five_levels_must_describe_a_series_so_much_better_as_they_have_more_numbers(
    noise: float, is_a_line: bool
) -> None:
    """Steps of a stair are off a line by a twelfth of their height squared, and both leave the noise."""
    stair = np.repeat(np.arange(5.0), 10) + noise * np.tile([1.0, -1.0], 25)
    spans = [(begin, begin + 10) for begin in range(0, 50, 10)]
    assert _is_a_line(stair, spans) is is_a_line


def test_a_bent_series_is_no_line_where_levels_describe_it_better() -> None:
    bent = np.linspace(-1.0, 1.0, 60) ** 2
    assert not _is_a_line(bent, [(begin, begin + 10) for begin in range(0, 60, 10)])


def test_the_criterion_is_that_of_schwarz() -> None:
    assert _information(np.full(10, math.e), 3) == pytest.approx(20.0 + 3 * math.log(10))
    assert math.isfinite(_information(np.zeros(10), 3))


def test_a_growth_is_that_over_all_steps_and_outliers_are_capped() -> None:
    step = np.linspace(-0.5, 0.5, 11)
    series = 3.0 * step
    assert _growth(series, step) == pytest.approx(3.0)
    series[4] = math.nan
    assert _growth(series, step) == pytest.approx(3.0)
    series[-1] = 1000.0
    assert _growth(series, step) < 9.0
    assert math.isnan(_growth(np.array([1.0, math.nan]), np.array([0.0, 1.0])))
    assert _growth(np.array([1.0, 2.0]), np.array([0.0, 1.0])) == pytest.approx(1.0)


def test_a_level_is_above_another_by_the_typical_rank_in_standard_errors_of_both() -> None:
    low = _Level(0, 10, np.array([0.0, 0.1, 0.2]), 0.03)
    high = _Level(10, 20, np.array([0.5, 0.4, 0.9]), 0.04)
    assert high.above(low) == pytest.approx(0.5)
    assert high.z_above(low) == pytest.approx(10.0)


def test_a_rank_that_is_slower_by_the_least_that_counts_is_not_told_to_be() -> None:
    bad = 1 - POLICY.min_score_gap
    scores = np.array([0.5, 0.5, 0.5, bad])
    case = case_of(np.full((40, 4), 10.0))
    found = _verdict(case, _Slower(np.arange(20, 40), scores, 50.0, "together"))
    assert found is not None
    assert found.evidence == (AllSlower(0.75, 2.0, "together"),)
    assert _verdict(case, _Slower(np.arange(20, 40), np.full(4, bad), 50.0, "together")) is None


def test_levels_that_change_again_and_again_wander() -> None:
    series, spans = (
        np.repeat([0.0, 1.0, 3.0, 1.0, 0.0, 2.0, 0.0, 1.0], 5),
        [(5 * i, 5 * i + 5) for i in range(8)],
    )
    assert _wandering(series, spans, POLICY) > 0.5
    assert _wandering(series, spans[:7], POLICY) == 0.0


@pytest.mark.parametrize(("n_steps", "sigma"), [(120, 0.12), (200, 0.15)])
def test_ranks_that_vary_together_became_slower_by_as_many_stretches_as_can_be_compared(
    n_steps: int, sigma: float
) -> None:
    together = np.random.default_rng(0).normal(0.0, sigma, (n_steps, 1))
    own = np.random.default_rng(0).normal(0.0, 0.004, (n_steps, 4))
    own[n_steps // 2 :] += math.log(1.2)
    assert all_slower(case_of(20.0 * np.exp(own + together))) is not None


def test_the_costliest_span_beyond_the_best_past_is_taken() -> None:
    own = np.repeat([0.2, 0.0, 0.3, 0.6], [30, 30, 60, 20])[:, None] * np.ones(3)
    spans = [(0, 30), (30, 60), (60, 120), (120, 140)]
    found = _at_once(own, np.full(140, 10.0), spans, POLICY)
    assert found is not None
    assert (found.steps[0], found.steps[-1], found.how) == (60, 119, "together")
    assert found.cost_ms == pytest.approx(600 * (1 - math.exp(-0.3)))
    assert found.scores == pytest.approx(np.full(3, math.exp(-0.3)))
    assert _at_once(own, np.full(140, 10.0), spans, Policy(min_z=1e6)) is None


def test_the_operation_is_that_which_grew_most() -> None:
    operation_ms = np.full((2, 40, 3), 10.0)
    operation_ms[0, 20:] += 1.0
    operation_ms[1, 20:] += 0.5
    times = times_of(operation_ms.sum(axis=0), operations=["A", "B"], operation_ms=operation_ms)
    assert _grown_operation(times, np.arange(20, 40)) == "A"
    operation_ms[1, 10:] += 3.0  # early steps are the past of a growth from the first step on
    assert _grown_operation(times, np.arange(40)) == "B"
    operation_ms[1, 20:] -= 3.0
    operation_ms[0] += 100.0  # of which most is as before
    operation_ms[1, 20:] += 3.0
    assert _grown_operation(times, np.arange(20, 40)) == "B"
    none = times_of(np.ones((4, 3)), operations=[], operation_ms=np.zeros((0, 4, 3)))
    assert _grown_operation(none, np.arange(2, 4)) == ""


def test_a_growth_costs_what_the_typical_rank_takes_beyond_its_begin() -> None:
    took_ms = 10.0 * np.exp(np.linspace(0.0, math.log(2.0), 100))
    own = np.log(took_ms / np.median(took_ms))[:, None] * np.ones(3)
    found = _little_by_little(own, took_ms, POLICY)
    assert found is not None
    assert found.cost_ms == pytest.approx(float(took_ms.sum()) - 100 * 10.0)
    assert found.scores == pytest.approx(np.full(3, 0.5))
    assert (len(found.steps), found.how) == (100, "little by little")


def test_in_a_growth_from_the_first_step_on_a_quarter_of_the_steps_is_the_past() -> None:
    operation_ms = np.full((2, 40, 3), 10.0)
    operation_ms[0, 10:] += 2.0
    operation_ms[1, 8:10] += 6.0
    operation_ms[1, 10:] += 3.0
    times = times_of(operation_ms.sum(axis=0), operations=["A", "B"], operation_ms=operation_ms)
    assert _grown_operation(times, np.arange(40)) == "A"

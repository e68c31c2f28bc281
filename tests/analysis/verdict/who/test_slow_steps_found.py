"""Slow steps in small tables of log ratios: stretches, what joins them, and single steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hand_made_cases import POLICY, steps

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.step_times.noise import WHITE
from timing_logger.analysis.verdict.who.slow_steps import (
    SlowSteps,
    _gathered,
    _have_them_in_turn,
    _joined,
    _least_of_slow,
    _recurring,
    _Ruler,
    _stretch,
    least_z,
    slow_steps,
    slow_together,
)
from timing_logger.results.policy import Policy

LEAST = -math.log(0.9)
RULER = _Ruler(POLICY, WHITE, LEAST)


def noise(n_steps: int, n_ranks: int = 4, sigma: float = 0.03) -> Floats:
    return np.random.default_rng(1).normal(0.0, sigma, (n_steps, n_ranks))


# -- is a stretch slow? -------------------------------------------------------------------------------------


def test_a_stretch_is_slow_from_the_least_level_on() -> None:
    assert RULER.is_slow(np.full(20, LEAST))
    assert not RULER.is_slow(np.full(20, LEAST - 0.001))
    assert not RULER.is_slow(np.zeros(0))


@pytest.mark.parametrize(("n_quick", "is_slow"), [(5, True), (6, False)])
def test_a_stretch_is_slow_if_three_quarters_of_its_steps_are(n_quick: int, is_slow: bool) -> None:
    values = np.where(np.arange(20) < n_quick, 0.0, 0.5)
    assert RULER.is_slow(values) is is_slow


@pytest.mark.parametrize("n_steps", [4, 100])
def test_z_grows_with_the_square_root_of_the_steps(n_steps: int) -> None:
    expected = 0.2 / (1.2533 * POLICY.min_noise_sigma / n_steps**0.5)
    assert RULER.z_of_level(np.full(n_steps, 0.2)) == pytest.approx(expected)


def test_the_level_of_values_at_several_levels_is_less_certain() -> None:
    apart = np.repeat([0.0, 0.2, 0.4], [34, 32, 34])
    assert RULER.z_of_level(apart) == pytest.approx(0.2 / (1.2533 * 1.4826 * 0.2 / 10))


def test_a_stretch_whose_level_may_be_noise_is_not_slow() -> None:
    values = np.tile([1.0, 0.11, 0.9, 0.12], 2)
    assert RULER.z_of_level(values) < POLICY.min_z
    assert not RULER.is_slow(values)
    assert RULER.is_slow(np.repeat(values, 20))


def test_a_step_stands_out_that_takes_a_third_longer() -> None:
    assert RULER.flagged == pytest.approx(math.log(4 / 3))


# -- stretches ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "end", "kind"),
    [
        (0, 60, "persistent"), (3, 57, "persistent"), (20, 60, "ongoing"), (0, 40, "bounded"),
        (20, 40, "bounded"),
    ],
)  # fmt: skip
def test_a_slow_stretch_is_found_with_its_steps_and_its_kind(begin: int, end: int, kind: str) -> None:
    ratios = np.zeros((60, 4))
    ratios[begin:end, 2] = 0.5
    (found,) = slow_steps(ratios, POLICY)
    assert (found.column, found.kind, found.level, found.are_single) == (2, kind, 0.5, False)
    assert found.steps.tolist() == list(range(begin, end))


@pytest.mark.parametrize(
    ("span", "kind"),
    [
        ((0, 100), "persistent"), ((5, 95), "persistent"), ((6, 95), "bounded"), ((5, 94), "bounded"),
        ((6, 100), "ongoing"), ((6, 99), "bounded"),
    ],
)  # fmt: skip
def test_what_begins_or_ends_in_a_twentieth_of_the_run_lasts_to_its_end(
    span: tuple[int, int], kind: str
) -> None:
    assert _stretch(np.full(100, 0.5), np.arange(100), span, 0, RULER).kind == kind


def test_steps_of_which_nothing_is_known_are_in_no_stretch() -> None:
    ratios = np.zeros((60, 4))
    ratios[20:40, 2] = 0.5
    ratios[30, 2] = np.nan
    (found,) = slow_steps(ratios, POLICY)
    assert found.steps.tolist() == [*range(20, 30), *range(31, 40)]


@pytest.mark.parametrize(("level", "is_found"), [(0.053, True), (0.05, False)])
def test_half_of_the_least_difference_is_enough_where_that_is_said(level: float, is_found: bool) -> None:
    ratios = np.zeros((60, 4))
    ratios[:, 1] = level
    assert slow_steps(ratios, POLICY) == []
    assert bool(slow_steps(ratios, POLICY, gap_share=0.5)) is is_found


@pytest.mark.parametrize(("n_between", "n_spans"), [(0, 1), (2, 1), (3, 2)])
def test_slow_spans_that_only_a_spike_separates_are_one(n_between: int, n_spans: int) -> None:
    values = np.zeros(30)
    spans = [(0, 10), (10 + n_between, 30)]
    for begin, end in spans:
        values[begin:end] = 0.5
    joined = _joined(values, spans, 3)
    assert joined == ([(0, 30)] if n_spans == 1 else spans)


def test_steps_between_that_are_nearer_to_the_slow_level_do_not_part_spans() -> None:
    values = np.full(30, 0.5)
    values[10:20] = 0.25
    assert _joined(values, [(0, 10), (20, 30)], 3) == [(0, 30)]
    values[10:20] = 0.24
    assert _joined(values, [(0, 10), (20, 30)], 3) == [(0, 10), (20, 30)]


def test_the_higher_of_two_slow_levels_says_what_is_quick_between_them() -> None:
    values = np.full(30, 0.5)
    values[:10], values[10:20] = 0.2, 0.2
    assert _joined(values, [(0, 10), (20, 30)], 3) == [(0, 10), (20, 30)]


def test_a_span_is_joined_with_the_one_before_it_and_not_with_earlier_ones() -> None:
    values = np.full(40, 0.5)
    values[10:20] = values[30] = 0.0
    assert _joined(values, [(0, 10), (20, 30), (31, 40)], 3) == [(0, 10), (20, 40)]


def test_three_spans_in_a_row_are_one() -> None:
    assert _joined(np.full(30, 0.5), [(0, 10), (10, 20), (20, 30)], 3) == [(0, 30)]


# -- together -----------------------------------------------------------------------------------------------


def bursts(*spans: tuple[int, int]) -> Floats:
    ratios = np.zeros((200, 4))
    for begin, end in spans:
        ratios[begin:end, 1] = 0.5
    return ratios


def test_several_slow_stretches_of_a_rank_count_together_too() -> None:
    *alone, together = slow_together(bursts((20, 50), (80, 110)), POLICY)
    assert len(alone) == 2
    assert together.steps.tolist() == [*range(20, 50), *range(80, 110)]
    assert (together.kind, together.are_single, together.column) == ("intermittent", False, 1)
    assert (together.level, together.z) == (0.5, max(one.z for one in alone))


def test_a_stretch_beside_one_that_has_nearly_all_slow_steps_adds_nothing() -> None:
    found = slow_together(bursts((20, 150), (170, 176)), POLICY)
    assert [len(one.steps) for one in found if one.kind == "intermittent" and not one.are_single] == []
    assert len(found) == 2
    exactly = slow_together(bursts((20, 77), (100, 103)), POLICY)
    assert [len(one.steps) for one in exactly] == [57, 3]


def test_single_stretches_do_not_come_and_go() -> None:
    assert [one.kind for one in slow_together(bursts((20, 50)), POLICY)] == ["bounded"]


def test_slow_steps_are_as_certain_as_z_or_chance_says() -> None:
    stretch = SlowSteps(0, steps(1), "bounded", 0.5, 3.5)
    single = stretch._replace(are_single=True)
    assert least_z(stretch, POLICY) == POLICY.min_z
    assert least_z(single, POLICY) == pytest.approx(3.0902, abs=1e-3)
    assert (stretch.likelihood, single._replace(z=0.0).likelihood) == (1.0, 0.5)


# -- single steps -------------------------------------------------------------------------------------------


def events(*at: int, column: int = 1, n_steps: int = 100, n_ranks: int = 4) -> np.ndarray:
    found = np.zeros((n_steps, n_ranks), np.bool_)
    found[list(at), column] = True
    return found


NOT_IN_TURN = np.zeros((100, 4), np.bool_)


@pytest.mark.parametrize(("most", "is_found"), [(4.0**-3, True), (4.0**-3 * 0.99, False)])
def test_single_steps_of_a_rank_are_its_own_if_chance_gathers_as_many_seldom_enough(
    most: float, is_found: bool
) -> None:
    single, ratios = events(10, 30, 50, 70), np.zeros((100, 4))
    ratios[single] = [0.4, 0.5, 0.6, 0.9]
    found = _gathered(ratios, single, np.ones_like(single), most, POLICY, NOT_IN_TURN)
    assert [(one.column, one.steps.tolist()) for one in found] == [(1, [10, 30, 50, 70])] * is_found
    assert [(one.kind, one.are_single) for one in found] == [("intermittent", True)] * is_found
    assert [one.level for one in found] == pytest.approx([0.55] * is_found)


def test_events_count_in_blocks_twice_as_long_as_they_are() -> None:
    single = events(*range(0, 12, 2))
    found = _gathered(np.ones((100, 4)), single, np.ones_like(single), 4.0**-5, POLICY, NOT_IN_TURN)
    assert [one.column for one in found] == [1]


def test_steps_that_all_have_in_turn_belong_to_nobody() -> None:
    single, in_turn = events(10, 30, 50, 70), events(30)
    found = _gathered(np.ones((100, 4)), single, np.ones_like(single), 0.1, POLICY, in_turn)
    assert [one.steps.tolist() for one in found] == [[10, 50, 70]]
    assert _gathered(np.ones((100, 4)), single, np.ones_like(single), 0.1, POLICY, single) == []


def test_ranks_have_events_in_turn_if_peers_have_half_as_many_and_none_has_more_by_chance() -> None:
    every = np.ones((100, 4), np.bool_)
    half = events(10, 30) | events(50, column=0) | events(70, column=2) | events(90, column=3)
    assert _have_them_in_turn(half, every, RULER).tolist() == [True] * 4
    less = events(10, 30, 20) | events(50, column=0) | events(70, column=2) | events(90, column=3)
    assert _have_them_in_turn(less, every, RULER).tolist() == [True, False, True, True]


def test_a_rank_that_has_more_events_than_chance_gives_does_not_have_them_in_turn() -> None:
    every = np.ones((100, 4), np.bool_)
    often = events(*range(0, 80, 2))
    often[:40:2] = True  # all have these
    assert _have_them_in_turn(often, every, RULER).tolist() == [True, False, True, True]


def test_slow_steps_within_a_stretch_are_not_single() -> None:
    ratios = np.zeros((100, 4))
    ratios[[10, 30, 50, 70], 1] = 0.9
    stretch = SlowSteps(1, steps(10, 30, 50, 70), "bounded", 0.9, 9.0)
    assert [one.steps.tolist() for one in _recurring(ratios, [], RULER, 0.1)] == [[10, 30, 50, 70]]
    assert _recurring(ratios, [stretch], RULER, 0.1) == []


def test_very_slow_steps_are_found_where_all_ranks_have_slow_ones() -> None:
    ratios = np.zeros((100, 4))
    for column in range(4):
        ratios[column::8, column] = 0.4
    ratios[[13, 33, 53, 73], 1] = 1.2
    assert [one.steps.tolist() for one in _recurring(ratios, [], RULER, 0.02)] == [[13, 33, 53, 73]]


@pytest.mark.parametrize(("suspected", "is_found"), [(True, True), (False, False)])
def test_suspected_ranks_may_have_single_steps_that_chance_gathers_more_often(
    suspected: bool, is_found: bool
) -> None:
    ratios = np.zeros((100, 6))
    ratios[[10, 30, 50, 70], 1] = 0.9  # 6 ** -3 = 0.0046
    assert bool(slow_steps(ratios, POLICY, suspected=suspected)) is is_found


def test_a_step_is_slow_beyond_the_flagged_level_or_beyond_the_usual_noise() -> None:
    assert _least_of_slow(np.zeros((100, 4)), RULER) == RULER.flagged
    wide = np.linspace(-1.0, 1.0, 101)[:, None] * np.array([[1.0, 2.0, 3.0, 4.0]])
    sigma = 2.0 * (0.3 - 0.1) * 2.0 / 0.7572  # that of the second of four ranks
    assert _least_of_slow(wide, RULER) == pytest.approx(POLICY.min_z * sigma)
    assert _least_of_slow(wide[:, :2], RULER) == pytest.approx(POLICY.min_z * sigma / 2)


def test_another_least_z_makes_a_stretch_slow_or_not() -> None:
    values = np.full(20, 0.2)
    z = RULER.z_of_level(values)
    assert _Ruler(Policy(min_z=z), WHITE, LEAST).is_slow(values)
    assert not _Ruler(Policy(min_z=1.001 * z), WHITE, LEAST).is_slow(values)

"""Where a new level of a series begins, from series whose levels are known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.step_times import noise as module
from timing_logger.analysis.step_times.noise import (
    WHITE,
    Noise,
    change_points,
    change_points_of_each,
    sigma_of,
)
from timing_logger.results.policy import Policy

POLICY = Policy(
    min_level_steps=3, min_change_z=4.0, min_change_z_growth=1e-300, interval_length_ratio=0.7,
    interval_shift_share=0.25,
)  # fmt: skip


def levels(*spans: tuple[int, float]) -> Floats:
    """Return a series with these numbers of steps at these levels."""
    return np.concatenate([np.full(n, level) for n, level in spans])


def found(series: Floats, policy: Policy = POLICY, *, cap: float = 1e9, noise: Noise = WHITE) -> list[int]:
    return change_points(series, policy, cap=cap, min_sigma=1.0, noise=noise)


def strength(series: Floats, start: int, end: int, split: int) -> float:
    """Return the difference of means at a split of an interval, in the standard errors of white noise."""
    apart = float(series[start:split].mean() - series[split:end].mean())
    return abs(apart) * math.sqrt((split - start) * (end - split) / (end - start))


# -- what is found ---------------------------------------------------------------------------------------


def test_each_change_of_level_is_found_where_it_is() -> None:
    assert found(levels((20, 0), (15, 10), (25, -10))) == [20, 35]


def test_a_series_of_one_level_has_no_change() -> None:
    assert found(levels((60, 5.0))) == []


def test_a_change_below_the_threshold_is_noise() -> None:
    # Of two equal halves of 8 steps, the statistic is 2 times the height.
    assert found(levels((8, 0), (8, 2.01))) == [8]
    assert found(levels((8, 0), (8, 1.99))) == []


def test_the_threshold_is_exceeded_and_not_just_met() -> None:
    assert found(levels((8, 0), (8, 2.0))) == []


def test_the_threshold_grows_with_the_length_of_the_run() -> None:
    growing = replace(POLICY, min_change_z=1.0, min_change_z_growth=2.0)
    threshold = 1.0 + 2.0 * math.log(16) ** 0.5
    assert found(levels((8, 0), (8, 1.01 * threshold / 2)), growing) == [8]
    assert found(levels((8, 0), (8, 0.99 * threshold / 2)), growing) == []


NOISE = np.random.default_rng(3).normal(size=80)


def test_the_noise_of_the_series_raises_the_threshold() -> None:
    quiet = levels((40, 0), (40, 4.0))
    assert found(quiet) == [40]
    assert found(quiet + 6 * NOISE) == []
    assert found(20 * quiet + 6 * NOISE) == [40]


def test_noise_that_wanders_raises_the_threshold_by_its_factor() -> None:
    series = levels((40, 0), (40, 20.0)) + 2 * NOISE
    strength = 20 / sigma_of(np.diff(series)) * math.sqrt(20)  # of two equal halves of 80 steps
    assert found(series, noise=Noise((1, 4), (1.0, 0.4 * strength / POLICY.min_change_z))) == [40]
    assert found(series, noise=Noise((1, 4), (1.0, 0.6 * strength / POLICY.min_change_z))) == []


def test_a_spike_weighs_no_more_than_the_cap() -> None:
    spike = levels((12, 0), (1, 1000), (12, 0))
    assert found(spike) != []
    assert found(spike, cap=3.0) == []
    assert found(-spike, cap=3.0) == []


def test_values_are_capped_around_their_median() -> None:
    shifted = 500 + levels((10, 0), (8, 5.0))
    assert found(shifted, cap=5.0) == found(shifted - 500, cap=5.0) == [10]


@pytest.mark.parametrize(("n_before", "n_after", "points"), [(3, 3, [3]), (3, 2, []), (2, 4, [3])])
def test_a_level_lasts_for_the_least_number_of_steps(n_before: int, n_after: int, points: list[int]) -> None:
    assert found(levels((n_before, 0), (n_after, 100))) == points


def test_of_each_series_its_own_changes_are_found() -> None:
    rows = np.array([levels((10, 0), (10, 9)), levels((20, 7)), levels((14, 4), (6, 30))])
    each = change_points_of_each(rows, POLICY, cap=100.0, min_sigma=1.0)
    assert each == [[10], [], [14]]
    short = change_points_of_each(rows[:, :5], POLICY, cap=100.0, min_sigma=1.0)
    assert short == [[], [], []]


# -- intervals -------------------------------------------------------------------------------------------


def test_lengths_rise_by_their_ratio_from_two_levels_to_the_whole() -> None:
    halves = replace(POLICY, interval_length_ratio=0.5)
    assert list(module._interval_lengths(48, halves)) == [6, 12, 24, 48]
    assert list(module._interval_lengths(47, halves)) == [11, 23, 47]
    assert list(module._interval_lengths(6, halves)) == [6]


def test_intervals_of_a_length_begin_after_its_share_and_end_with_the_series() -> None:
    sums = module._sums(np.zeros((1, 21)))
    quarter = module._best_splits(sums, 8, POLICY)
    assert quarter.starts.tolist() == [0, 2, 4, 6, 8, 10, 12, 13]
    assert module._best_splits(module._sums(np.zeros((1, 20))), 8, POLICY).starts.tolist() == [
        0, 2, 4, 6, 8, 10, 12,
    ]  # fmt: skip
    close = replace(POLICY, interval_shift_share=0.01)
    assert module._best_splits(sums, 18, close).starts.tolist() == [0, 1, 2, 3]


def test_the_best_split_has_the_greatest_difference_of_means_for_its_lengths() -> None:
    series = levels((4, 0), (6, 3.0))
    best = module._best_splits(module._sums(series[None]), 10, POLICY)
    assert (best.splits.tolist(), best.strengths) == ([[4]], pytest.approx(3 * math.sqrt(4 * 6 / 10)))
    falling = module._best_splits(module._sums(-series[None]), 10, POLICY)
    assert (falling.splits.tolist(), falling.strengths) == ([[4]], pytest.approx(3 * math.sqrt(2.4)))


def test_a_split_leaves_the_least_number_of_steps_on_each_side() -> None:
    early, late = levels((1, 9.0), (9, 0)), levels((9, 0), (1, 9.0))
    both = module._best_splits(module._sums(np.array([early, late])), 10, POLICY)
    assert both.splits.tolist() == [[3], [7]]


def test_splits_are_places_in_the_series_and_not_in_their_interval() -> None:
    series = levels((13, 0), (7, 5.0))
    best = module._best_splits(module._sums(series[None]), 8, POLICY)
    at = best.starts.tolist().index(10)
    assert best.splits[0, at] == 13


def test_it_does_not_matter_how_many_windows_are_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = module._sums(np.random.default_rng(5).normal(size=(7, 60)))
    together = module._best_splits(sums, 12, POLICY)
    for at_once in (1, 25, 60, 300):
        monkeypatch.setattr(module, "_AT_ONCE", at_once)
        found = module._best_splits(sums, 12, POLICY)
        assert found.splits.tolist() == together.splits.tolist()
        assert found.strengths.tolist() == together.strengths.tolist()


@pytest.mark.parametrize(
    ("most", "blocks"),
    [
        (6, [(0, 2, 0, 6), (2, 4, 0, 6)]),
        (5, [(0, 1, 0, 5), (1, 2, 0, 5), (2, 3, 0, 5)]),
        (2, [(row, row + 1, at, at + 2) for row in range(3) for at in (0, 2)]),
    ],
)
def test_series_are_looked_at_together_until_there_are_as_many_windows(
    most: int, blocks: list[tuple[int, int, int, int]]
) -> None:
    n_starts = 3
    found = [(rows.start, rows.stop, its.start, its.stop) for rows, its in module._blocks(3, n_starts, most)]
    assert found == blocks


# -- which of them ---------------------------------------------------------------------------------------


def test_the_narrowest_interval_comes_first_and_of_equally_long_ones_the_strongest() -> None:
    series = levels((20, 0), (20, 10.0))
    (candidates,) = module._candidates(series[None], POLICY)
    spans = [end - start for start, end, _ in candidates]
    assert spans == sorted(spans)
    of_shortest = [one for one in candidates if one[1] - one[0] == spans[0]]
    assert len(of_shortest) > 2
    strengths = [strength(series, *one) for one in of_shortest]
    assert strengths == sorted(strengths, reverse=True)
    assert strengths[0] > strengths[-1] > POLICY.min_change_z


def test_an_interval_counts_only_where_no_split_was_taken_within_it() -> None:
    taken = module._narrowest_first([(10, 16, 13), (12, 18, 15), (13, 20, 16), (4, 10, 7), (0, 30, 9)])
    assert taken == [7, 13, 16]


def test_an_interval_that_begins_or_ends_at_a_split_is_free_of_it() -> None:
    assert module._narrowest_first([(0, 20, 10), (10, 30, 15)]) == [10, 15]
    assert module._narrowest_first([(0, 20, 10), (4, 10, 7)]) == [7, 10]
    assert module._narrowest_first([(0, 20, 10), (9, 30, 15)]) == [10]
    assert module._narrowest_first([(0, 20, 10), (4, 11, 7)]) == [10]


def test_splits_move_to_the_best_place_between_their_neighbours() -> None:
    series = levels((10, 0), (10, 5.0), (10, 0))
    assert module._between_others(series, [8, 23], POLICY) == [10, 20]
    assert module._between_others(series[:20], [12], POLICY) == [10]

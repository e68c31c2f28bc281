"""How far a series wanders by itself, from a few values that are known by heart."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.step_times import noise
from timing_logger.analysis.step_times.noise import (
    MAD_TO_SIGMA,
    WHITE,
    Noise,
    error_of_median,
    known_rows,
    noise_of,
    robust_sigma,
    sigma_of,
    sigmas_of,
    usual_of,
    usual_sigmas_of,
)

NAN = math.nan


def normal(n: int = 4_001) -> Floats:
    """Return values whose quantiles are those of normal noise with deviation 1, ascending."""
    return np.array([NormalDist().inv_cdf((i + 0.5) / n) for i in range(n)])


# -- the noise of a run ----------------------------------------------------------------------------------


def test_the_factor_is_the_largest_ratio_to_the_error_of_independent_steps() -> None:
    assert Noise((1, 4, 16), (1.0, 1.5, 0.5)).error_factor == pytest.approx(3.0)
    assert Noise((1, 4), (1.0, 0.25)).error_factor == 1.0


def test_the_error_of_a_mean_is_between_those_of_its_neighbours_in_logarithms() -> None:
    measured = Noise((1, 4, 16), (1.0, 0.5, 0.125))
    assert measured.error_of_mean(1) == pytest.approx(1.0)
    assert measured.error_of_mean(2) == pytest.approx(2**-0.5)
    assert measured.error_of_mean(8) == pytest.approx(0.25)


def test_the_error_of_a_longer_mean_is_that_of_the_longest() -> None:
    assert Noise((1, 4), (1.0, 0.4)).error_of_mean(1000) == pytest.approx(0.4)


@pytest.mark.parametrize("n_steps", [1, 100, 1_000_000])
def test_white_noise_falls_as_the_square_root_of_the_steps(n_steps: int) -> None:
    assert WHITE.error_of_mean(n_steps) == pytest.approx(n_steps**-0.5)
    assert WHITE.error_factor == pytest.approx(1.0)


# -- deviations ------------------------------------------------------------------------------------------


def test_normal_noise_has_the_deviation_that_it_was_made_with() -> None:
    values = 5 + 3 * normal()
    assert robust_sigma(values) == pytest.approx(3, rel=1e-3)
    assert sigma_of(values) == pytest.approx(3 / 2**0.5, rel=1e-3)
    assert error_of_median(values) == pytest.approx(1.2533 * 3 / len(values) ** 0.5, rel=1e-3)
    assert usual_of(values) == pytest.approx((5, 3), rel=1e-3)


def test_the_deviation_is_that_of_the_middle_difference_from_their_median() -> None:
    differences = np.array([[10.0, 11.0, 13.0, 16.0, 90.0], [2.0, 2.0, 2.0, 2.0, 2.0]])
    assert sigmas_of(differences) == pytest.approx([MAD_TO_SIGMA * 3 / 2**0.5, 0.0])
    assert sigma_of(differences[0]) == pytest.approx(MAD_TO_SIGMA * 3 / 2**0.5)


def test_without_differences_the_deviation_is_0() -> None:
    assert sigmas_of(np.zeros((3, 0))).tolist() == [0.0, 0.0, 0.0]


def test_the_deviation_of_values_is_that_of_the_middle_one_from_their_median() -> None:
    assert robust_sigma(np.array([1.0, 2.0, 4.0, 8.0, 900.0])) == pytest.approx(MAD_TO_SIGMA * 3)


@pytest.mark.parametrize("values", [[], [7.0]])
def test_of_fewer_than_two_values_there_is_no_deviation(values: list[float]) -> None:
    assert robust_sigma(np.array(values)) == 0.0
    assert error_of_median(np.array(values)) == 0.0


def test_the_error_of_the_median_falls_with_the_number_of_values() -> None:
    values = np.array([1.0, 2.0, 4.0, 8.0])
    assert error_of_median(values) == pytest.approx(1.2533 * MAD_TO_SIGMA * 1.5 / 2)


# -- the usual level -------------------------------------------------------------------------------------


def test_the_usual_level_comes_from_the_quicker_values_alone() -> None:
    values = np.arange(11.0)  # the quantiles of 10% and 30% are 1 and 3
    sigma = 2 / 0.7572
    assert usual_of(values) == pytest.approx((3 + 0.5244 * sigma, sigma))
    slow = np.where(values > 5, 1000.0, values)
    assert usual_of(slow) == usual_of(values)


def test_the_usual_noise_of_each_column_is_that_of_its_known_values() -> None:
    series = np.full((12, 4), NAN)
    series[:11, 0] = np.arange(11.0)
    series[1:, 1] = 10 * np.arange(11.0)
    series[3, 2] = 5.0
    assert usual_sigmas_of(series) == pytest.approx([2 / 0.7572, 20 / 0.7572, 0.0, 0.0])


def test_columns_with_equally_many_known_values_come_together() -> None:
    series = np.array([[1.0, NAN, 3.0, NAN], [5.0, 6.0, NAN, NAN], [9.0, 10.0, 11.0, NAN]])
    found = [(columns.tolist(), rows.tolist()) for columns, rows in known_rows(series)]
    assert found == [
        ([3], [[]]),
        ([1, 2], [[6.0, 10.0], [3.0, 11.0]]),
        ([0], [[1.0, 5.0, 9.0]]),
    ]


# -- stretches -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_steps", "min_stretches", "lengths"),
    [
        (0, 4, [1]),
        (7, 4, [1]),
        (8, 4, [1, 2]),
        (12, 4, [1, 2, 3]),
        (16, 4, [1, 2, 4]),
        (23, 4, [1, 2, 4, 5]),
    ],
)
def test_stretches_double_up_to_the_longest_of_which_there_are_enough(
    n_steps: int, min_stretches: int, lengths: list[int]
) -> None:
    series = np.random.default_rng(1).normal(size=(n_steps, 2))
    assert list(noise_of(series, min_stretches).lengths) == lengths


def test_the_difference_of_neighbours_is_that_of_their_means() -> None:
    rows = np.array([[1.0, 3.0, 5.0, 9.0, 0.0]])
    assert noise._between_neighbours([rows], 1).tolist() == [2.0, 2.0, 4.0, -9.0]
    assert noise._between_neighbours([rows], 2).tolist() == [5.0, 0.5]


def test_a_run_as_short_as_two_stretches_has_one_difference_and_a_shorter_one_none() -> None:
    four, three = np.array([[1.0, 3.0, 5.0, 9.0]]), np.array([[1.0, 3.0, 5.0]])
    assert noise._between_neighbours([four, three], 2).tolist() == [5.0]
    assert noise._between_neighbours([three], 2).tolist() == []
    assert noise._between_neighbours([], 1).tolist() == []


def test_the_deviation_of_the_quieter_differences_is_told_by_their_smallest_quarter() -> None:
    assert noise._sigma_of_quieter(np.array([-1.0, 2.0, 3.0, -700.0, 900.0])) == pytest.approx(2 / 0.3186)
    assert noise._sigma_of_quieter(np.zeros(0)) == 0.0
    assert noise._sigma_of_quieter(3 * normal()) == pytest.approx(3, rel=1e-3)


# -- the measure -----------------------------------------------------------------------------------------


def test_independent_steps_are_white() -> None:
    found = noise_of(np.random.default_rng(7).normal(size=(4000, 4)), 20)
    assert found.errors[0] == 1.0
    assert all(error >= length**-0.5 for error, length in zip(found.errors, found.lengths, strict=True))
    assert found.error_factor < 1.3


def test_a_level_that_wanders_has_an_error_that_does_not_fall() -> None:
    rng = np.random.default_rng(7)
    wandering = np.repeat(rng.normal(size=(100, 4)), 40, axis=0) * 3 + rng.normal(size=(4000, 4))
    found = noise_of(wandering, 20)
    at_32 = found.errors[found.lengths.index(32)]
    assert 1.0 < at_32 < 4.0
    assert found.error_factor > 6


def test_noise_is_the_deviation_of_the_difference_over_the_root_of_two() -> None:
    steps = np.array([0.0, 1.0] * 8 + [2.0, 3.0] * 8)[:, None]
    steps[::4] += 0.5
    ranks = noise._in_sigmas(steps, 0.0, math.inf)
    measured = noise._sigma_of_quieter(noise._between_neighbours(ranks, 2)) / 2**0.5
    assert noise_of(steps, 16).errors == (1.0, pytest.approx(max(2**-0.5, measured)))
    many = np.cumsum(np.random.default_rng(3).normal(size=(400, 2)), axis=0)
    ranks = noise._in_sigmas(many, 0.0, math.inf)
    measured = noise._sigma_of_quieter(noise._between_neighbours(ranks, 2)) / 2**0.5
    assert measured > 1
    assert noise_of(many, 200).errors == (1.0, pytest.approx(measured))


def test_ranks_are_in_units_of_the_deviation_between_their_neighbours() -> None:
    series = np.array([[0.0, 1.0], [2.0, 1.0], [1.0, 1.0], [5.0, 1.0], [6.0, 1.0], [NAN, 1.0]])
    differences = np.array([2.0, -1.0, 4.0, 1.0])
    (known,) = noise._in_sigmas(series, 0.0, math.inf)
    assert known.tolist() == [pytest.approx(series[:5, 0] / sigma_of(differences))]


def test_what_is_below_the_least_deviation_is_rounding() -> None:
    series = np.array([[0.0], [1.0], [0.0], [1.0], [0.0]])
    (known,) = noise._in_sigmas(series, 10.0, math.inf)
    assert known.tolist() == [pytest.approx([0.0, 0.1, 0.0, 0.1, 0.0])]


def test_values_are_capped_around_the_median_of_their_rank() -> None:
    series = np.array([[100.0], [101.0], [99.0], [500.0], [-500.0]])
    (known,) = noise._in_sigmas(series, 1000.0, 3.0)
    assert known[0] * 1000 == pytest.approx([100.0, 101.0, 99.0, 103.0, 97.0])


def test_ranks_of_which_nothing_is_known_or_that_never_vary_are_left_out() -> None:
    assert noise._in_sigmas(np.full((4, 2), NAN), 1.0, 1.0) == []
    assert noise._in_sigmas(np.ones((4, 2)), 0.0, 1.0) == []
    assert noise_of(np.full((4, 2), NAN), 2) == Noise((1,), (1.0,))


def test_it_is_measured_over_as_many_steps_as_the_longest_rank_has() -> None:
    series = np.random.default_rng(2).normal(size=(16, 2))
    series[6:, 1] = NAN
    assert noise_of(series, 4).lengths == (1, 2, 4)

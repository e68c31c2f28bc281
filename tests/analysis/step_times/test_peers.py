"""The times of a rank beside those of the others, from small tables."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.step_times.noise import MAD_TO_SIGMA
from timing_logger.analysis.step_times.peers import (
    column_means,
    column_medians,
    correlations,
    log_ratios,
    n_known_steps,
    peer_medians,
    peer_ratios,
    relative_scores,
    row_medians,
    variances,
)

NAN = math.nan


def same(found: Floats, expected: object) -> None:
    np.testing.assert_allclose(found, np.array(expected, np.float64), rtol=1e-12)


# -- the median of the others ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "medians"),
    [
        ([5.0, 7.0], [7.0, 5.0]),
        ([1.0, 2.0, 9.0], [2.0, 1.0, 1.0]),
        ([1.0, 2.0, 3.0, 9.0], [3.0, 3.0, 2.0, 2.0]),
        ([9.0, 1.0, 5.0, 3.0, 4.0], [3.0, 4.0, 3.0, 4.0, 3.0]),
        ([4.0, 4.0, 4.0, 8.0], [4.0, 4.0, 4.0, 4.0]),
        ([3.0], [NAN]),
        ([NAN, 3.0], [3.0, NAN]),
        ([NAN, 3.0, 5.0], [3.0, 5.0, 3.0]),
        ([NAN, 1.0, 2.0, 3.0], [2.0, 2.0, 1.0, 1.0]),
        ([NAN, NAN], [NAN, NAN]),
    ],
)
def test_the_median_of_the_others_passes_over_the_rank_itself(
    times: list[float], medians: list[float]
) -> None:
    same(peer_medians(np.array([times])), [medians])


def test_each_step_is_compared_by_itself() -> None:
    same(peer_medians(np.array([[1.0, 2.0], [30.0, 40.0]])), [[2.0, 1.0], [40.0, 30.0]])


def test_without_steps_there_are_no_medians() -> None:
    assert peer_medians(np.zeros((0, 2))).shape == (0, 2)


def test_ratios_are_logarithms_of_times_over_their_baseline() -> None:
    times, baseline = np.array([[8.0, 2.0, 3.0]]), np.array([[2.0, 8.0, 3.0]])
    same(log_ratios(times, baseline), [[math.log(4), -math.log(4), 0.0]])


def test_ratios_of_what_is_unknown_or_not_positive_are_unknown() -> None:
    times = np.array([[0.0, 1.0, -1.0, NAN, 1.0, 1.0, -1.0]])
    baseline = np.array([[1.0, 0.0, 1.0, 1.0, NAN, -1.0, -1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(log_ratios(times, baseline), [[NAN] * 7])


def test_peer_ratios_compare_each_rank_with_the_others() -> None:
    same(peer_ratios(np.array([[2.0, 4.0, 16.0]])), np.log([[0.5, 2.0, 8.0]]))


# -- columns and rows ------------------------------------------------------------------------------------


def test_the_score_is_the_least_median_over_the_ranks_own() -> None:
    times = np.array([[2.0, 4.0, NAN, 0.0], [2.0, 4.0, NAN, 8.0], [90.0, 5.0, NAN, 8.0]])
    same(relative_scores(times), [1.0, 0.5, NAN, 0.25])


def test_a_rank_that_took_no_time_has_no_score() -> None:
    same(relative_scores(np.array([[0.0, 4.0]])), [NAN, 0.0])


def test_without_ranks_there_are_no_scores() -> None:
    assert relative_scores(np.zeros((3, 0))).shape == (0,)


def test_a_step_is_known_if_it_is_of_any_rank() -> None:
    assert n_known_steps(np.array([[1.0, NAN], [NAN, NAN], [NAN, 2.0], [3.0, 4.0]])) == 3


@pytest.mark.parametrize("n_steps", [4, 599, 600, 601])
@pytest.mark.parametrize("gap", [False, True])
def test_the_median_of_a_column_is_that_of_its_known_values(n_steps: int, gap: bool) -> None:
    values = np.stack([np.arange(float(n_steps)), 10 * np.arange(float(n_steps))[::-1]], axis=1)
    expected = [(n_steps - 1) / 2, 5.0 * (n_steps - 1)]
    if gap:
        values[0, 0] = NAN
        expected[0] = n_steps / 2
    same(column_medians(values), expected)


def test_a_column_without_known_values_has_no_median_and_warns_nobody() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(column_medians(np.array([[NAN, 1.0], [NAN, 3.0]])), [NAN, 2.0])
        same(column_medians(np.zeros((0, 2))), [NAN, NAN])


def test_the_mean_of_a_column_is_that_of_its_known_values() -> None:
    same(column_means(np.array([[1.0, NAN, 4.0], [4.0, NAN, NAN]])), [2.5, NAN, 4.0])


def test_the_median_of_a_row_is_the_lower_of_two_in_the_middle() -> None:
    rows = np.array([
        [4.0, 3.0, 2.0, 1.0], [3.0, NAN, 2.0, 1.0], [NAN, 9.0, NAN, 7.0], [NAN] * 4, [8.0, NAN, NAN, NAN],
    ])  # fmt: skip
    same(row_medians(rows), [2.0, 2.0, 7.0, NAN, 8.0])


# -- correlations ----------------------------------------------------------------------------------------


def steps(*differences: float) -> list[float]:
    """Return a series with these differences between its steps."""
    return [100.0, *(100 + np.cumsum(differences))]


def table(*series: list[float]) -> Floats:
    return np.array(series).T


def test_the_variance_is_that_of_the_middle_deviation_from_0() -> None:
    same(variances(np.array([[1.0], [-3.0], [50.0]])), [(3 * MAD_TO_SIGMA) ** 2])


def test_who_varies_alike_correlates_fully_who_varies_against_it_in_full_negatively() -> None:
    mine = steps(1, -2, 3, -1, 2)
    against = [200 - value for value in mine]
    alone = steps(0, 0, 0, 0, 0)
    same(correlations(table(mine, mine, against, alone), 0, 5), [1.0, 1.0, -1.0, 0.0])


def test_the_correlation_is_of_the_differences_from_the_given_column() -> None:
    first, second = steps(1, -2, 3), steps(2, -2, 5)
    # apart by 1, 0 and 2: var 1; of themselves var 4 (from 2) and 4 (from 2)
    same(correlations(table(first, second), 0, 1), [1.0, 1 - 1 / (4 + 4)])
    same(correlations(table(first, second), 1, 1), [1 - 1 / (4 + 4), 1.0])


@pytest.mark.parametrize(("min_known", "found"), [(3, 1.0), (4, 0.0)])
def test_too_few_known_differences_tell_nothing(min_known: int, found: float) -> None:
    mine = steps(1, -2, 3, -1)
    other = [*mine[:-1], NAN]
    same(correlations(table(mine, other), 0, min_known), [1.0, found])


def test_only_steps_that_are_known_of_both_count() -> None:
    mine, other = steps(1, -2, 3, -1, 50, 60, 70), steps(1, -2, 3, -1, 7, 7, 7)
    mine_short, other_short = [*mine[:5], NAN, NAN, NAN], [*other[:5], NAN, NAN, NAN]
    same(correlations(table(mine, other_short), 0, 1), [1.0, 1.0])
    same(correlations(table(mine_short, other), 0, 1), [1.0, 1.0])
    apart_in_spread = steps(2, -2, 5, -1)
    padded = table(mine, [*apart_in_spread, NAN, NAN, NAN])
    same(correlations(padded, 0, 1)[1:], correlations(padded[:5], 0, 1)[1:])
    padded = table([*mine[:5], NAN, NAN, NAN], [*apart_in_spread, 900.0, -900.0, 900.0])
    same(correlations(padded, 0, 1)[1:], correlations(padded[:5], 0, 1)[1:])


def test_what_never_varies_warns_nobody() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(correlations(np.ones((5, 2)), 0, 1), [0.0, 0.0])

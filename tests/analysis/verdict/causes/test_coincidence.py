"""What counters show is held against chance: the delays are moved round the run and over ranks."""

from __future__ import annotations

import numpy as np
import pytest
from coinciding_counters.hosts import lasting

from timing_logger.analysis.verdict.causes.coincidence import (
    Bounds,
    Coincidence,
    clipped,
    coincidences,
    without_trend,
)

BOUNDS = Bounds(covered=0.5, correlation=0.5)
N, RANKS = 120, 4


def _delay(rng: np.random.Generator) -> np.ndarray:
    return 0.3 * (np.cumsum(rng.uniform(size=N) < 0.08) % 2) + 0.01 * rng.normal(size=N)


def _chances(delay: np.ndarray, shown: np.ndarray, of_time: list[int]) -> list[float]:
    found = coincidences(delay[:, None], np.zeros(1, np.int64), shown, np.array(of_time, np.int64), BOUNDS)
    return [one.chance for one in found]


def test_a_counter_that_states_the_delay_coincides_as_at_no_other_time_and_on_no_other_rank() -> None:
    rng = np.random.default_rng(1)
    delay, shown = _delay(rng), 0.02 * rng.normal(size=(3, N, RANKS))
    shown[1, :, 0] += delay
    assert _chances(delay, shown, [0, 1, 2]) == [1.0, 1 / (N * RANKS), 1.0]


def test_a_counter_that_states_less_than_half_of_the_delay_does_not_count() -> None:
    rng = np.random.default_rng(2)
    delay, shown = _delay(rng), 0.001 * rng.normal(size=(1, N, RANKS))
    shown[0, :, 0] += 0.4 * delay
    assert _chances(delay, shown, [0]) == [1.0]
    assert _chances(delay, shown, []) == [1 / (N * RANKS)]  # as a counter that tells no time, it does


def test_another_counter_that_would_do_as_well_at_another_time_makes_it_less_certain() -> None:
    rng = np.random.default_rng(3)
    delay, shown = _delay(rng), 0.02 * rng.normal(size=(2, N, RANKS))
    shown[0, :, 0] += delay
    alone = _chances(delay, shown, [0, 1])[0]
    for column in range(RANKS):
        shown[1, :, column] = np.roll(delay, 17 * column + 5)
    assert _chances(delay, shown, [0, 1])[0] > alone


MORE_RUNS = pytest.mark.slow("80 runs each")


@pytest.mark.parametrize(
    ("memory", "n_runs"),
    [(0.9, 8), *(pytest.param(memory, 80, marks=MORE_RUNS) for memory in (0.0, 0.9, 0.98))],
)
def test_counters_that_have_nothing_to_do_with_it_are_below_the_level_as_often_as_it_says(
    memory: float, n_runs: int
) -> None:
    least = []
    for seed in range(n_runs):
        rng = np.random.default_rng([4, seed])
        shown = np.stack([[lasting(rng, N, memory) for _ in range(RANKS)] for _ in range(10)]).swapaxes(1, 2)
        least.append(min(_chances(_delay(rng), shown, [])))
    assert np.mean(np.array(least) <= 0.05) <= 0.1  # 0.05, and as much as so many runs may differ from it


def test_what_grows_all_along_is_no_course() -> None:
    assert np.abs(without_trend(np.linspace(3.0, 9.0, 50))).max() < 1e-9


def _line_taken_off(series: np.ndarray) -> np.ndarray:
    at = np.arange(len(series))
    return np.asarray(series - np.polyval(np.polyfit(at, series, 1), at))


def _drawn_in(series: np.ndarray) -> np.ndarray:
    middle = np.median(series)
    most = 10 * np.abs(series - middle).mean()
    return np.asarray([min(max(value, middle - most), middle + most) for value in series])


def _with_half_of_both_sides(series: np.ndarray) -> np.ndarray:
    n = len(series)
    return np.asarray([series[at] + (series[at - 1] + series[(at + 1) % n]) / 2 for at in range(n)])


def _move_by_move(
    delays: np.ndarray, columns: list[int], values: np.ndarray
) -> list[tuple[float, float, float]]:
    """Return correlation, slope, and slope around it for each move, the true place first: all in loops."""
    n, n_ranks = values.shape
    found = []
    for by_ranks in range(n_ranks):
        for by in range(n):
            together = stated = around = own = own_around = 0.0
            for delay, column in zip(delays.T, columns, strict=True):
                value = values[:, (column + by_ranks) % n_ranks]
                tame, whole = (np.roll(of - of.mean(), by) for of in (_drawn_in(delay), delay))
                tame_alone, course = _line_taken_off(tame), _line_taken_off(_drawn_in(value))
                itself = _line_taken_off(value)
                together += tame_alone @ course / np.sqrt((tame_alone @ tame_alone) * (course @ course))
                stated += tame @ itself
                around += tame @ _with_half_of_both_sides(itself)
                own += tame_alone @ _line_taken_off(whole)
                own_around += tame_alone @ _line_taken_off(_with_half_of_both_sides(whole))
            beside = around / own_around if own_around >= own / 2 else 0.0
            found.append((together / len(columns), stated / own, beside))
    return found


def _two_late_ranks(delay_lasts: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return delays of ranks 2 and 0, and two counters of three ranks; some values are far off."""
    rng = np.random.default_rng([5, delay_lasts])
    n = 24
    first = np.repeat([0.1, 0.9, 0.2, 0.5], 6) if delay_lasts else np.arange(n) % 2 * 0.9
    delays = np.stack([first, 0.7 * np.roll(first, 4)], axis=1) + 0.05 * rng.normal(size=(n, 2))
    delays[17, 1] = 8.0
    shown = 0.1 * rng.normal(size=(2, n, 3)) + np.arange(n)[None, :, None] / n
    shown[0, :, 2] += 0.6 * np.roll(delays[:, 0], 1) + 0.4 * delays[:, 0]  # late by a part of a stretch
    shown[0, :, 0] += 0.8 * delays[:, 1]
    shown[1, :, 0] += 0.3 * delays[:, 1]
    shown[1, 20, 2] = -40.0
    return delays, shown


@pytest.mark.parametrize("delay_lasts", [True, False])
def test_several_late_ranks_are_moved_together_and_count_by_their_sums(delay_lasts: bool) -> None:
    delays, shown = _two_late_ranks(delay_lasts)
    columns, bounds = [2, 0], Bounds(covered=0.05, correlation=0.05)
    found = coincidences(delays, np.array(columns), shown, np.array([0, 1]), bounds)
    moves = [_move_by_move(delays, columns, values) for values in shown]
    worths = np.array([[_worth(one, max(two, three), bounds) for one, two, three in each] for each in moves])
    best = worths.max(axis=0)
    for counter, of_it in enumerate(found):
        correlation, stated, beside = moves[counter][0]
        expected = Coincidence(
            counter,
            correlation,
            max(stated, beside),
            worths[counter, 0],
            float((best >= worths[counter, 0] - 1e-9).mean()),
        )
        assert of_it == pytest.approx(expected)
    assert min(of_it.worth for of_it in found) > 0


def _worth(correlation: float, covered: float, bounds: Bounds) -> float:
    if covered < bounds.covered or correlation < bounds.correlation:
        return 0.0
    return correlation * min(covered, 1 / covered)


def _one(shown: np.ndarray, delay: np.ndarray, bounds: Bounds, of_time: bool = True) -> Coincidence:
    numbers = np.arange(int(of_time))
    return coincidences(delay[:, None], np.array([0]), shown[None, :, None], numbers, bounds)[0]


def test_a_counter_that_states_too_much_is_worth_as_little_as_one_that_states_as_much_too_little() -> None:
    delay = _delay(np.random.default_rng(6))
    for times in (4.0, 0.25):
        found = _one(times * delay, delay, Bounds(covered=0.1, correlation=0.5))
        assert (found.correlation, found.covered) == (pytest.approx(1.0), pytest.approx(times))
        assert found.worth == pytest.approx(0.25)


def test_a_counter_that_states_no_time_is_worth_as_one_that_states_the_least_that_counts() -> None:
    delay = _delay(np.random.default_rng(7))
    found = _one(40 * delay, delay, Bounds(covered=0.3, correlation=0.5), of_time=False)
    assert found.worth == pytest.approx(0.3)


@pytest.mark.parametrize("of_time", [True, False])
def test_what_just_reaches_its_bounds_counts(of_time: bool) -> None:
    rng = np.random.default_rng(8)
    delay = _delay(rng)
    shown = delay + 0.1 * rng.normal(size=N)
    least = _one(shown, delay, Bounds(covered=0.0, correlation=-1.0))
    reached = Bounds(least.covered, least.correlation)
    assert _one(shown, delay, reached, of_time).worth > 0
    assert _one(shown, delay, reached._replace(correlation=least.correlation * 1.001), of_time).worth == 0
    beyond = _one(shown, delay, reached._replace(covered=least.covered * 1.001), of_time)
    assert (beyond.worth == 0) == of_time


def test_a_stretch_that_is_not_known_counts_as_the_mean_of_the_delays() -> None:
    rng = np.random.default_rng(9)
    delay = _delay(rng)
    shown = delay + 0.1 * rng.normal(size=N)
    unknown, mean = delay.copy(), delay.copy()
    unknown[50] = np.nan
    mean[50] = np.delete(delay, 50).mean()
    bounds = Bounds(0.1, 0.1)
    assert _one(shown, unknown, bounds) == pytest.approx(_one(shown, mean, bounds))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("value", [5.0, np.nan])
def test_a_counter_that_is_constant_or_unknown_goes_with_nothing(n: int, value: float) -> None:
    found = _one(np.full(n, value), np.arange(n) ** 2.0, Bounds(0.5, 0.5))
    assert found == Coincidence(0, 0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_delay_that_is_unknown_goes_with_nothing(n: int) -> None:
    found = _one(np.arange(n) ** 2.0, np.full(n, np.nan), Bounds(0.5, 0.5))
    assert found == Coincidence(0, 0.0, 0.0, 0.0, 1.0)


def test_values_farther_than_ten_mean_deviations_from_the_median_are_drawn_in() -> None:
    values = np.array([*[4.0, 6.0] * 20, 4.0, 5.0, np.nan, 1005.0])
    mean_deviation = (41 * 1.0 + 1000.0) / 43
    drawn_in = clipped(values)
    assert drawn_in[-1] == pytest.approx(5.0 + 10 * mean_deviation)
    assert np.isnan(drawn_in[-2])
    assert drawn_in[:-2].tolist() == values[:-2].tolist()
    assert np.isnan(clipped(np.full(3, np.nan))).all()


def test_the_line_is_that_of_the_known_values_alone() -> None:
    found = without_trend(np.array([1.0, np.nan, 3.0, 7.0, np.nan]))
    at = np.array([0.0, 2.0, 3.0])
    slope, height = np.polyfit(at, [1.0, 3.0, 7.0], 1)
    assert found[[0, 2, 3]] == pytest.approx(np.array([1.0, 3.0, 7.0]) - slope * at - height)
    assert found[[1, 4]].tolist() == [0.0, 0.0]


def test_of_three_values_there_is_something_beside_their_line_and_of_two_there_is_not() -> None:
    assert without_trend(np.array([0.0, 3.0, 0.0])) == pytest.approx([-1.0, 2.0, -1.0])
    assert without_trend(np.array([0.0, 3.0])).tolist() == [0.0, 0.0]

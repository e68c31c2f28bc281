"""What counters show is held against chance: the delays are moved round the run and over ranks."""

from __future__ import annotations

import numpy as np
import pytest
from coinciding_counters.hosts import lasting
from slow import slow

from timing_logger.analysis.causes.coincidence import Bounds, coincidences, without_trend

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


@pytest.mark.parametrize("n_runs", [8, slow(80, "more of the same")])
@pytest.mark.parametrize("memory", [0.9, *(slow(memory, "80 runs each") for memory in (0.0, 0.98))])
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

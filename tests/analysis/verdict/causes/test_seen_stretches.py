"""Steps and the intervals of counters are brought together: by stretches of whole steps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from timing_logger.analysis.verdict.causes.seen import (
    Intervals,
    in_stretches,
    intervals_by_rank,
    stretches_of,
)
from timing_logger.schema.host_counters import BY_NAME

WAITED = BY_NAME["main_run_queue_wait_us"]
CLOCK = BY_NAME["cpu_mhz"]
BITS = BY_NAME["gpu_throttle_bits"]
SECONDS = 100 + np.arange(60.0)
"""When the intervals of the first rank begin."""
EVENTS = BY_NAME["major_faults"]


def _ends(step_s: float, n: int) -> np.ndarray:
    return np.stack([100 + step_s * np.arange(n), 900 + step_s * np.arange(n)], axis=1)


def _intervals(**values: list[float]) -> Intervals:
    n = len(next(iter(values.values())))
    begin_s = 10 + np.arange(n, dtype=np.float64)
    return Intervals(begin_s, begin_s + 1, {name: np.array(each) for name, each in values.items()})


def test_short_steps_are_put_together_until_they_last_as_long_as_an_interval() -> None:
    stretches = stretches_of(_ends(0.25, 41), SECONDS)
    assert (stretches.n, stretches.typical_steps, stretches.typical_s) == (10, 4, 1.0)
    assert stretches.of_step.tolist() == [-1, *np.repeat(np.arange(10), 4).tolist()]


def test_a_step_that_is_longer_than_an_interval_is_a_stretch() -> None:
    stretches = stretches_of(_ends(3.5, 9), SECONDS)
    assert (stretches.n, stretches.typical_steps) == (8, 1)


def test_of_a_run_of_very_many_intervals_stretches_are_longer_so_that_they_are_20_000_at_most() -> None:
    stretches = stretches_of(_ends(1.0, 60_001), 100 + np.arange(60_000.0))
    assert stretches.n <= 20_000
    assert stretches.typical_steps == 4


def test_each_rank_has_stretches_on_the_axis_of_its_own_instants() -> None:
    stretches = stretches_of(_ends(0.25, 41), SECONDS)
    assert stretches.begin_s[:2].tolist() == [[100, 900], [101, 901]]


def test_a_step_without_an_end_makes_its_stretch_unknown_on_that_rank_only() -> None:
    ends_s = _ends(2.0, 6)
    ends_s[3, 1] = np.nan
    assert np.isnan(stretches_of(ends_s, SECONDS).length_ms).tolist() == [
        [False, at in (2, 3)] for at in range(5)
    ]


def test_a_run_of_a_single_step_has_no_stretches() -> None:
    assert stretches_of(_ends(1.0, 1), SECONDS).n == 0


def test_of_a_rank_that_never_communicated_no_step_is_in_a_stretch() -> None:
    ends_s = _ends(1.0, 9)
    ends_s[:, 0] = np.nan
    stretches = stretches_of(ends_s, SECONDS)
    assert (stretches.n, stretches.of_step.tolist()) == (0, [-1] * 9)
    assert stretches.sums(np.ones_like(ends_s)).shape == (0, ends_s.shape[1])


def test_time_that_was_waited_is_a_share_of_the_time_in_proportion_to_the_overlap() -> None:
    shown = in_stretches(
        WAITED, _intervals(main_run_queue_wait_us=[4e5, 0, 8e5]), np.array([10.5]), np.array([12.5])
    )
    assert shown == pytest.approx([(0.2 + 0 + 0.4) / 2])


def test_a_level_is_the_mean_over_the_time_and_events_are_per_second() -> None:
    begin_s, end_s = np.array([11.0]), np.array([13.0])
    levels = _intervals(cpu_mhz=[2000, 2000, 4000])
    assert in_stretches(CLOCK, levels, begin_s, end_s) == pytest.approx([2500])
    assert in_stretches(EVENTS, _intervals(major_faults=[0, 3, 7]), begin_s, end_s) == pytest.approx([5])


def test_a_level_in_an_interval_is_between_those_at_its_begin_and_at_its_end() -> None:
    begin_s = np.array([10.0, 11.0, 12.0])
    shown = in_stretches(CLOCK, _intervals(cpu_mhz=[2000, 3000, 1000]), begin_s, begin_s + 1)
    assert shown == pytest.approx([2000, 2500, 2000])


def test_a_level_is_not_carried_over_from_a_process_that_ended_earlier() -> None:
    first, second = np.array([10.0, 20.0]), np.array([11.0, 21.0])
    levels = Intervals(first, second, {"cpu_mhz": np.array([2000.0, 3000.0])})
    assert in_stretches(CLOCK, levels, first, second) == pytest.approx([2000, 3000])


def test_a_bit_of_an_idle_device_holds_no_clock_down() -> None:
    shown = in_stretches(BITS, _intervals(gpu_throttle_bits=[0x1, 0x40]), np.array([11.0]), np.array([12.0]))
    assert shown == pytest.approx([0.5])


def test_what_is_known_of_less_than_half_of_a_stretch_is_unknown() -> None:
    counted = _intervals(main_run_queue_wait_us=[1e5, np.nan, np.nan])
    shown = in_stretches(WAITED, counted, np.array([10.0, 10.0, 30.0]), np.array([11.5, 13.0, 31.0]))
    assert np.isnan(shown).tolist() == [False, True, True]


def test_processes_on_different_clocks_are_not_mixed() -> None:
    host = pd.DataFrame({
        "rank": 0, "incarnation": [1, 1, 2], "start_counter": [5.0, 6.0, 5.5], "end_counter": [6.0, 7.0, 6.5],
        "cpu_mhz": [1.0, 2.0, 3.0],
    })  # fmt: skip
    assert intervals_by_rank(host, [0], [CLOCK])[0].values["cpu_mhz"].tolist() == [3.0]

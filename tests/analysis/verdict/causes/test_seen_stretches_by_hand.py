"""Stretches and intervals that are made by hand: sums, lengths, and how a counter is shared out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from timing_logger.analysis.verdict.causes.seen import (
    Intervals,
    Stretches,
    _middles_s,
    in_stretches,
    intervals_by_rank,
    stretches_of,
)
from timing_logger.schema.host_counters import BY_NAME, Counter

WAITED, CLOCK = BY_NAME["run_queue_wait_us"], BY_NAME["cpu_mhz"]
EVENTS, BITS = BY_NAME["major_faults"], BY_NAME["gpu_throttle_bits"]
NAN = math.nan


def stretches() -> Stretches:
    of_step = np.array([-1, 0, 0, 0, 1, 2, 2])
    return Stretches(of_step, np.array([[0.0], [3.0], [9.0]]), np.array([[3.0], [4.0], [9.0]]))


def test_a_stretch_lasts_from_its_begin_to_its_end_and_one_of_no_time_is_unknown() -> None:
    assert stretches().length_ms[:, 0].tolist() == pytest.approx([3000.0, 1000.0, NAN], nan_ok=True)
    assert (stretches().n, stretches().typical_s, stretches().typical_steps) == (3, 2.0, 2)


def test_a_stretch_may_be_shorter_than_a_millisecond() -> None:
    short = Stretches(np.array([-1, 0]), np.array([[0.0]]), np.array([[0.0005]]))
    assert short.length_ms.tolist() == [[0.5]]


def test_without_stretches_nothing_is_typical() -> None:
    none = Stretches(np.array([-1, -1]), np.zeros((0, 1)), np.zeros((0, 1)))
    assert (none.n, none.typical_steps, math.isnan(none.typical_s)) == (0, 0, True)


def test_values_of_steps_are_summed_by_stretch_without_the_first_step() -> None:
    of_steps = np.array([[100.0], [1.0], [2.0], [NAN], [8.0], [16.0], [32.0]])
    assert stretches().sums(of_steps).tolist() == [[3.0], [8.0], [48.0]]


def test_stretches_have_the_steps_that_are_in_them() -> None:
    assert stretches().have(np.array([0, 3])).tolist() == [True, False, False]
    assert stretches().have(np.array([4, 6])).tolist() == [False, True, True]
    assert stretches().have(np.array([0])).tolist() == [False] * 3


def test_stretches_go_by_the_steps_of_the_first_rank() -> None:
    ends_s = np.array([[0.0, 9.0], [1.0, 9.0], [2.0, 9.0]])
    assert stretches_of(ends_s, np.array([0.0, 1.0])).of_step.tolist() == [-1, 0, 1]


def test_a_step_is_in_the_stretch_of_the_interval_that_has_its_middle() -> None:
    ends_s = np.array([[0.0], [1.0], [2.0], [3.0]])
    assert stretches_of(ends_s, np.array([0.0, 1.5])).of_step.tolist() == [-1, 0, 1, 1]
    assert stretches_of(ends_s, np.array([0.0, 1.51])).of_step.tolist() == [-1, 0, 0, 1]
    found = stretches_of(ends_s, np.array([0.0, 1.5]))
    assert (found.begin_s[:, 0].tolist(), found.end_s[:, 0].tolist()) == ([0.0, 1.0], [1.0, 3.0])


@pytest.mark.parametrize(("n_intervals", "n_stretches"), [(19_999, 19_999), (20_000, 10_001)])
def test_from_20_000_intervals_on_two_are_one_stretch(n_intervals: int, n_stretches: int) -> None:
    ends_s = np.arange(20_001.0)[: n_intervals + 1, None]
    assert abs(stretches_of(ends_s, np.arange(float(n_intervals))).n - n_stretches) <= 1


def test_middles_are_those_of_known_ends_and_time_goes_never_back() -> None:
    assert _middles_s(np.array([0.0, 2.0, NAN, 6.0, 5.0])).tolist() == [1.0, 3.0, 5.0, 6.0]
    assert _middles_s(np.array([NAN, NAN])).tolist() == []
    assert _middles_s(np.array([1.0])).tolist() == []
    assert _middles_s(np.array([1.0, 2.0])).tolist() == [1.5]


# -- counters -----------------------------------------------------------------------------------------------


def table(*rows: tuple[int, int, float, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["rank", "incarnation", "start_counter", "end_counter", EVENTS.name])


def test_intervals_are_those_of_the_ranks_in_the_order_of_time() -> None:
    host = table((0, 0, 2.0, 3.0, 7.0), (0, 0, 1.0, 2.0, 5.0), (1, 0, 1.0, 2.0, 9.0), (2, 0, 1.0, 2.0, 1.0))
    found = intervals_by_rank(host, [0, 1], [EVENTS])
    assert sorted(found) == [0, 1]
    first = found[0]
    assert [each.tolist() for each in (first.begin_s, first.end_s, first.values[EVENTS.name])] == [
        [1.0, 2.0], [2.0, 3.0], [5.0, 7.0]
    ]  # fmt: skip


@pytest.mark.parametrize(("second_begins", "n"), [(2.0, 2), (1.9, 1)])
def test_processes_whose_intervals_overlap_are_not_put_together(second_begins: float, n: int) -> None:
    host = table((0, 0, 1.0, 2.0, 5.0), (0, 1, second_begins, 3.0, 7.0))
    assert intervals_by_rank(host, [0], [EVENTS])[0].values[EVENTS.name].tolist() == [5.0, 7.0][-n:]


def shown(
    counter: Counter, values: Sequence[float], begin_s: float, end_s: float, gap_s: float = 0.0
) -> float:
    """Return what a counter of intervals of two seconds, from 10 s on, shows in one stretch."""
    begins = 10 + (2 + gap_s) * np.arange(len(values))
    intervals = Intervals(begins, begins + 2, {counter.name: np.array(values)})
    (found,) = in_stretches(counter, intervals, np.array([begin_s]), np.array([end_s])).tolist()
    return float(found)


def test_time_waited_is_a_share_and_events_are_per_second() -> None:
    assert shown(WAITED, [1e6, 0.0], 10.0, 12.0) == pytest.approx(0.5)
    assert shown(EVENTS, [6.0, 0.0], 10.0, 13.0) == pytest.approx(2.0)


@pytest.mark.parametrize(("end_s", "is_known"), [(14.0, True), (14.02, False)])
def test_half_of_a_stretch_must_be_known(end_s: float, is_known: bool) -> None:
    assert math.isnan(shown(EVENTS, [6.0, NAN], 10.0, end_s)) is not is_known
    if is_known:
        assert shown(EVENTS, [6.0, NAN], 10.0, end_s) == 3.0


def test_a_stretch_of_no_time_and_one_outside_of_all_intervals_show_nothing() -> None:
    assert math.isnan(shown(EVENTS, [6.0], 11.0, 11.0))
    assert math.isnan(shown(EVENTS, [6.0], 20.0, 21.0))


def test_an_interval_of_no_time_counts_nothing() -> None:
    intervals = Intervals(
        np.array([10.0, 10.0]), np.array([10.0, 12.0]), {EVENTS.name: np.array([50.0, 4.0])}
    )
    assert in_stretches(EVENTS, intervals, np.array([10.0]), np.array([12.0])).tolist() == [2.0]


@pytest.mark.parametrize(("gap_s", "found"), [(0.05, 2500.0), (0.125, 3000.0), (0.5, 3000.0)])
def test_a_level_is_carried_on_over_less_than_a_tenth_of_a_second(gap_s: float, found: float) -> None:
    assert shown(CLOCK, [2000.0, 3000.0], 12.0 + gap_s, 14.0 + gap_s, gap_s) == pytest.approx(found)


def test_a_level_is_not_carried_on_over_just_a_tenth_of_a_second() -> None:
    first, second = np.array([0.0, 0.1]), np.array([0.0, 0.2])
    intervals = Intervals(first, second, {CLOCK.name: np.array([2000.0, 3000.0])})
    assert in_stretches(CLOCK, intervals, first[1:], second[1:]).tolist() == pytest.approx([3000.0])


def test_a_level_after_an_unknown_one_is_its_own() -> None:
    assert shown(CLOCK, [NAN, 3000.0], 12.0, 14.0) == 3000.0


@pytest.mark.parametrize(("bits", "share"), [(0.0, 0.0), (1.0, 0.0), (2.0, 1.0), (3.0, 1.0)])
def test_any_bit_but_that_of_an_idle_device_holds_the_clock_down(bits: float, share: float) -> None:
    assert shown(BITS, [bits], 10.0, 12.0) == share
    assert math.isnan(shown(BITS, [NAN], 10.0, 12.0))


@pytest.mark.parametrize(("counter", "shown"), [(EVENTS, 1.0), (WAITED, 1e-6)])
def test_what_was_counted_in_no_time_is_left_out(counter: Counter, shown: float) -> None:
    at_s = np.array([0.0, 1.0, 1.0, 2.0])
    its = Intervals(at_s[:3], at_s[1:], {counter.name: np.array([1.0, 1e6, 1.0])})
    found = in_stretches(counter, its, np.array([0.0]), np.array([2.0]))
    assert found.tolist() == pytest.approx([shown])

"""Windows of slow iterations, scores, and the parts that they stand on."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_tables import collective, table
from simulated_runs import data_parallel, factors
from slow import examples, slow

from timing_logger.analysis import scores, windows
from timing_logger.analysis.rows.operations import needs_no_other_rank
from timing_logger.analysis.step_times.noise import (
    _interval_lengths,
    change_points,
    change_points_of_each,
    noise_of,
)
from timing_logger.analysis.step_times.peers import peer_medians
from timing_logger.analysis.step_times.process_steps import exclusive_ms
from timing_logger.analysis.step_times.step_times import step_times
from timing_logger.analysis.verdict.windows import individual_score
from timing_logger.results.policy import STANDARD


def of_self_time(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["operation"] == "SELF_TIME"].reset_index(drop=True)


@functools.cache
def slowed_1_2_3_and_4_times() -> pd.DataFrame:
    return data_parallel(factors(50, 4) * [1, 2, 3, 4])


@functools.cache
def found_on_slowed(analysis: Any) -> pd.DataFrame:
    found: pd.DataFrame = analysis(slowed_1_2_3_and_4_times())
    return found


# -- scores ----------------------------------------------------------------------------------------


def test_ranks_slowed_1_2_3_and_4_times_score_1_one_half_one_third_and_one_quarter() -> None:
    found = found_on_slowed(scores)
    for operation, rows in found.groupby("operation"):
        assert rows["score"].tolist() == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4], rel=1e-12), operation
    assert of_self_time(found)["flagged"].tolist() == [False, True, True, True]


@pytest.mark.parametrize("analysis", [scores, slow(windows, "of the same steps as scores")])
def test_what_a_rank_does_outside_of_any_iteration_is_of_no_step(analysis: Any) -> None:
    inside = slowed_1_2_3_and_4_times()
    before = inside[inside["rank"] == 0].head(5).assign(iteration=pd.NA, elapsed_ms=1e4)
    outside = pd.concat([before.astype(inside.dtypes), inside], ignore_index=True)
    pd.testing.assert_frame_equal(analysis(outside), found_on_slowed(analysis))


def test_ranks_of_other_roles_do_not_enter_a_score() -> None:
    timings = slowed_1_2_3_and_4_times()
    found = of_self_time(scores(timings, roles={0: "a", 1: "b", 2: "a", 3: "b"})).set_index("rank")
    assert found["score"].to_dict() == pytest.approx({0: 1, 2: 1 / 3, 1: 1, 3: 1 / 2})
    assert found["labels"].to_dict() == {0: "a", 1: "b", 2: "a", 3: "b"}


def test_the_individual_score_is_the_best_past_by_the_present() -> None:
    own_ms = np.repeat([3.0, 1.0, 2.0, 4.0], 20)
    assert individual_score(own_ms, 20) == 1 / 4
    assert individual_score(own_ms[:40], 20) == 3
    assert math.isnan(individual_score(own_ms[:39], 20))


# -- windows ----------------------------------------------------------------------------------------


def test_a_window_has_its_ratio_score_and_cost() -> None:
    factor = factors(100, 4)
    factor[30:60, 2] = 1.5
    (row,) = of_self_time(windows(data_parallel(factor))).to_dict("records")
    assert row == {
        "rank": 2, "operation": "SELF_TIME", "labels": "", "kind": "bounded", "first_iteration": 30,
        "last_iteration": 59, "iterations": 30, "ratio": pytest.approx(1.5), "score": pytest.approx(1 / 1.5),
        "excess_ms": pytest.approx(30 * 35 * 0.5),
    }  # fmt: skip


def test_a_slow_operation_has_windows_and_the_others_have_none() -> None:
    factor = factors(100, 4)
    factor[:, 2] = 2
    found = windows(data_parallel(factor, slow_operations=["DATA", "FORWARD"], noise=0.01))
    assert set(found["operation"]) == {"SELF_TIME", "DATA", "FORWARD"}
    assert set(found["rank"]) == {2}
    assert set(found["kind"]) == {"persistent"}


@pytest.mark.slow("test_slow_steps_found.py has all kinds of stretches")
def test_a_rank_can_have_several_windows() -> None:
    factor = factors(200, 4, noise=0.03)
    factor[20:40, 1] *= 2
    factor[100:125, 1] *= 1.5
    factor[190:, 3] *= 2
    found = of_self_time(windows(data_parallel(factor))).sort_values("first_iteration")
    columns = ["rank", "kind", "first_iteration", "last_iteration"]
    assert found[columns].to_numpy().tolist() == [
        [1, "bounded", 20, 39], [1, "bounded", 100, 124], [3, "ongoing", 190, 199],
    ]  # fmt: skip


@pytest.mark.slow("test_slow_steps_found.py has the least stretch")
def test_a_window_of_three_steps_is_found_though_single_spikes_are_none() -> None:
    factor = factors(200, 4, noise=0.03)
    factor[80:83, 1] *= 3
    factor[[20, 130], 2] *= 3
    found = of_self_time(windows(data_parallel(factor)))
    assert found[["rank", "first_iteration", "last_iteration"]].to_numpy().tolist() == [[1, 80, 82]]


@pytest.mark.slow("test_slow_steps_found.py has steps that all have in turn")
def test_slow_steps_that_every_rank_has_now_and_then_do_not_recur_on_any() -> None:
    factor = factors(200, 8, noise=0.03)
    factor[np.arange(200), np.random.default_rng(3).integers(0, 8, 200)] *= 2
    found = windows(data_parallel(factor))
    assert "intermittent" not in set(found["kind"])
    assert (found["iterations"] < 10).all()


def test_the_time_of_failed_rows_is_unknown() -> None:
    timings = data_parallel(factors(20, 4, noise=0.03))
    failed = (timings["rank"] == 1) & (timings["operation"] == "BACKWARD") & (timings["iteration"] < 10)
    timings.loc[failed, ["elapsed_ms", "status"]] = [1000.0, "error:RuntimeError"]
    times = step_times(timings)
    assert np.isnan(times.self_ms).nonzero()[0].tolist() == list(range(10))
    assert set(np.isnan(times.self_ms).nonzero()[1]) == {1}


@pytest.mark.slow("test_verdict_costs.py has a sampled run")
def test_windows_are_in_the_numbers_of_iterations_that_were_sampled() -> None:
    factor = factors(400, 4, noise=0.03)
    factor[160:240, 1] *= 2
    timings = data_parallel(factor)
    (row,) = of_self_time(windows(timings[timings["iteration"] % 10 == 0])).to_dict("records")
    assert (row["first_iteration"], row["last_iteration"], row["iterations"]) == (160, 230, 8)


@pytest.mark.slow("a rank is held against its peers in each step, and the median of these is below")
def test_what_all_ranks_do_is_nobody_s_window() -> None:
    factor = factors(200, 4, noise=0.03)
    factor[50:100] *= 3
    assert len(windows(data_parallel(factor))) == 0


@pytest.mark.parametrize("analysis", [windows, scores])
def test_tables_come_back_in_the_library_they_came_in(analysis: Any) -> None:
    timings = slowed_1_2_3_and_4_times().query("iteration < 5")
    plain = timings.astype(object).where(timings.notna(), None)
    as_polars = pl.DataFrame({name: plain[name].to_list() for name in plain.columns})
    assert isinstance(analysis(as_polars), pl.DataFrame)


@pytest.mark.parametrize("analysis", [windows, scores])
def test_tables_are_typed_when_empty(analysis: Any) -> None:
    empty, full = analysis(slowed_1_2_3_and_4_times().head(0)), found_on_slowed(analysis)
    assert len(empty) == 0
    assert len(full) > 0
    assert empty.dtypes.to_dict() == full.dtypes.to_dict()


# -- change points ------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=examples(50))
@given(st.integers(5, 150), st.integers(8, 60), st.integers(0, 1000))
def test_both_ends_of_a_clear_window_are_found_within_two_steps(start: int, length: int, seed: int) -> None:
    series = np.random.default_rng(seed).normal(0, 0.05, start + length + 40)
    series[start : start + length] += 0.5
    found = change_points(series, STANDARD, cap=0.29, min_sigma=0.02)
    assert min(abs(at - start) for at in found) <= 2
    assert min(abs(at - start - length) for at in found) <= 2


@pytest.mark.parametrize("n_windows", [40, slow(300, "more windows of the same kind")])
def test_of_noisy_windows_not_one_end_is_more_than_two_steps_off(n_windows: int) -> None:
    series = np.random.default_rng(1).normal(0, 0.1, (n_windows, 200))
    series[:, 60:85] += 0.4
    for found in change_points_of_each(series, STANDARD, cap=0.29, min_sigma=0.02):
        assert max(min(abs(at - end) for at in found) for end in (60, 85)) <= 2


@settings(deadline=None, max_examples=examples(200, few=10))
@given(st.integers(30, 250), st.lists(st.integers(0, 249), max_size=4), st.integers(0, 10_000))
def test_no_level_is_shorter_than_3_steps_whatever_spikes_there_are(
    length: int, spikes: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    series = rng.normal(0, 0.05, length)
    start, end = sorted(rng.integers(0, length, 2))
    series[start:end] += 0.4
    series[[at % length for at in spikes]] += 2.0
    found = change_points(series, STANDARD, cap=0.29, min_sigma=0.02)
    assert min(np.diff([0, *found, length])) >= 3


def test_noise_has_next_to_no_change_points() -> None:
    noise = np.random.default_rng(5).normal(0, 0.1, (100, 300))
    found = change_points_of_each(noise, STANDARD, cap=0.29, min_sigma=0.02)
    assert sum(map(bool, found)) <= 2


@pytest.mark.parametrize(("height", "is_found"), [(1.31, True), (1.29, False)])
def test_a_change_is_found_that_stands_out_from_the_noise_by_enough_for_so_many_steps(
    height: float, is_found: bool
) -> None:
    """Of 60 steps: by 1 and 2 sqrt(log 60) standard deviations, of sqrt(60) / 2 times the height."""
    series = np.repeat([0.0, height], 30)
    assert bool(change_points(series, STANDARD, cap=9, min_sigma=1.0)) is is_found


def test_each_length_of_intervals_is_about_half_of_the_next_but_one() -> None:
    assert list(_interval_lengths(60, STANDARD)) == [7, 10, 15, 21, 30, 42, 60]


def test_ranks_that_are_looked_at_together_change_where_each_does_alone() -> None:
    series = np.random.default_rng(6).normal(0, 0.1, (20, 150))
    for i in range(0, 20, 3):
        series[i, 5 * i : 100] += 0.3
    together = change_points_of_each(series, STANDARD, cap=0.29, min_sigma=0.02)
    assert together == [change_points(each, STANDARD, cap=0.29, min_sigma=0.02) for each in series]
    assert [bool(found) for found in together] == [i % 3 == 0 for i in range(20)]


@pytest.mark.parametrize(("memory", "error"), [(0.0, 1 / 10), (0.8, 0.69)])
def test_the_error_of_a_level_is_told_whatever_the_level_does(memory: float, error: float) -> None:
    """In standard deviations from step to step: of 100 steps, of noise with and without a memory."""
    noise = np.random.default_rng(2).normal(0, 0.1, (1600, 8))
    for step in range(1, len(noise)):
        noise[step] = memory * noise[step - 1] + (1 - memory**2) ** 0.5 * noise[step]
    noise[400:1200, 2] += 1.0
    assert noise_of(noise, 8).error_of_mean(100) == pytest.approx(error, rel=0.2)
    noise[::7] = np.nan
    assert noise_of(noise, 8).error_of_mean(100) <= 1.2 * error  # unknown steps only make it look less


def test_a_level_is_never_told_better_than_by_the_longest_stretches_that_the_run_can_compare() -> None:
    found = noise_of(np.random.default_rng(3).normal(0, 0.1, (160, 4)), 8)
    assert found.error_of_mean(160) == found.error_of_mean(20)


def test_of_no_steps_at_all_no_noise_is_known() -> None:
    assert noise_of(np.full((3, 2), np.nan), 8).error_factor == 1.0
    assert noise_of(np.zeros((0, 2)), 8).error_factor == 1.0


def test_series_too_short_to_have_two_levels_have_no_change_point() -> None:
    for length in range(6):
        assert change_points(np.arange(float(length)), STANDARD, cap=9, min_sigma=0.02) == []


# -- self time, peers, waits -----------------------------------------------------------------------------


def test_each_instant_belongs_to_the_innermost_row_of_its_thread() -> None:
    """A step of 10 s with an operation of 6 s in it, of which 2 s and 1 s are collectives."""
    starts = np.array([0.0, 1.0, 2.0, 5.0, 3.0])
    ends = np.array([10.0, 7.0, 4.0, 6.0, 6.0])
    lanes = np.array([0, 0, 0, 0, 1])
    alone = exclusive_ms(1000 * (ends - starts), starts, ends, lanes)
    assert alone.tolist() == [4000, 3000, 2000, 1000, 3000]


def test_a_row_that_begins_a_moment_before_the_last_one_ended_loses_what_lies_in_it() -> None:
    """FORWARD, BACKWARD, and an all-reduce in BACKWARD: placed at the call, or off by a rounding."""
    starts, ends = np.array([0.0, 10.0 - 1e-9, 12.0]), np.array([10.0, 20.0, 15.0])
    alone = exclusive_ms(1000 * (ends - starts), starts, ends, np.zeros(3, np.int64))
    assert alone == pytest.approx([10_000, 7_000, 3_000], abs=1e-5)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), min_size=1, max_size=12))
def test_each_instant_belongs_to_the_row_that_began_last_however_rows_cross(
    rows: list[tuple[int, int]],
) -> None:
    """Of rows that began together, to the one that ends first."""
    intervals = [(start, start + length) for start, length in rows]
    owned = [0.0] * len(rows)
    for instant in range(20):
        inside = [(start, -end, n) for n, (start, end) in enumerate(intervals) if start <= instant < end]
        if inside:
            owned[max(inside)[-1]] += 1000
    starts, ends = np.array(intervals, dtype=float).T
    alone = exclusive_ms(1000 * (ends - starts), starts, ends, np.zeros(len(rows), np.int64))
    assert alone.tolist() == owned


def test_rows_of_one_and_the_same_interval_are_taken_off_once() -> None:
    starts, ends = np.array([0.0, 1.0, 1.0, 1.0]), np.array([10.0, 3.0, 3.0, 3.0])
    assert exclusive_ms(1000 * (ends - starts), starts, ends, np.zeros(4, np.int64))[0] == 8000


def test_rows_without_instants_keep_their_duration() -> None:
    unknown = np.array([np.nan, np.nan])
    assert exclusive_ms(np.array([5.0, np.nan]), unknown, unknown, np.zeros(2, np.int64))[0] == 5


def test_own_work_is_what_needs_no_other_rank() -> None:
    own = ["FORWARD", "DATA", "COMPRESS", "H2D", "my_phase", "SYNTHETIC_STRAGGLER"]
    others = ["ALLREDUCE_DENSE", "ISEND", "WAIT", "BCAST", "PROBE", "BARRIER"]
    assert all(map(needs_no_other_rank, own))
    assert not any(map(needs_no_other_rank, others))


@given(st.lists(st.lists(st.floats(0.1, 10), min_size=5, max_size=5), min_size=1, max_size=6))
def test_the_peer_median_is_the_lower_median_of_the_other_ranks(rows: list[list[float]]) -> None:
    times = np.array(rows)
    found = peer_medians(times)
    for row, medians in zip(times, found, strict=True):
        assert medians.tolist() == [np.sort(np.delete(row, rank))[1] for rank in range(5)]


def test_ranks_whose_time_is_unknown_are_no_peers() -> None:
    nan = np.nan
    found = peer_medians(np.array([[1.0, nan, 3.0, 5.0], [nan, nan, nan, 2.0]]))
    np.testing.assert_equal(found, [[3.0, 3.0, 1.0, 1.0], [2.0, 2.0, 2.0, nan]])


def test_the_last_to_arrive_waits_for_nobody_and_the_others_for_it() -> None:
    waits = step_times(table(*collective([0, 4, 1], 5))).waits
    assert waits.own_ms.ravel() == pytest.approx([4, 0, 3])
    assert waits.for_it_ms.ravel() == pytest.approx([0, 7, 0])
    assert waits.longest_ms.ravel() == pytest.approx([0, 4, 0])


def test_of_a_collective_of_which_no_other_rank_has_a_row_no_wait_is_known() -> None:
    waits = step_times(table(*collective([0], 5, group_size=3))).waits
    assert np.isnan(waits.own_ms).all()
    assert np.isnan(waits.for_it_ms).all()


def test_of_a_name_that_several_groups_share_no_wait_is_known() -> None:
    assert np.isnan(step_times(table(*collective([0, 2, 3, 4], 5, group_size=2))).waits.own_ms).all()


def test_the_gap_is_all_that_lies_between_collectives() -> None:
    gap_ms = step_times(data_parallel(factors(10, 2) * [1, 2], logged=["ALLREDUCE"])).gap_ms
    np.testing.assert_allclose(gap_ms[1:], [[35, 70]] * 9)


@pytest.mark.parametrize(
    ("blocked_in", "beside"), [("WAIT", "IALLREDUCE"), ("WAIT", "ALLREDUCE"), ("ALLREDUCE", "BACKEND")]
)
def test_what_runs_beside_the_row_in_which_a_rank_is_blocked_takes_nothing_off_the_gap(
    blocked_in: str, beside: str
) -> None:
    blocked = data_parallel(factors(10, 2) * [1, 2], logged=["ALLREDUCE"]).assign(operation=blocked_in)
    longer = blocked.assign(
        operation=beside,
        thread="AllReducer",
        elapsed_ms=blocked["elapsed_ms"] + 5,
        start_counter=blocked["start_counter"] - 0.005,
    )
    np.testing.assert_allclose(step_times(pd.concat([blocked, longer])).gap_ms[1:], [[35, 70]] * 9)


def test_a_restarted_job_s_waits_are_told_apart_from_those_before() -> None:
    before, after = (data_parallel(factors(5, 4, noise=0.1, seed=seed)) for seed in (1, 2))
    restarted = after.assign(incarnation=2, iteration=after["iteration"] + 5)
    both = step_times(pd.concat([before, restarted])).waits.own_ms
    alone = [step_times(run).waits.own_ms for run in (before, restarted)]
    np.testing.assert_allclose(both, np.concatenate(alone))

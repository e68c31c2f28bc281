"""A cost is of the whole run: in seconds of it, and as a part of its length."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from simulated_runs import data_parallel, factors

from timing_logger.analysis import Verdict, stragglers
from timing_logger.analysis.step_times.step_times import step_times
from timing_logger.words.verdict import verdict_sentence


@functools.cache
def slow_run(steps: int = 300) -> pd.DataFrame:
    factor = factors(steps, 4, 0.02)
    factor[:, 2] *= 1.5
    return data_parallel(factor)


@functools.cache
def verdict_on_slow_run(steps: int = 300) -> Verdict:
    return stragglers(slow_run(steps))


@functools.cache
def verdict_on_sampled() -> Verdict:
    """The verdict on every tenth step of a slow run."""
    return stragglers(recorded(slow_run(), np.arange(0, 300, 10)))


def recorded(timings: pd.DataFrame, iterations: np.ndarray) -> pd.DataFrame:  # type: ignore[type-arg]
    return timings[timings["iteration"].isin(iterations)].reset_index(drop=True)


def test_of_a_sampled_run_the_cost_is_that_of_all_iterations() -> None:
    all_of_it, sampled = verdict_on_slow_run(), verdict_on_sampled()
    assert (sampled.ranks, sampled.recorded_every, sampled.slow_steps) == ((2,), 10, 30)
    assert sampled.cost_ms == pytest.approx(all_of_it.cost_ms, rel=0.05)
    assert sampled.cost_share == pytest.approx(all_of_it.cost_share, rel=0.05)


def test_the_sentence_says_for_how_many_iterations_a_step_stands() -> None:
    sentence = verdict_sentence(verdict_on_sampled())
    assert "% of the run. " in sentence
    assert "in each of 30 steps recorded, each taken to stand for 10 iterations" in sentence


@pytest.mark.slow("a pause in the recording is no sampling either, and quick")
def test_iterations_that_are_missing_here_and_there_are_no_sampling() -> None:
    there = np.random.default_rng(1).permutation(300)[:120]
    assert stragglers(recorded(slow_run(), there)).recorded_every == 1


def test_a_pause_in_the_recording_is_no_sampling() -> None:
    assert step_times(recorded(slow_run(), np.r_[0:60, 240:300])).recorded_every == 1


def test_the_part_of_the_run_counts_time_outside_of_steps() -> None:
    timings, at_once = slow_run(40), verdict_on_slow_run(40)
    set_up_s = 2.0
    before = (
        timings.groupby("rank").head(1).assign(operation="LOAD", iteration=pd.NA, elapsed_ms=1e3 * set_up_s)
    )
    before = before.assign(
        start_counter=before["start_counter"] - set_up_s, end_counter=before["start_counter"]
    ).astype({"iteration": "Int64"})
    later = stragglers(pd.concat([before, timings], ignore_index=True))
    run_ms = at_once.cost_ms / at_once.cost_share
    assert later.cost_ms == pytest.approx(at_once.cost_ms, rel=0.001)
    assert later.cost_share == pytest.approx(at_once.cost_ms / (run_ms + 1e3 * set_up_s), rel=0.001)


def test_a_loop_that_reduces_in_every_tenth_iteration_only_is_no_sampled_run() -> None:
    """Collectives are numbered without a gap, so none of them is missing."""
    whole = slow_run(40)
    rows = whole[whole["operation"] == "ALLREDUCE"].reset_index(drop=True)
    rows["iteration"] = 10 * rows["iteration"] + 9
    verdict = stragglers(rows)
    assert (verdict.ranks, verdict.recorded_every, verdict.operation) == ((2,), 1, "UNLOGGED")
    assert verdict.cost_ms == pytest.approx(verdict_on_slow_run(40).cost_ms, rel=0.1)
    assert step_times(rows.assign(seq=10 * rows["seq"])).recorded_every == 10

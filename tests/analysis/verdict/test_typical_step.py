"""One step of a run, stretch by stretch: every instant of it is told, and the step is one like the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from account_rows import barrier, random_run, row, table, what_at
from hypothesis import given
from hypothesis import strategies as st
from seeds import few_examples
from simulated_runs import data_parallel, factors

from timing_logger.analysis import account_of_step
from timing_logger.analysis.verdict.typical_step import (
    StepOfRanks,
    _losing,
    _of_median_length,
    ranks_to_show,
    typical_step,
)
from timing_logger.analysis.verdict.verdict import map_judgement, reduce_judgement

RUN = {"own work": ["forward", "load"], "transfer": ["ALLREDUCE"], "waiting": ["ALLREDUCE"]}


def steps_of(timings: pd.DataFrame) -> pd.DataFrame:
    """Number the steps of a random run: each ends with a collective."""
    ends = timings.groupby(["group", "seq"])["end_s"].transform("max").bfill()
    return timings.assign(iteration=pd.factorize(ends)[0])


def two_steps(**columns: Any) -> pd.DataFrame:
    """Return a run of two ranks: in its second step rank 1 works from 10 to 16 ms, and rank 0 to 12 ms."""
    return table(
        *barrier([0, 0], 10, iteration=0, **columns),
        row(0, "forward", 10, 12, iteration=1), row(1, "forward", 11, 16, iteration=1),
        *barrier([12, 16], 17, iteration=1, **{"seq": 1, **columns}),
    )  # fmt: skip


def told(timings: pd.DataFrame, **options: Any) -> list[tuple[Any, ...]]:
    found = account_of_step(timings, **options)
    names = ["rank", "what", "operation", "waited_for", "start_ms", "end_ms"]
    return [tuple(None if pd.isna(value) else value for value in one) for one in found[names].values.tolist()]


def test_a_step_is_told_from_the_end_of_the_communication_before_it_to_that_of_its_own() -> None:
    assert told(two_steps()) == [
        (0, "own work", "forward", None, 0.0, pytest.approx(2.0)),
        (0, "waiting", "BARRIER", 1, pytest.approx(2.0), pytest.approx(6.0)),
        (0, "transfer", "BARRIER", None, pytest.approx(6.0), pytest.approx(7.0)),
        (1, "not timed", "", None, 0.0, pytest.approx(1.0)),
        (1, "own work", "forward", None, pytest.approx(1.0), pytest.approx(6.0)),
        (1, "transfer", "BARRIER", None, pytest.approx(6.0), pytest.approx(7.0)),
    ]


def step_of(timings: pd.DataFrame) -> int:
    """Return the iteration of the step that is told of a run."""
    step = typical_step(reduce_judgement([map_judgement(timings)], with_blocked=True))
    assert step is not None
    return step.iteration


def test_clocks_that_nobody_compared_are_put_on_one_axis() -> None:
    timings = two_steps()
    moved = timings["rank"].eq(1) * 1000.0
    for name in ("start_counter", "end_counter"):
        timings[name] += moved
    timings = timings.drop(columns=["start_s", "end_s", "clock_uncertainty_s"])
    for found, expected in zip(told(timings), told(two_steps()), strict=True):
        assert found[:4] == expected[:4]
        assert found[4:] == pytest.approx(expected[4:], abs=1e-6)


@few_examples(1)
@given(st.integers(0, 10_000))
def test_at_every_instant_a_step_says_what_the_definition_says(seed: int) -> None:
    run, _ = random_run(seed)
    timings = steps_of(run)
    rows = timings.to_dict("records")
    calls = timings[timings["operation"] == "ALLREDUCE"]
    for iteration in sorted(timings["iteration"].unique())[1:3]:
        found = account_of_step(timings, int(iteration))
        before = calls[calls["iteration"] == iteration - 1].groupby("rank")["end_s"].max()
        if found.empty:
            continue
        first_s = min(before[rank] for rank in found["rank"].unique())
        for rank, its in found.groupby("rank"):
            assert its["start_ms"].iloc[0] == pytest.approx(1e3 * (before[rank] - first_s), abs=1e-6)
            assert its["start_ms"].to_numpy()[1:] == pytest.approx(its["end_ms"].to_numpy()[:-1], abs=1e-6)
            for one in its.to_dict("records"):
                middle_s = first_s + (one["start_ms"] + one["end_ms"]) / 2e3
                what, by = what_at(rows, rank, middle_s)
                whom = None if pd.isna(one["waited_for"]) else one["waited_for"]
                assert (one["what"], whom if what == "waiting" else one["operation"]) == (what, by)


def test_of_slow_steps_among_usual_ones_a_slow_one_is_told() -> None:
    factor = factors(60, 4, noise=0.02)
    factor[::5, 2] *= 3
    found = account_of_step(data_parallel(factor))
    assert set(found["iteration"]) <= set(range(0, 60, 5))
    assert set(found.loc[found["what"] == "waiting", "waited_for"].dropna()) >= {2}


def test_where_nobody_is_named_a_step_that_loses_time_is_told_all_the_same() -> None:
    factor, slow = factors(60, 4, noise=0.02), np.arange(0, 60, 5)
    factor[slow, slow // 5 % 4] *= 3  # each time it is another rank
    judgement = reduce_judgement([map_judgement(data_parallel(factor))], with_blocked=True)
    step = typical_step(judgement)
    assert judgement.verdict.verdict == "diffuse"
    assert step is not None
    assert step.iteration in slow


LOST_MS = np.array([0.0, 9.0, 10.0, 11.0, 12.0, 0.0, 13.0, 10.5])
"""Of 65.5 ms in all, two fifths are reached with the last step, and three fifths with the fourth."""


def test_the_step_is_told_with_which_about_half_of_the_lost_time_is_reached() -> None:
    assert _losing(LOST_MS, np.ones(8)) == 7
    one_very_long = np.append(np.full(20, 10.0), 100.0)
    assert _losing(one_very_long, np.ones(21)) < 20


def test_of_steps_that_lose_about_as_much_the_one_of_usual_length_is_told() -> None:
    assert _losing(LOST_MS, np.where(np.arange(8) == 7, 9.0, 1.0)) == 3


def test_steps_with_which_less_than_40_or_more_than_60_percent_is_lost_are_not_told() -> None:
    length_s = np.ones(50)
    length_s[18:32] = 9.0
    length_s[28] = 8.0
    assert _losing(np.ones(50), length_s) == 28
    length_s[20] = 7.0
    assert _losing(np.ones(50), length_s) == 20


def test_the_step_of_median_length_is_one_that_is_known() -> None:
    assert _of_median_length(np.array([np.nan, 3.0, 1.0, np.nan, 2.0])) == 4


@pytest.mark.slow("one very long step is held by hand above")
def test_one_very_long_step_is_not_the_typical_one() -> None:
    factor = factors(60, 4, noise=0.02)
    factor[:, 2] *= 2
    factor[30, 2] *= 10
    assert set(account_of_step(data_parallel(factor))["iteration"]).isdisjoint({30, 31})


@pytest.mark.slow("the step of median length is found by hand above")
def test_of_a_healthy_run_a_step_of_median_length_is_told() -> None:
    factor = factors(61, 4) * np.linspace(1.0, 1.05, 61)[np.random.default_rng(1).permutation(61), None]
    (iteration,) = set(account_of_step(data_parallel(factor))["iteration"])
    assert abs(np.argsort(np.argsort(factor[:, 0]))[iteration] - 30) <= 2


def test_the_first_step_is_told_only_if_there_is_no_other() -> None:
    factor = factors(20, 4, noise=0.02)
    factor[0, 2] *= 20
    assert step_of(data_parallel(factor)) > 0
    first = two_steps()
    assert step_of(first[first["iteration"] == 0]) == 0


def test_a_step_after_one_that_was_not_recorded_begins_with_its_first_row() -> None:
    timings = two_steps()
    timings["iteration"] *= 10
    found = told(timings)
    assert found[0] == (0, "own work", "forward", None, 0.0, pytest.approx(2.0))
    assert next(one for one in found if one[0] == 1)[1:3] == ("own work", "forward")


def test_another_step_is_told_on_request_and_nothing_of_one_that_there_is_not() -> None:
    timings = data_parallel(factors(9, 3))
    found, nothing = account_of_step(timings, 7), account_of_step(timings, 70)
    assert set(found["iteration"]) == {7}
    assert nothing.empty
    assert list(nothing.columns) == list(found.columns)


def test_nothing_is_told_of_one_rank_alone_or_without_communication() -> None:
    timings = data_parallel(factors(5, 3))
    assert account_of_step(timings[timings["rank"] == 1]).empty
    assert account_of_step(timings[timings["operation"] == "FORWARD"]).empty


def test_a_table_of_polars_gives_one_of_polars() -> None:
    timings = data_parallel(factors(5, 3, noise=0.1))
    found = account_of_step(pl.from_pandas(timings))
    assert isinstance(found, pl.DataFrame)
    assert found.rows() == [
        tuple(None if pd.isna(value) else value for value in one)
        for one in account_of_step(timings).itertuples(index=False)
    ]


def a_step(n_ranks: int) -> StepOfRanks:
    """Return a step of ranks of which none was blocked but the last, for a second."""
    waits = pd.DataFrame({"rank": [n_ranks - 1], "ms": [1000.0]})
    step: Any = SimpleNamespace(ranks=list(range(n_ranks)), waits=waits)
    return step


@pytest.mark.parametrize(("n_ranks", "shown"), [(16, list(range(16))), (17, [0, 3, 9, 16])])
def test_of_up_to_16_ranks_all_are_shown_and_else_who_is_named_and_three_others(
    n_ranks: int, shown: list[int]
) -> None:
    assert ranks_to_show(a_step(n_ranks), [3]) == shown

"""The strip of causes under the heatmap: what its cells are, and which causes it shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from host_tables import host_of
from page_data import unpacked
from simulated_runs import data_parallel, factors

from timing_logger.report._host_rates import host_tables
from timing_logger.report.html import _heatmap_grid
from timing_logger.report.html._causes import COUNTED, KINDS, LEAST_SHARE, MOST_CAUSES, CausesStrip
from timing_logger.report.html._findings import Findings, joined_begins, step_begins
from timing_logger.report.html._heatmap import heatmap
from timing_logger.report.html.page import host_parts
from timing_logger.results.cause import CAUSES, Cause

N_STEPS, N_RANKS = 60, 4
STEP_S = 0.0365  # of the simulated run where nobody is slow


def causes_in(found: Findings, host: pd.DataFrame | None = None) -> CausesStrip:
    return host_parts(found, heatmap(found).grid, host_tables(host)).causes


def causes_of(found: Findings, timings: pd.DataFrame, host: pd.DataFrame | None = None) -> CausesStrip:
    """Of a run as the found one, with pauses."""
    return causes_in(replace(found, step_begins=joined_begins([step_begins(timings)])), host)


def paused(timings: pd.DataFrame, operation: str, rank: int, iteration: int, ms: float) -> pd.DataFrame:
    """The run with a row of a pause in the forward pass of a step."""
    chosen = (timings["rank"] == rank) & (timings["iteration"] == iteration)
    row = timings[chosen & (timings["operation"] == "FORWARD")].assign(operation=operation, elapsed_ms=ms)
    row["end_counter"] = row["start_counter"] + ms / 1e3
    return pd.concat([timings, row], ignore_index=True)


@pytest.fixture(scope="module")
def run() -> pd.DataFrame:
    return data_parallel(factors(N_STEPS, N_RANKS))


@pytest.fixture(scope="module")
def found(run: pd.DataFrame) -> Findings:
    return Findings.of(run)


@pytest.fixture(scope="module")
def collected(run: pd.DataFrame, found: Findings) -> CausesStrip:
    """Of the run in which a collector paused one rank once."""
    return causes_of(found, paused(run, "GC", rank=2, iteration=7, ms=7.3))


def test_a_host_that_counted_nothing_and_a_run_without_pauses_have_no_strip(
    run: pd.DataFrame, found: Findings
) -> None:
    assert causes_in(found).data is None
    assert causes_in(found, host_of(run, 1.0, throttled_us=np.zeros((4, 3)))).data is None


def test_a_step_has_the_mean_rate_of_the_intervals_that_it_overlaps(
    run: pd.DataFrame, found: Findings
) -> None:
    waits_us = np.zeros((4, 3))
    waits_us[1] = [0, 400_000, 0]  # of the second second
    (row,) = causes_in(found, host_of(run, 1.0, main_run_queue_wait_us=waits_us)).rows
    begins_s = STEP_S * np.arange(60)
    inside = np.clip((np.minimum(begins_s + STEP_S, 2) - np.maximum(begins_s, 1)) / STEP_S, 0, 1)
    np.testing.assert_allclose(row.most[:-1], 0.4 * inside[:-1], atol=1e-6)
    np.testing.assert_allclose(row.mean, row.most / 4, atol=1e-6)
    assert set(row.whose[row.most > 0].tolist()) == {1}


def test_a_rank_that_counted_nothing_is_not_among_those_of_the_mean(
    run: pd.DataFrame, found: Findings
) -> None:
    (row,) = causes_in(found, host_of(run, 3.0, throttled_us=[[600_000]])).rows  # of rank 0 alone
    np.testing.assert_allclose(row.mean, 0.2, atol=1e-6)


def test_where_no_second_was_counted_a_step_is_unknown_and_not_nothing(
    run: pd.DataFrame, found: Findings
) -> None:
    (row,) = causes_in(found, host_of(run, 10 * STEP_S, throttled_us=np.full((4, 1), 1e5))).rows
    assert np.isnan(row.mean).tolist() == [False] * 10 + [True] * 50
    assert row.whose.tolist() == [0] * 10 + [-1] * 50


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("IMPORT", "Imports"),
        *(
            pytest.param(*pause, marks=pytest.mark.slow("other names of pauses, which a test below has, too"))
            for pause in (("GC", "Collector"), ("COMPILE", "Compiling"), ("GRAPH_CAPTURE", "Graph capture"))
        ),
    ],
)
def test_a_pause_counts_in_its_own_step_without_any_host(
    run: pd.DataFrame, found: Findings, operation: str, name: str
) -> None:
    drawn = causes_of(found, paused(run, operation, rank=2, iteration=7, ms=7.3))
    (row,) = drawn.rows
    assert (row.kind.name, np.flatnonzero(row.most).tolist(), row.whose[7]) == (name, [7], 2)
    assert (row.most[7], row.mean[7]) == (pytest.approx(0.2), pytest.approx(0.05))
    assert not drawn.counted


def test_a_pause_that_lies_in_another_of_its_kind_counts_once(run: pd.DataFrame, found: Findings) -> None:
    twice = paused(paused(run, "IMPORT", 2, 7, ms=7.3), "IMPORT", 2, 7, ms=3.0)
    (row,) = causes_of(found, twice).rows
    assert row.most[7] == pytest.approx(0.2)


def test_a_cell_of_several_steps_has_their_time_together(
    run: pd.DataFrame, found: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_heatmap_grid, "MAX_COLUMNS", N_STEPS // 2)
    (row,) = causes_of(found, paused(run, "GC", rank=0, iteration=9, ms=7.3)).rows
    assert (len(row.mean), np.flatnonzero(row.mean).tolist()) == (N_STEPS // 2, [4])
    assert row.mean[4] == pytest.approx(0.1 / N_RANKS)


def test_the_causes_with_most_time_are_shown_and_the_others_are_named(
    run: pd.DataFrame, found: Findings
) -> None:
    for place, operation in enumerate(["GC", "COMPILE", "GRAPH_CAPTURE", "IMPORT"]):
        run = paused(run, operation, rank=0, iteration=3, ms=2.0 + place)
    host = host_of(run, 3.0, main_run_queue_wait_us=[[9e5]], throttled_us=[[8e5]])
    drawn = causes_of(found, run, host)
    assert [row.kind.name for row in drawn.rows] == [
        "Processor wait", "CPU quota", "Imports", "Graph capture", "Compiling",
    ]  # fmt: skip
    assert len(drawn.rows) == MOST_CAUSES
    assert drawn.left_out == ["Collector"]
    assert [line[0] for line in drawn.table.rows][-1] == "Collector"


def test_what_took_next_to_nothing_of_every_step_is_not_shown(run: pd.DataFrame, found: Findings) -> None:
    def names(share: float) -> list[str]:
        host = host_of(run, 3.0, main_run_queue_wait_us=np.full((4, 1), 3e6 * share))
        return [row.kind.name for row in causes_in(found, host).rows]

    assert names(0.9 * LEAST_SHARE) == []
    assert names(1.1 * LEAST_SHARE) == ["Processor wait"]


def test_the_page_has_the_shares_and_whose_they_are(collected: CausesStrip) -> None:
    data: Any = collected.data
    (cause,) = data["causes"]
    assert unpacked(cause["most"])[7] == 2000
    assert unpacked(cause["mean"])[7] == 500
    assert data["processes"][unpacked(cause["whose"])[7]] == "rank 2"


def test_the_table_says_how_much_it_was_and_where_most(collected: CausesStrip) -> None:
    assert collected.table.rows == [["Collector", "0.1%", "iteration 7", "rank 2", "20.0%"]]


def test_each_kind_of_cause_has_its_own_name() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def with_cause(found: Findings, name: str, counter: str) -> Findings:
    """The findings of a run of which the verdict names a cause."""
    figures = [nan := float("nan"), nan, nan, nan, nan, nan, 1, nan, nan, nan]
    cause = Cause(name, counter, (1,), "coincides", True, 5, 5, 9, 0, *figures)  # type: ignore[arg-type]
    return replace(found, verdict=replace(found.verdict, cause=cause))


def test_the_cause_that_the_verdict_names_comes_first_and_is_marked(
    run: pd.DataFrame, found: Findings
) -> None:
    host = host_of(run, 3.0, main_run_queue_wait_us=[[9e5]], throttled_us=[[8e5]])
    for given, first, named in ((found, "Processor wait", []), (
        with_cause(found, "cpu-quota", "throttled_us"), "CPU quota", ["CPU quota"],
    )):  # fmt: skip
        drawn = host_parts(given, heatmap(given).grid, host_tables(host)).causes
        data: Any = drawn.data
        assert drawn.rows[0].kind.name == first
        assert drawn.named == bool(named)
        assert [cause["name"] for cause in data["causes"] if cause["named"]] == named


def test_what_is_counted_for_a_cause_is_what_verdicts_take_for_it() -> None:
    taken = {cause.name: {counter.name for counter in cause.counters} for cause in CAUSES}
    assert {kind.cause for kind in COUNTED if not set(kind.counters) <= taken[kind.cause]} == set()


def test_a_quota_that_stops_several_processors_at_once_takes_no_more_than_the_step(
    run: pd.DataFrame, found: Findings
) -> None:
    (row,) = causes_in(found, host_of(run, 3.0, throttled_us=[[9e6]])).rows  # of three of them
    assert set(row.most.tolist()) == {1.0}

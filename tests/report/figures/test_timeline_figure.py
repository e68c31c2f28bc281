"""The figure of a few iterations has each of their rows, where it was, by rank and thread."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from crowds import crowd
from drawn_figures import bars_of, lanes_from_top, said_instead, title_of
from simulated_runs import data_parallel, factors

from timing_logger.analysis import account_of_step
from timing_logger.report.figures import _timeline, timeline_figure

pytest.importorskip("plotly")


def of(timings: pd.DataFrame, first: int, last: int) -> pd.DataFrame:
    return timings[timings["iteration"].between(first, last)]


def test_each_row_of_the_iterations_is_a_bar_as_long_as_it_took(timings: pd.DataFrame) -> None:
    bars, rows = bars_of(timeline_figure(timings, 3, 5)), of(timings, 3, 5)
    ms = 1e3 * (rows["end_s"] - rows["start_s"])
    assert sorted(bars["length"]) == pytest.approx(sorted(ms))
    begins_ms = 1e3 * (rows["start_s"] - rows["start_s"].min())
    assert sorted(bars["base"]) == pytest.approx(sorted(begins_ms), abs=1e-3)


def test_by_default_they_are_those_around_a_typical_step(timings: pd.DataFrame) -> None:
    (typical,) = account_of_step(timings)["iteration"].unique()
    figure = timeline_figure(timings)
    assert f"iterations {typical - 1} to {typical + 1}" in title_of(figure)
    assert len(bars_of(figure)) == len(of(timings, typical - 1, typical + 1))


def test_one_end_alone_is_one_iteration(timings: pd.DataFrame) -> None:
    for figure in (timeline_figure(timings, 7), timeline_figure(timings, last_iteration=7)):
        assert len(bars_of(figure)) == len(of(timings, 7, 7))
        assert "iteration 7:" in title_of(figure)


def test_lanes_are_ranks_with_their_threads_the_first_at_the_top(timings: pd.DataFrame) -> None:
    lanes = lanes_from_top(timeline_figure(timings, 3))
    assert lanes[:3] == ["rank 0, AllReducer", "rank 0, MainThread", "rank 1, AllReducer"]
    assert len(lanes) == 8
    one_thread = data_parallel(factors(3, 2))
    assert lanes_from_top(timeline_figure(one_thread, 1)) == ["rank 0", "rank 1"]


def test_a_bar_says_what_it_is(timings: pd.DataFrame) -> None:
    bars = bars_of(timeline_figure(timings, 3))
    its = of(timings, 3, 3)
    data = its[(its["operation"] == "DATA") & (its["rank"] == 2)].iloc[0]
    says = [text for text in bars["says"] if text.startswith("rank 2, MainThread, iteration 3:<br>DATA")]
    assert len(says) == 1
    assert says[0].endswith(f" {1e3 * (data['end_s'] - data['start_s']):.3f} ms")


def test_waiting_is_hatched_and_lies_over_what_it_overlaps(timings: pd.DataFrame) -> None:
    traces = timeline_figure(timings, 3).data
    assert [trace.name for trace in traces] == ["own work", "communication", "waiting"]
    assert [trace.marker.pattern.shape for trace in traces] == [None, None, "/"]
    assert [trace.width for trace in traces] == sorted((trace.width for trace in traces), reverse=True)


def test_clocks_that_do_not_agree_are_not_put_on_one_axis() -> None:
    timings = data_parallel(factors(6, 2))  # whose clocks are 1000 s apart
    figure = timeline_figure(timings, 2, 3)
    bars = bars_of(figure)
    assert bars.groupby("lane")["base"].min().tolist() == [0.0, 0.0]
    assert "The clocks are not known to agree" in title_of(figure)
    assert bars["base"].max() < 1000


def test_of_too_many_rows_the_longest_are_drawn(
    timings: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = of(timings, 3, 5)
    monkeypatch.setattr(_timeline, "MAX_BARS", 10)
    figure = timeline_figure(timings, 3, 5)
    longest = (1e3 * (rows["end_s"] - rows["start_s"])).nlargest(10)
    assert sorted(bars_of(figure)["length"]) == pytest.approx(sorted(longest))
    assert f"The {len(rows) - 10} shortest rows are left out" in title_of(figure)


def test_where_iterations_restart_the_last_epoch_is_drawn() -> None:
    once = data_parallel(factors(6, 2))
    later = once.assign(epoch=1, **{name: once[name] + 50.0 for name in ("start_counter", "end_counter")})
    twice = pd.concat([once.assign(epoch=0), later], ignore_index=True)
    figure = timeline_figure(twice, 2)
    assert "of epoch 1" in title_of(figure)
    assert len(bars_of(figure)) == len(of(once, 2, 2))


def test_iterations_that_there_are_not_are_named(timings: pd.DataFrame) -> None:
    assert said_instead(timeline_figure(timings, 800, 801)).startswith("no row of iterations 800 to 801")


def test_of_many_ranks_a_range_that_is_asked_for_shows_few() -> None:
    figure: Any = timeline_figure(crowd(80, 6), 2, 3)
    assert "rank 77" in lanes_from_top(figure)
    assert "Of 80 ranks 4 are drawn" in title_of(figure)
    assert {text.split("iteration ")[1][0] for text in bars_of(figure)["says"]} == {"2", "3"}

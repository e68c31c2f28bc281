"""The figure of a step has the stretches of ``account_of_step``, and says for whom ranks waited."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest
from crowds import crowd
from drawn_figures import bars_of, lanes_from_top, said_instead, title_of
from simulated_runs import data_parallel, factors

from timing_logger.analysis import account_of_step
from timing_logger.report.figures import step_figure

pytest.importorskip("plotly")


@pytest.fixture(scope="module")
def figure(timings: pd.DataFrame) -> Any:
    return step_figure(timings)


def test_the_bars_of_a_rank_are_as_long_as_its_stretches_of_each_kind(
    timings: pd.DataFrame, figure: Any
) -> None:
    stretches, bars = account_of_step(timings), bars_of(figure)
    for rank, its in stretches.groupby("rank"):
        drawn = bars[bars["lane"] == f"rank {rank}"]
        ms = (its["end_ms"] - its["start_ms"]).groupby(its["what"]).sum()
        waits = drawn["name"].str.startswith("waiting")
        assert drawn.loc[waits, "length"].sum() == pytest.approx(ms["waiting"])
        assert drawn.loc[drawn["name"] == "transfer", "length"].sum() == pytest.approx(ms["transfer"])
        assert drawn["length"].sum() == pytest.approx(ms.sum())


def test_the_bars_of_a_rank_follow_each_other_without_a_gap(figure: Any) -> None:
    for _, its in bars_of(figure).groupby("lane"):
        its = its.sort_values("base")
        ends = (its["base"] + its["length"]).tolist()
        assert ends[:-1] == pytest.approx(its["base"].tolist()[1:], abs=1e-6)


def test_waiting_says_for_whom_and_how_long(timings: pd.DataFrame, figure: Any) -> None:
    bars = bars_of(figure)
    longest = bars[bars["name"] == "waiting for rank 2"].sort_values("length").iloc[-1]
    assert longest["says"] == f"{longest['lane']} waited {longest['length']:.1f} ms for rank 2 in WAIT"
    table = account_of_step(timings)
    of_rank_2 = table[table["waited_for"] == 2]
    assert longest["length"] == pytest.approx((of_rank_2["end_ms"] - of_rank_2["start_ms"]).max())


def test_only_waiting_is_hatched(figure: Any) -> None:
    hatched = {trace.name for trace in figure.data if trace.marker.pattern.shape == "/"}
    assert hatched == {trace.name for trace in figure.data if trace.name.startswith("waiting")}
    assert hatched


def test_rank_0_is_at_the_top(figure: Any) -> None:
    assert lanes_from_top(figure) == ["rank 0", "rank 1", "rank 2", "rank 3"]


def test_the_title_names_the_step_and_the_notes_who_waited_for_whom(
    timings: pd.DataFrame, figure: Any
) -> None:
    (iteration,) = account_of_step(timings)["iteration"].unique()
    assert f"iteration {iteration}" in title_of(figure)
    assert re.search(r"Ranks 0, 1 and 3 waited .* for rank 2", title_of(figure))


def test_another_step_is_drawn_if_it_is_asked_for(timings: pd.DataFrame) -> None:
    figure, table = step_figure(timings, 5), account_of_step(timings, 5)
    assert "iteration 5" in title_of(figure)
    assert "typical" not in title_of(figure)
    assert bars_of(figure)["length"].sum() == pytest.approx((table["end_ms"] - table["start_ms"]).sum())


def test_a_step_that_there_is_not_is_named(timings: pd.DataFrame) -> None:
    assert said_instead(step_figure(timings, 999)).startswith("no iteration 999")


def test_of_many_ranks_the_slow_one_has_a_lane() -> None:
    lanes = lanes_from_top(step_figure(crowd(80, 6)))
    assert "rank 77" in lanes
    assert len(lanes) == 4


def test_operations_that_share_a_colour_are_told_apart() -> None:
    usual_ms = {"FIRST": 1.0, "SECOND": 2.0, "FORWARD": 10.0, "BACKWARD": 20.0, "MORE": 15.0, "LAST": 3.0}
    bars = bars_of(step_figure(data_parallel(factors(6, 2), operations_ms=usual_ms)))
    shared = bars[(bars["name"] == "other own work") & (bars["lane"] == "rank 0")]
    assert {"rank 0 worked 1.0 ms in FIRST", "rank 0 worked 2.0 ms in SECOND"} < set(shared["says"])

"""The figure of operations has the totals of ``analysis.summarize``, rank by rank."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from crowds import crowd
from drawn_figures import title_of

from timing_logger.analysis import summarize
from timing_logger.report.figures import operations_figure
from timing_logger.report.figures._colours import COMMUNICATION, WAITING, WORK

pytest.importorskip("plotly")


@pytest.fixture(scope="module")
def figure(timings: pd.DataFrame) -> Any:
    return operations_figure(timings)


def test_a_rank_has_a_bar_of_the_total_of_each_operation(timings: pd.DataFrame, figure: Any) -> None:
    totals = summarize(timings)
    assert [trace.name for trace in figure.data] == [f"rank {rank}" for rank in range(4)]
    for rank, trace in enumerate(figure.data):
        its = totals[totals["rank"] == rank].set_index("operation")["total_ms"]
        assert dict(zip(trace.x, trace.y, strict=True)) == pytest.approx((its / 1e3).to_dict())


def test_the_operation_with_most_time_comes_first_and_is_in_the_title(
    timings: pd.DataFrame, figure: Any
) -> None:
    first = summarize(timings)["operation"].iloc[0]
    assert figure.data[0].x[0] == first
    assert f"most in {first}" in title_of(figure)


def test_a_bar_has_the_colour_of_its_kind_of_operation(figure: Any) -> None:
    colours = dict(zip(figure.data[0].x, figure.data[0].marker.color, strict=True))
    assert (colours["FORWARD"], colours["ALLREDUCE"], colours["WAIT"]) == (WORK, COMMUNICATION, WAITING)


def test_a_bar_says_its_rank_and_how_many_rows(timings: pd.DataFrame, figure: Any) -> None:
    totals = summarize(timings)
    (its,) = totals[(totals["rank"] == 2) & (totals["operation"] == "DATA")].to_dict("records")
    says = dict(zip(figure.data[2].x, figure.data[2].hovertext, strict=True))["DATA"]
    assert says == (
        f"rank 2: DATA {its['total_ms'] / 1e3:.3f} s in {its['count']} rows, median {its['p50_ms']:.3f} ms"
    )


def test_of_many_ranks_a_line_marks_the_median_of_all() -> None:
    timings = crowd(80, 6)
    *bars, medians = operations_figure(timings).data
    assert len(bars) == 16
    assert "rank 77" in [bar.name for bar in bars]
    expected = summarize(timings).groupby("operation")["total_ms"].median() / 1e3
    assert dict(zip(medians.x, medians.y, strict=True)) == pytest.approx(expected.to_dict())


def test_operations_beyond_the_first_24_are_counted() -> None:
    timings = crowd(2, 30, slow=None)
    own = timings["operation"] == "FORWARD"
    timings.loc[own, "operation"] = "PART" + timings.loc[own, "iteration"].astype(str)
    figure = operations_figure(timings)
    assert len(figure.data[0].x) == 24
    assert f"{30 + 4 - 24} operations with less time are left out" in title_of(figure)


def test_bars_are_numbered_where_they_have_room(figure: Any) -> None:
    assert [trace.text[0] for trace in figure.data] == ["0", "1", "2", "3"]
    assert all(trace.text is None for trace in operations_figure(crowd(9, 6, slow=None)).data)


def test_the_notes_tell_how_far_ranks_are_apart(timings: pd.DataFrame, figure: Any) -> None:
    totals = summarize(timings)
    its = totals[totals["operation"] == totals["operation"].iloc[0]].set_index("rank")["total_ms"] / 1e3
    told = f"{its.min():.2f} s on rank {its.idxmin()} to {its.max():.2f} s on rank {its.idxmax()}."
    assert told in title_of(figure)

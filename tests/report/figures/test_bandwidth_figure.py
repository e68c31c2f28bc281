"""The figure of bandwidths has a mark for each that ``analysis.bandwidth`` knows, on logarithmic axes."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from drawn_figures import title_of

from timing_logger.analysis import bandwidth
from timing_logger.report import _limits
from timing_logger.report.figures import _bandwidth, bandwidth_figure

pytest.importorskip("plotly")


@pytest.fixture(scope="module")
def figure(timings: pd.DataFrame) -> Any:
    return bandwidth_figure(timings)


def marks_of(figure: Any, *, hollow: bool) -> list[tuple[float, float]]:
    traces = [trace for trace in figure.data if trace.mode == "markers"]
    its = [trace for trace in traces if trace.marker.symbol.endswith("-open") == hollow]
    return sorted(pair for trace in its for pair in zip(trace.x, trace.y, strict=True))


@pytest.mark.parametrize(("hollow", "column"), [(True, "busbw_gb_per_s"), (False, "transfer_busbw_gb_per_s")])
def test_marks_are_the_bandwidths_by_either_time(
    timings: pd.DataFrame, figure: Any, hollow: bool, column: str
) -> None:
    table = bandwidth(timings).dropna(subset=[column, "message_size_bytes"])
    expected = sorted(zip(table["message_size_bytes"], table[column], strict=True))
    assert len(expected) >= 4
    assert marks_of(figure, hollow=hollow) == [pytest.approx(pair) for pair in expected]


def test_both_axes_are_logarithmic(figure: Any) -> None:
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")


def test_the_line_joins_the_fastest_of_each_class_of_sizes(timings: pd.DataFrame, figure: Any) -> None:
    table = bandwidth(timings)
    fastest = table[["busbw_gb_per_s", "transfer_busbw_gb_per_s"]].max(axis=1)
    expected = fastest[table["message_size_bytes"] > 0].groupby(table["size_class_bytes"]).max().dropna()
    (line,) = [trace for trace in figure.data if trace.mode == "lines"]
    assert list(line.x) == sorted(line.x)
    assert sorted(line.y) == pytest.approx(sorted(expected))


def test_a_mark_says_its_size_group_and_how_many_rows(figure: Any) -> None:
    says = [text for trace in figure.data if trace.mode == "markers" for text in trace.hovertext]
    assert any("287 kB in MPI_COMM_WORLD/optimizer" in text and text.endswith("4 rows") for text in says)


def test_the_title_names_the_fastest(timings: pd.DataFrame, figure: Any) -> None:
    most = bandwidth(timings)["transfer_busbw_gb_per_s"].max()
    assert f"at most {most:.2f} GB/s" in title_of(figure)


def test_of_many_marks_the_slowest_and_the_fastest_are_drawn(
    timings: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _bandwidth.POINTS_OF_MANY == _limits.POINTS_OF_MANY
    monkeypatch.setattr(_bandwidth, "POINTS_OF_MANY", 4)
    figure = bandwidth_figure(timings)
    every = sorted(y for hollow in (True, False) for _, y in marks_of(bandwidth_all(timings), hollow=hollow))
    drawn = sorted(y for hollow in (True, False) for _, y in marks_of(figure, hollow=hollow))
    assert drawn == pytest.approx([*every[:2], *every[-2:]])
    assert f"Of {len(every)} marks these are the 2 slowest" in title_of(figure)


def bandwidth_all(timings: pd.DataFrame) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_bandwidth, "POINTS_OF_MANY", 1000)
        return bandwidth_figure(timings)

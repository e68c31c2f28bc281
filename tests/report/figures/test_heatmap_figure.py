"""The figure of rank by iteration has the times that the verdict compares, and those of the page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from crowds import crowd
from drawn_figures import title_of
from simulated_runs import data_parallel, factors

from timing_logger.analysis import scores
from timing_logger.report.figures import heatmap_figure
from timing_logger.report.html import _heatmap_grid
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._heatmap import heatmap

pytest.importorskip("plotly")


@pytest.fixture(scope="module")
def figure(timings: pd.DataFrame) -> Any:
    return heatmap_figure(timings)


@pytest.fixture(scope="module")
def drawn(figure: Any) -> Any:
    (trace,) = figure.data
    return trace


def test_the_cells_are_those_of_the_page(timings: pd.DataFrame, drawn: Any) -> None:
    view = heatmap(Findings.of(timings)).views[0]
    assert view.name.startswith("Own time")
    assert np.asarray(drawn.z, float) == pytest.approx(view.ms.reshape(4, -1), nan_ok=True)


def test_the_median_of_a_row_is_that_of_the_scores(timings: pd.DataFrame, drawn: Any) -> None:
    table = scores(timings)
    expected = table[table["operation"] == "SELF_TIME"].sort_values("rank")["median_ms"]
    assert np.nanmedian(np.asarray(drawn.z, float), axis=1) == pytest.approx(expected.to_numpy())


def test_columns_are_iterations_and_rank_0_is_at_the_top(
    timings: pd.DataFrame, figure: Any, drawn: Any
) -> None:
    assert list(drawn.x) == sorted(timings["iteration"].dropna().unique())
    assert list(drawn.y) == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert figure.layout.yaxis.autorange == "reversed"


def test_the_title_says_whom_the_verdict_names(figure: Any) -> None:
    assert "the verdict names rank 2" in title_of(figure)
    assert "no rank is named" in title_of(heatmap_figure(crowd(4, 20, slow=None)))


def test_one_hiccup_does_not_make_all_else_look_alike() -> None:
    factor = factors(200, 4, noise=0.02)
    factor[7, 1] *= 50
    timings = data_parallel(factor)
    (trace,) = heatmap_figure(timings).data
    assert np.nanmax(np.asarray(trace.z, float)) > 1000
    assert trace.zmax < 100


def test_of_many_ranks_the_worst_have_a_row_and_bands_stand_for_the_others() -> None:
    figure = heatmap_figure(crowd(80, 6))
    (trace,) = figure.data
    assert trace.y[0] == "rank 77"
    assert sum(name.startswith("rank ") for name in trace.y) == 64
    assert list(trace.y[-5:]) == ["longest", "90th percentile", "median", "10th percentile", "shortest"]
    assert "Of 80 ranks the worst 64 have a row each. The other 16" in title_of(figure)


def test_where_iterations_restart_a_column_is_named_with_its_epoch() -> None:
    once = crowd(2, 20, slow=None)
    later = once.assign(epoch=1, **{name: once[name] + 1000.0 for name in ("start_counter", "end_counter")})
    twice = pd.concat([once.assign(epoch=0), later], ignore_index=True)
    (trace,) = heatmap_figure(twice).data
    assert [trace.x[0], trace.x[20]] == ["0 of epoch 0", "0 of epoch 1"]
    assert len(trace.x) == 40


def test_of_very_many_iterations_a_column_is_the_mean_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_heatmap_grid, "MAX_COLUMNS", 50)
    figure = heatmap_figure(crowd(2, 101, slow=None))
    assert np.asarray(figure.data[0].z).shape == (2, 50)
    assert "A column is the mean of up to 3 iterations" in title_of(figure)

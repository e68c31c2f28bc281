"""What holds for every figure: either library, none of many, many ranks, names from the data, no plotly."""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from crowds import crowd
from drawn_figures import said_instead, title_of
from places import SAMPLE
from processes import run_warm
from rank_tables import as_polars
from simulated_runs import data_parallel, factors
from slow import slow

from timing_logger import read_timings
from timing_logger.errors import ConfigurationError
from timing_logger.report import figures

pytest.importorskip("plotly", reason="plotly is not installed (pip install 'timing_logger[figures]')")

N_RANKS = 80
EACH = [pytest.param(getattr(figures, name), id=name) for name in figures.__all__]
OF_FEW_RANKS = [
    one for one in EACH if one.id not in ("heatmap_figure", "compression_figure", "bandwidth_figure")
]
OF_ROWS = {"heatmap_figure", "timeline_figure"}
SHOWS_OWN_WORK = {"account_figure", "step_figure", "operations_figure", "timeline_figure"}
Drawn = Callable[..., Any]


@pytest.fixture(scope="module")
def sample() -> pd.DataFrame:
    timings = read_timings(SAMPLE)
    timings.attrs = {}  # a table of polars has none
    return timings


@pytest.fixture(scope="module")
def of_sample(sample: pd.DataFrame) -> Drawn:
    """What a function draws of the sample."""
    return functools.cache(lambda draw: draw(sample))


@pytest.fixture(scope="module")
def many() -> pd.DataFrame:
    return crowd(N_RANKS, 6)


def test_there_is_one_for_each_section_of_the_page() -> None:
    assert len(figures.__all__) == 8


@pytest.mark.parametrize(
    "draw",
    [
        one
        if one.id in OF_ROWS
        else slow(*one.values, "draws what an analysis returns, which is tested with polars", id=one.id)
        for one in EACH
    ],
)
def test_polars_gives_what_pandas_gives(draw: Drawn, of_sample: Drawn, sample: pd.DataFrame) -> None:
    pytest.importorskip("polars")
    assert draw(as_polars(sample)).to_json() == of_sample(draw).to_json()


@pytest.mark.parametrize("draw", EACH)
def test_an_empty_table_gives_a_figure_that_says_so(draw: Drawn, sample: pd.DataFrame) -> None:
    figure = draw(sample.iloc[:0])
    assert said_instead(figure).startswith("no ")
    assert title_of(figure)


@pytest.mark.parametrize("draw", [one for one in EACH if one.id != "compression_figure"])
def test_a_figure_says_what_is_seen_and_in_which_unit(draw: Drawn, of_sample: Drawn) -> None:
    figure = of_sample(draw)
    assert re.search(r"\d", title_of(figure))
    axes = [figure.layout.xaxis.title.text, figure.layout.yaxis.title.text]
    scales = [trace.colorbar.title.text for trace in figure.data if trace.type == "heatmap"]
    assert any(re.search(r", (in )?(ms|s|%|bytes)$", words) for words in [*axes, *scales])


@pytest.mark.parametrize("draw", OF_FEW_RANKS)
def test_of_many_ranks_few_are_drawn_and_the_rest_are_counted(draw: Drawn, many: pd.DataFrame) -> None:
    figure = draw(many)
    says = [text for trace in figure.data for text in trace.hovertext]
    drawn = {found[1] for text in says if (found := re.match(r"rank (\d+)", text))}
    assert 1 <= len(drawn) <= 16
    assert "77" in drawn or draw is figures.overlap_figure  # the slow one has least exposed communication
    assert re.search(f"Of {N_RANKS} ranks (these are the )?{len(drawn)} ", title_of(figure))
    assert f" {N_RANKS - len(drawn)} " in title_of(figure)


@pytest.mark.parametrize("draw", [one for one in EACH if one.id in SHOWS_OWN_WORK])
def test_names_in_the_data_are_text_and_no_tags(draw: Drawn) -> None:
    timings = data_parallel(factors(6, 2))
    bad = "<b>%{x}</b>"
    timings = timings.assign(operation=timings["operation"].replace({"FORWARD": bad}))
    drawn = json.dumps(json.loads(draw(timings).to_json()))
    assert "&lt;b&gt;%{x}" in drawn
    assert bad not in drawn


def test_without_plotly_the_error_says_what_to_install(
    sample: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ConfigurationError, match=r"pip install timing_logger\[figures\]"):
        figures.overlap_figure(sample)


def test_plotly_is_imported_by_the_first_figure_and_not_before() -> None:
    run = run_warm(
        """
        import sys
        assert not {"plotly", "timing_logger.report.figures"} & {*sys.modules}
        import timing_logger.report.figures
        assert "plotly" not in sys.modules
        """
    )
    assert run.returncode == 0, run.stderr

"""The figure of overlap: exposed and hidden communication are the sums of ``analysis.overlap``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from crowds import crowd
from drawn_figures import bars_of, lanes_from_top, title_of

from timing_logger.analysis import overlap
from timing_logger.report.figures import overlap_figure

pytest.importorskip("plotly")


@pytest.fixture(scope="module")
def figure(timings: pd.DataFrame) -> Any:
    return overlap_figure(timings)


@pytest.mark.parametrize(
    ("name", "column"), [("exposed", "exposed_ms"), ("hidden behind own work", "hidden_ms")]
)
def test_bars_are_sums_over_the_steps(timings: pd.DataFrame, figure: Any, name: str, column: str) -> None:
    bars = bars_of(figure)
    expected = overlap(timings).groupby("rank")[column].sum() / 1e3
    drawn = bars[bars["name"] == name].set_index("lane")["length"]
    assert drawn.to_dict() == pytest.approx({f"rank {rank}": s for rank, s in expected.items()})


def test_rank_0_is_at_the_top(figure: Any) -> None:
    assert lanes_from_top(figure) == [f"rank {rank}" for rank in range(4)]


def test_a_bar_says_its_part_of_the_communication(timings: pd.DataFrame, figure: Any) -> None:
    sums = overlap(timings).groupby("rank")[["exposed_ms", "communication_ms"]].sum()
    share = sums["exposed_ms"] / sums["communication_ms"]
    bars = bars_of(figure)
    says = bars[bars["name"] == "exposed"]["says"].tolist()
    assert all(f"{100 * share[rank]:.1f}% of its communication" in says[rank] for rank in range(4))


def test_the_title_says_how_much_is_hidden(timings: pd.DataFrame, figure: Any) -> None:
    sums = overlap(timings).groupby("rank")[["hidden_ms", "communication_ms"]].sum()
    share = np.sort(sums["hidden_ms"] / sums["communication_ms"])
    assert f"{100 * share[0]:.1f}% to {100 * share[-1]:.1f}%" in title_of(figure)


def test_what_is_not_known_is_neither_exposed_nor_hidden(timings: pd.DataFrame) -> None:
    only = timings[~timings["operation"].isin(["DATA", "FORWARD", "BACKWARD", "WAIT"])]
    only = only.assign(operation=only["operation"].replace({"ALLREDUCE": "IALLREDUCE"}))
    figure = overlap_figure(only)
    assert "not known" in title_of(figure)
    bars = bars_of(figure).groupby("name")["length"].sum()
    assert bars["not known which"] == pytest.approx(overlap(only)["communication_ms"].sum() / 1e3)
    assert bars["exposed"] == 0


def test_of_many_ranks_those_with_most_exposed_communication_are_drawn() -> None:
    timings = crowd(80, 6)
    figure = overlap_figure(timings)
    exposed_ms = overlap(timings).groupby("rank")["exposed_ms"].sum()
    expected = sorted(exposed_ms.sort_values(ascending=False, kind="stable").index[:16])
    assert lanes_from_top(figure) == [f"rank {rank}" for rank in expected]
    assert "64 are left out" in title_of(figure)

"""The figure of the account: parts of each rank that sum to 100%, as ``analysis.account`` tells them."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from crowds import crowd
from drawn_figures import bars_of, lanes_from_top, title_of

from timing_logger.analysis import account, summarize_account
from timing_logger.report.figures import account_figure

pytest.importorskip("plotly")


@pytest.fixture(scope="module")
def figure(timings: pd.DataFrame) -> Any:
    return account_figure(timings)


def test_the_parts_of_a_bar_sum_to_the_whole(figure: Any) -> None:
    sums = bars_of(figure).groupby("lane")["length"].sum()
    assert len(sums) == 5
    assert sums.tolist() == pytest.approx([100.0] * 5, abs=0.02)
    assert figure.layout.barmode == "stack"


def test_the_parts_are_those_of_the_account(timings: pd.DataFrame, figure: Any) -> None:
    bars, ranks = bars_of(figure), summarize_account(account(timings)).set_index("rank")
    for rank, its in ranks.iterrows():
        drawn = bars[bars["lane"] == f"rank {rank}"]
        waits = drawn["name"].str.startswith("waiting")
        shares = 100 * its / its["wall_ms"]
        assert drawn.loc[waits, "length"].sum() == pytest.approx(shares["waiting_ms"], abs=0.02)
        assert drawn.loc[drawn["name"] == "transfer", "length"].sum() == pytest.approx(
            shares["transfer_ms"], abs=0.02
        )


def test_own_work_is_told_by_operation_with_its_time(timings: pd.DataFrame, figure: Any) -> None:
    bars, table = bars_of(figure), account(timings)
    (its,) = table[(table["rank"] == 2) & (table["operation"] == "DATA")].to_dict("records")
    (drawn,) = bars[(bars["lane"] == "rank 2") & (bars["name"] == "DATA")].to_dict("records")
    assert drawn["length"] == pytest.approx(100 * its["share"], abs=0.001)
    assert drawn["says"] == f"rank 2: DATA {100 * its['share']:.1f}%, {its['ms']:.1f} ms"


def test_ranks_come_from_the_top_and_all_of_them_last(figure: Any) -> None:
    assert lanes_from_top(figure) == ["rank 0", "rank 1", "rank 2", "rank 3", "all ranks"]


def test_the_title_says_for_whom_ranks_waited_most(figure: Any) -> None:
    assert "waiting, most of it for rank 2" in title_of(figure)


def test_of_many_ranks_the_others_have_one_bar_together() -> None:
    figure = account_figure(crowd(80, 6))
    lanes = lanes_from_top(figure)
    assert "rank 77" in lanes
    alone = [lane for lane in lanes if lane.startswith("rank ")]
    assert lanes[len(alone) :] == [f"the other {80 - len(alone)}", "all ranks"]
    assert f"Of 80 ranks {len(alone)} have a bar each" in title_of(figure)
    assert bars_of(figure).groupby("lane")["length"].sum().tolist() == pytest.approx(
        [100.0] * len(lanes), abs=0.02
    )

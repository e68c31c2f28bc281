"""The chart of the runs of a comparison: each is a point, as high as its place, with what is known of it."""

from __future__ import annotations

from typing import Any

import pytest
from compared_runs import comparison, noisy, summary

from timing_logger.report.html import _comparison_charts as _runs
from timing_logger.report.html._comparison_charts import RunsChart, runs_chart
from timing_logger.results.comparison import Side
from timing_logger.results.run_summary import RunSummary, SummarizedVerdict


def chart(here: list[RunSummary], against: list[RunSummary], **options: Any) -> RunsChart:
    sides = {"here": Side(here, len(here)), "against": Side(against, len(against))}
    return runs_chart(comparison(**sides, **options), ("after", "before"))


def test_each_side_has_a_lane_of_its_own_and_runs_descend_in_it() -> None:
    found = chart(noisy(5, 0.01, 1), noisy(3, 0.01, 2))
    assert [side.name for side in found.sides] == ["after", "before"]
    assert [(side.top, side.bottom) for side in found.sides] == [(16.0, 116.0), (116.0, 216.0)]
    assert found.height == 238.0
    after, before = ([point.y - side.top for point in side.points] for side in found.sides)
    assert after == [20.0, 40.0, 60.0, 80.0, 20.0]
    assert before == [20.0, 40.0, 60.0]
    assert found.pairs == []
    assert found.note == ""


def test_longer_runs_are_farther_to_the_right_and_the_mean_is_between_them() -> None:
    runs = [summary(1.0), summary(2.0)]
    after, before = chart(runs, [summary(1.0)], step={"ms": 150.0, "against_ms": 100.0}).sides
    (short, long), (other,) = after.points, before.points
    assert short.x == other.x == before.mean < after.mean < long.x


def test_runs_that_belong_together_are_paired_in_their_order() -> None:
    found = chart(noisy(3, 0.01, 1), noisy(3, 0.01, 2), paired=True)
    assert found.pairs == list(zip(found.sides[0].points, found.sides[1].points, strict=True))
    assert len(found.pairs) == 3


def test_of_many_runs_the_newest_are_drawn_and_the_table_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runs, "MOST_POINTS", 2)
    runs = [summary(run_id=str(at)) for at in range(4)]
    found = chart(runs, runs[:3])
    assert [point.says.rpartition(" ")[2] for point in found.sides[0].points] == ["2", "3"]
    assert found.note == "3 older runs are not drawn; the table has all."
    assert [row[0] for row in found.table.rows] == ["after"] * 4 + ["before"] * 3


def test_a_point_says_what_is_known_of_its_run() -> None:
    known = summary(began_unix_ns=0, run_id="job\x1b7", commit="a" * 40)
    after, before = chart([known], [summary()]).sides
    assert after.points[0].says == (
        rf"100.000 ms a step, recorded 1970-01-01 00:00:00 UTC, run job\u001b7, commit {'a' * 12}"
    )
    assert before.points[0].says == "100.000 ms a step"


def test_the_table_has_a_row_for_each_run_and_says_what_is_not_known() -> None:
    known = summary(
        began_unix_ns=0, run_id="7", commit="a" * 40, hosts=["x", "y"], n_steps=2000, n_lost=1500,
        verdict=SummarizedVerdict("straggler", True, [1, 3], "load", 5.0),
    )  # fmt: skip
    first, second = chart([known], [summary()]).table.rows
    assert first == [
        "after", "1970-01-01 00:00:00 UTC", "7", "a" * 12, "x, y", "2", "2,000", "100.000", "100.000",
        "straggler 1, 3", "1,500",
    ]  # fmt: skip
    assert second == ["before", "-", "-", "-", "-", "2", "90", "100.000", "100.000", "-", "0"]


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (SummarizedVerdict("healthy", True, [], "", 0.0), "healthy"),
        (SummarizedVerdict("healthy", False, [], "", 0.0), "-"),
        (SummarizedVerdict("straggler", True, [0], "", 0.0), "straggler 0"),
    ],
)  # fmt: skip
def test_who_is_slow_is_told_of_a_run_that_could_be_judged(verdict: SummarizedVerdict, text: str) -> None:
    assert chart([summary(verdict=verdict)], [summary()]).table.rows[0][9] == text

"""The chart of one step: lanes are the account of the step, and lines lead to whom ranks waited for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browser import OpenPage
from simulated_runs import data_parallel, factors

from timing_logger import analysis
from timing_logger.analysis.verdict.typical_step import shown_in_table, typical_step
from timing_logger.analysis.verdict.verdict import map_judgement, reduce_judgement
from timing_logger.report.html import report_html
from timing_logger.report.html._step import StepChart, TimeKinds, step_chart
from timing_logger.results.plain import ShownStep

SLOW = 2


@pytest.fixture(scope="module")
def timings() -> pd.DataFrame:
    factor = factors(20, 4, noise=0.02)
    factor[:, SLOW] *= 2
    return data_parallel(factor)


def pictured(timings: pd.DataFrame) -> tuple[ShownStep, StepChart]:
    """The typical step of a run, and its chart."""
    step = typical_step(reduce_judgement([map_judgement(timings)], with_blocked=True))
    assert step is not None
    shown, account = shown_in_table(step, (SLOW,), timings), analysis.account(timings)
    return shown, step_chart(shown, TimeKinds.of(account[account["is_main"]]))


@pytest.fixture(scope="module")
def of_slow_rank(timings: pd.DataFrame) -> tuple[ShownStep, StepChart]:
    return pictured(timings)


@pytest.fixture(scope="module")
def chart(of_slow_rank: tuple[ShownStep, StepChart]) -> StepChart:
    return of_slow_rank[1]


def test_a_lane_has_no_gap_and_its_parts_are_as_long_as_the_stretches(
    of_slow_rank: tuple[ShownStep, StepChart],
) -> None:
    picture, chart = of_slow_rank
    for rank, lane in zip(picture.ranks, chart.lanes, strict=True):
        for before, after in zip(lane.parts, lane.parts[1:], strict=False):
            assert before.begin + before.width == pytest.approx(after.begin, abs=0.01)
        its = picture.stretches[
            (picture.stretches["rank"] == rank) & (picture.stretches["what"] == "waiting")
        ]
        waits = [part.width for part in lane.parts if part.kind.startswith("wait")]
        expected = 100 * (its["end_ms"] - its["start_ms"]).sum() / picture.stretches["end_ms"].max()
        assert sum(waits) == pytest.approx(expected, abs=0.3)


@pytest.mark.slow("of what is too narrow to be drawn; how long the parts of a lane are is quick")
def test_the_figure_in_a_part_is_that_of_its_operation_alone(timings: pd.DataFrame) -> None:
    """What lies between two rows and is too narrow to be drawn is drawn as one of them."""
    gap_ms = 0.06
    apart = timings.assign(end_counter=timings["end_counter"] - gap_ms / 1e3)
    shown, chart = pictured(apart.assign(elapsed_ms=apart["elapsed_ms"] - gap_ms))
    its = shown.stretches
    ms = (its["end_ms"] - its["start_ms"]).groupby([its["rank"], its["operation"]]).sum()
    for rank, lane in zip(shown.ranks, chart.lanes, strict=True):
        for operation in ("FORWARD", "BACKWARD"):
            (told,) = [part.title for part in lane.parts if part.title.startswith(operation)]
            assert told == f"{operation}: {ms[rank, operation]:.1f} ms"


def test_lines_lead_from_the_ranks_that_wait_to_the_one_that_they_wait_for(chart: StepChart) -> None:
    assert len(chart.links) == 3
    assert [link.goes_up for link in chart.links] == [False, False, True]
    for link in chart.links:
        ends = link.top, link.top + link.height
        assert SLOW < (ends[0] if link.goes_up else ends[1]) < SLOW + 1


def test_a_text_stands_only_where_it_has_room(chart: StepChart) -> None:
    parts = [part for lane in chart.lanes for part in lane.parts]
    assert {part.text.split()[0] for part in parts if part.kind == "wait-0"} == {"waits"}
    assert {part.text for part in parts if part.width < 5} == {""}
    assert all(len(part.short) <= len(part.text) for part in parts)


@pytest.mark.slow("test_page.py has such names in all sections")
def test_names_in_the_data_are_escaped(timings: pd.DataFrame) -> None:
    bad = "<script>alert(1)</script>"
    page = report_html(timings.assign(operation=timings["operation"].replace({"FORWARD": bad})))
    assert bad not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.fixture(scope="module")
def page(timings: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("step") / "page.html"
    path.write_text(report_html(timings), encoding="utf-8")
    return path


@pytest.mark.slow("in a browser; what the lanes and lines are is read above")
@pytest.mark.parametrize("width", [390, 1400])
def test_the_lanes_are_one_under_the_other_and_lines_end_in_them(
    browser: Any, page: Path, width: int
) -> None:
    opened = OpenPage(browser, page, viewport={"width": width, "height": 900})
    tracks = [track.bounding_box() for track in opened.page.locator(".lane .track").all()]
    assert len({round(track["x"]) for track in tracks}) == 1
    assert [track["y"] for track in tracks] == sorted(track["y"] for track in tracks)
    slow, first = tracks[SLOW], tracks[0]
    lines = [line.bounding_box() for line in opened.page.locator(".links i").all()]
    assert len(lines) == 3
    assert all(first["x"] < line["x"] < first["x"] + first["width"] for line in lines)
    reached = [line["y"] + line["height"] if line["y"] < slow["y"] else line["y"] for line in lines]
    assert all(slow["y"] - 1 <= y <= slow["y"] + slow["height"] + 1 for y in reached)
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width
    assert opened.complaints == []
    opened.close()

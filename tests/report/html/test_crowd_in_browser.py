"""The page of many ranks in a real browser: how high it is, and what its rows and lanes lead to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browser import OpenPage
from crowds import crowd

from timing_logger.report._limits import FEW_PROCESSES, HOST_ROWS
from timing_logger.report.html import write_report

pytestmark = pytest.mark.slow(
    "in a browser; that the page works in one, test_page_in_browser.py says, and what it shows of many ranks "
    "test_crowd.py"
)

N_RANKS = 264  # on more hosts than have a row
MOST_PX = 6000
ROW_PX, HEADING_PX, FRAME_PX = 14, 26, 2


def on_one_axis(timings: pd.DataFrame) -> pd.DataFrame:
    begin_s = timings["start_counter"] - 1000.0 * timings["rank"]  # the clocks of simulated ranks lie apart
    length_s = timings["end_counter"] - timings["start_counter"]
    return timings.assign(start_s=begin_s, end_s=begin_s + length_s, clock_uncertainty_s=1e-6)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "report.html"
    write_report(on_one_axis(crowd(N_RANKS, 10)), path)
    return path


@pytest.fixture(scope="module", params=["light", "dark"])
def shown(browser: Any, many: Path, request: pytest.FixtureRequest) -> Iterator[OpenPage]:
    page = OpenPage(browser, many, color_scheme=request.param, viewport={"width": 1400, "height": 900})
    yield page
    page.close()


def middle_of_row(row: int) -> float:
    """How far below the top of the heatmap a row is; its first section is the ranks, its second the hosts."""
    headings = 1 + (row >= FEW_PROCESSES) + (row >= FEW_PROCESSES + HOST_ROWS)
    return FRAME_PX + headings * HEADING_PX + (row + 0.5) * ROW_PX


def test_the_page_of_264_ranks_is_at_most_6000_px_high_and_complains_of_nothing(shown: OpenPage) -> None:
    assert shown.page.evaluate("document.documentElement.scrollHeight") <= MOST_PX
    assert shown.complaints == []


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (0, "rank 77, iteration"),
        (FEW_PROCESSES, "mean of its other ranks, iteration"),
        (FEW_PROCESSES + HOST_ROWS, "longest of the other 200 ranks, iteration"),
        (FEW_PROCESSES + HOST_ROWS + 4, "shortest of the other 200 ranks, iteration"),
    ],
)
def test_a_cell_says_which_rank_host_or_band_it_is_of(shown: OpenPage, row: int, says: str) -> None:
    shown.page.hover("#heatmap-canvas", position={"x": 700, "y": middle_of_row(row)})
    assert says in shown.text("#tooltip")


@pytest.mark.parametrize(
    ("row", "whose"),
    [
        (0, "rank 77:"),
        (2, "all ranks and threads together:"),
        (FEW_PROCESSES, "all ranks and threads together:"),
    ],
    ids=["in the timeline", "not in the timeline", "a host"],
)
def test_a_click_on_a_cell_leads_to_its_iterations_in_the_timeline(
    shown: OpenPage, row: int, whose: str
) -> None:
    shown.page.press("#timeline-canvas", "Escape")
    assert not shown.page.is_visible("#timeline-length")
    shown.page.click("#heatmap-canvas", position={"x": 700, "y": middle_of_row(row)})
    shown.frame()
    assert whose in shown.text("#timeline-length")


def test_the_headings_of_the_heatmap_lead_nowhere(shown: OpenPage) -> None:
    of_hosts = FRAME_PX + HEADING_PX + FEW_PROCESSES * ROW_PX + HEADING_PX / 2
    shown.page.hover("#heatmap-canvas", position={"x": 700, "y": of_hosts})
    assert not shown.page.is_visible("#tooltip")

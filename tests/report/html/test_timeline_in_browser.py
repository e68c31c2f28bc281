"""The timeline of the HTML report in a real browser: searched, measured, reduced to waits, joined."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browser import OpenPage
from simulated_runs import data_parallel, factors
from small_run import HOSTILE, N_ITERATIONS, N_RANKS, TRANSFER_MS, work_ms

from timing_logger.report.html import write_report

pytestmark = pytest.mark.slow("in a browser; that the page works in one, test_page_in_browser.py says")

NAMES = 190
"""The pixels on the left of the timeline in which its lanes are named."""


def begins_ms(iteration: int) -> float:
    """When the iteration begins, from the begin of the run; all ranks at once."""
    return sum(max(work_ms(r, i) for r in range(N_RANKS)) + TRANSFER_MS for i in range(iteration))


@pytest.fixture
def opened(browser: Any, report: Path) -> Iterator[OpenPage]:
    page = OpenPage(browser, report, viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    page.page.locator("#timeline").scroll_into_view_if_needed()
    page.page.evaluate("document.getElementById('timeline').scrollIntoView()")
    yield page
    assert [words for words in page.complaints if "getImageData" not in words] == []  # that is ours
    page.close()


def x_at(opened: OpenPage, ms: float) -> float:
    """Where the instant is in the timeline that shows the whole run."""
    width = opened.page.locator("#timeline-canvas").bounding_box()["width"]
    return float(NAMES + ms / begins_ms(N_ITERATIONS) * (width - NAMES))


def pixel(opened: OpenPage, ms: float, lane: int) -> tuple[int, ...]:
    """The colour of a lane of the small run at an instant; each rank has one."""
    opened.frame()
    script = """([x, y]) => [...document.getElementById("timeline-canvas").getContext("2d")
      .getImageData(x * devicePixelRatio, y * devicePixelRatio, 1, 1).data].slice(0, 3)"""
    return tuple(opened.page.evaluate(script, [x_at(opened, ms), 22 + 26 * lane + 16]))


def shown_s(opened: OpenPage) -> str:
    opened.frame()
    return opened.text("#timeline-range")


# -- searching -----------------------------------------------------------------------------------------


def test_what_is_searched_for_stays_and_the_rest_is_dimmed(opened: OpenPage) -> None:
    works, sends = begins_ms(25) + 5, begins_ms(25) + 15
    before = [pixel(opened, works, 0), pixel(opened, sends, 0)]
    opened.page.fill("#timeline-search", "allred")
    after = [pixel(opened, works, 0), pixel(opened, sends, 0)]
    assert after[1] == before[1]
    assert sum(after[0]) > sum(before[0]) + 100
    assert opened.text("#timeline-found") == f"{N_RANKS * N_ITERATIONS} rows"
    opened.page.press("#timeline-search", "Escape")
    assert pixel(opened, works, 0) == before[0]
    assert opened.text("#timeline-found") == ""


def test_operations_and_layers_are_found_by_part_of_their_name(opened: OpenPage) -> None:
    for query, rows in (("BACK", 160), ("no such", 0), (HOSTILE[:12], 160)):
        opened.page.fill("#timeline-search", query)
        assert opened.text("#timeline-found") == f"{rows} rows"


def test_enter_goes_from_match_to_match_and_moves_the_timeline_there(opened: OpenPage) -> None:
    for _ in range(6):
        opened.page.click("[data-do=in]")
    before = shown_s(opened)
    opened.page.fill("#timeline-search", "backward")
    found = []
    for _ in range(12):
        opened.page.press("#timeline-search", "Enter")
        found.append(opened.text("#timeline-found"))
    first = int(found[0].split()[0])
    assert found == [f"{first + i} of 160 rows" for i in range(12)]
    assert shown_s(opened) != before
    opened.page.press("#timeline-search", "Shift+Enter")
    assert opened.text("#timeline-found") == f"{first + 10} of 160 rows"


def test_after_the_last_match_comes_the_first(opened: OpenPage) -> None:
    opened.page.fill("#timeline-search", "backward")
    opened.page.press("#timeline-search", "Enter")
    opened.page.press("#timeline-search", "Shift+Enter")
    assert opened.text("#timeline-found") == "160 of 160 rows"
    opened.page.press("#timeline-search", "Enter")
    assert opened.text("#timeline-found") == "1 of 160 rows"


# -- measuring -----------------------------------------------------------------------------------------


def drag(opened: OpenPage, from_ms: float, to_ms: float, lane: int = 0) -> None:
    box = opened.page.locator("#timeline-canvas").bounding_box()
    y = box["y"] + 22 + 26 * lane + 8
    opened.page.mouse.move(box["x"] + x_at(opened, from_ms), y)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + x_at(opened, to_ms), y)
    opened.page.mouse.up()


def measured(opened: OpenPage) -> dict[str, tuple[float, int]]:
    """The ms and the rows of each operation in the list."""
    lines = opened.text("#timeline-inside").splitlines()
    cells = [line.split("\t") for line in lines]
    return {name: (float(ms.split()[0]), int(rows.split()[0])) for name, ms, rows in cells}


@pytest.mark.parametrize("how", ["Shift", "Measure"])
def test_dragging_over_a_span_tells_its_length_and_what_is_inside(opened: OpenPage, how: str) -> None:
    whole = shown_s(opened)
    if how == "Shift":
        opened.page.keyboard.down("Shift")
    else:
        opened.page.click("#timeline-measure")
    begin, end = begins_ms(20), begins_ms(30)
    drag(opened, begin, end)
    opened.page.keyboard.up("Shift")
    said = opened.text("#timeline-length")
    assert float(said.split()[0]) == pytest.approx(end - begin, abs=2)
    assert said.endswith("all ranks and threads together:")
    work = sum(work_ms(r, i) for r in range(N_RANKS) for i in range(20, 30))
    inside = measured(opened)
    assert inside["BACKWARD"] == (pytest.approx(work, abs=8), pytest.approx(40, abs=4))
    assert inside["BACKWARD"][0] + inside["ALLREDUCE"][0] == pytest.approx(4 * (end - begin), abs=8)
    assert shown_s(opened) == whole


def test_m_measures_what_is_seen_and_escape_forgets_it(opened: OpenPage) -> None:
    opened.page.locator("#timeline-canvas").focus()
    opened.page.keyboard.press("m")
    work = sum(work_ms(r, i) for r in range(N_RANKS) for i in range(N_ITERATIONS))
    assert measured(opened)["BACKWARD"] == (pytest.approx(work, rel=1e-3), 160)
    opened.page.keyboard.press("Escape")
    assert not opened.page.locator("#timeline-chosen").is_visible()


def test_a_cell_of_the_heatmap_measures_its_rank_in_its_iteration(opened: OpenPage) -> None:
    opened.page.locator("#heatmap-canvas").focus()
    for key in ["ArrowRight", "ArrowDown", "ArrowDown", "ArrowRight", "Enter"]:
        opened.page.keyboard.press(key)
    assert opened.text("#timeline-length").endswith("; rank 2:")
    assert measured(opened)["BACKWARD"] == (pytest.approx(work_ms(2, 1), rel=1e-3), 1)


def test_where_clocks_do_not_agree_only_one_rank_is_measured(browser: Any, tmp_path: Path) -> None:
    write_report(data_parallel(factors(10, 3)), tmp_path / "report.html")
    opened = OpenPage(browser, tmp_path / "report.html")
    opened.page.locator("#timeline-canvas").focus()
    opened.page.keyboard.press("m")
    assert opened.text("#timeline-length").endswith("; rank 0:")
    assert measured(opened)["FORWARD"] == (pytest.approx(100), 10)
    opened.close()


# -- waiting -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose main thread waits for a thread that reduces."""
    run = data_parallel(factors(4, 2))
    reduces = run["operation"] == "ALLREDUCE"
    waits = run[reduces].assign(operation="WAIT")
    run["thread"] = np.where(reduces, "reducer", "main")
    path = tmp_path_factory.mktemp("waiting") / "report.html"
    write_report(pd.concat([run, waits], ignore_index=True), path)
    return path


def test_waits_can_be_shown_alone_and_searched(browser: Any, waiting: Path) -> None:
    opened = OpenPage(browser, waiting)
    opened.page.click("#timeline-waits")
    assert opened.page.get_attribute("#timeline-waits", "aria-pressed") == "true"
    assert opened.text("#timeline-found") == "8 rows"
    opened.page.fill("#timeline-search", "forward")
    assert opened.text("#timeline-found") == "0 rows"
    opened.page.click("#timeline-waits")
    assert opened.text("#timeline-found") == "8 rows"
    assert opened.complaints == []
    opened.close()


def test_a_run_without_waits_has_no_such_switch(opened: OpenPage) -> None:
    assert opened.page.locator("#timeline-waits").count() == 0


# -- what belongs together -----------------------------------------------------------------------------


def is_ink(opened: OpenPage, ms: float, lane: int) -> bool:
    """Whether there is a dot, darker than any bar, where the row of a lane begins."""
    opened.frame()
    script = """([x, y]) => [...document.getElementById("timeline-canvas").getContext("2d")
      .getImageData(x * devicePixelRatio, y * devicePixelRatio, 1, 1).data].slice(0, 3)"""
    y = 22 + 26 * lane + 9
    return sum(opened.page.evaluate(script, [x_at(opened, ms) + 1, y])) < 150


def test_the_other_ranks_parts_of_a_collective_are_joined_to_the_one_pointed_at(opened: OpenPage) -> None:
    begins = [begins_ms(25) + work_ms(rank, 25) for rank in range(N_RANKS)]
    assert not any(is_ink(opened, ms, lane) for lane, ms in enumerate(begins))
    box = opened.page.locator("#timeline-canvas").bounding_box()
    opened.page.mouse.move(box["x"] + x_at(opened, begins[0] + 6), box["y"] + 22 + 8)
    assert opened.text("#tooltip").endswith("one of 4 rows of this collective")
    assert all(is_ink(opened, ms, lane) for lane, ms in enumerate(begins))
    opened.page.mouse.move(box["x"] + x_at(opened, begins_ms(25) + 5), box["y"] + 22 + 8)
    assert "rows of this" not in opened.text("#tooltip")
    assert not any(is_ink(opened, ms, lane) for lane, ms in enumerate(begins))


def test_the_row_that_a_search_led_to_is_joined_to_the_others_too(opened: OpenPage) -> None:
    opened.page.fill("#timeline-search", "allreduce")
    opened.page.press("#timeline-search", "Enter")
    assert all(is_ink(opened, work_ms(rank, 0), rank) for rank in range(N_RANKS))

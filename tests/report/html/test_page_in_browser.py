"""The HTML report in a real browser: drawn, pointed at, zoomed, on small screens and dark ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import OpenPage
from page_probes import LOW_CONTRASTS
from simulated_runs import data_parallel, factors
from slow import slow
from small_run import (
    HOSTILE,
    N_ITERATIONS,
    N_RANKS,
    TRANSFER_MS,
    waiting_ms,
    work_ms,
)

from timing_logger.report.html import write_report


@pytest.fixture(scope="module")
def pointed(browser: Any, report: Path) -> Iterator[OpenPage]:
    """The page for tests that only point at it, choose a view before, or end with the whole timeline."""
    page = OpenPage(browser, report, viewport={"width": 1200, "height": 900})
    yield page
    page.close()


@pytest.fixture
def opened(browser: Any, report: Path) -> Iterator[OpenPage]:
    """The page as it is at first."""
    page = OpenPage(browser, report, viewport={"width": 1200, "height": 900})
    yield page
    page.close()


@pytest.fixture
def calm(browser: Any, report: Path) -> Iterator[OpenPage]:
    """The page for somebody who wants nothing to move by itself."""
    page = OpenPage(browser, report, viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    yield page
    page.close()


def cell_centre(opened: OpenPage, rank: int, iteration: int) -> tuple[float, float]:
    """Where on the screen the heatmap has the cell: right of 130 pixels for names, rows of 30."""
    opened.page.locator("#heatmap-canvas").scroll_into_view_if_needed()
    box = opened.page.locator("#heatmap-canvas").bounding_box()
    left, row_height = 130, 30
    column_width = (box["width"] - left) / N_ITERATIONS
    return box["x"] + left + (iteration + 0.5) * column_width, box["y"] + (rank + 0.5) * row_height


def show_view(opened: OpenPage, name: str) -> None:
    opened.page.get_by_text(name, exact=True).first.click()


def in_ms(value: float) -> str:
    return f"{float(f'{value:.4g}'):g} ms"


# -- nothing but the page ------------------------------------------------------------------------------


def test_the_page_complains_of_nothing_and_asks_for_nothing(pointed: OpenPage, report: Path) -> None:
    assert pointed.complaints == []
    assert [url for url in pointed.requests if not url.startswith("data:")] == [report.as_uri()]


def test_a_layer_whose_name_is_markup_is_shown_as_it_is(pointed: OpenPage) -> None:
    pointed.page.locator("#timeline-canvas").scroll_into_view_if_needed()
    box = pointed.page.locator("#timeline-canvas").bounding_box()
    for x in range(200, 260):
        pointed.page.mouse.move(box["x"] + x, box["y"] + 32)
        if "ALLREDUCE" in pointed.page.locator("#tooltip").text_content():
            break
    assert HOSTILE in pointed.page.locator("#tooltip").text_content()
    assert pointed.complaints == []


# -- the heatmap ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cell", [(1, 25), *(slow(cell, "another cell") for cell in ((0, 0), (2, 25), (3, 39)))]
)
def test_the_cell_under_the_pointer_says_rank_iteration_and_ms(
    pointed: OpenPage, cell: tuple[int, int]
) -> None:
    rank, iteration = cell
    show_view(pointed, "Waiting for others")
    pointed.page.mouse.move(*cell_centre(pointed, rank, iteration))
    expected = in_ms(round(waiting_ms(rank, iteration), 6))
    assert pointed.text("#tooltip") == f"rank {rank}, iteration {iteration}\nWaiting for others: {expected}"


@pytest.mark.slow("one view more; the figure of a cell is pointed at above")
def test_another_view_shows_other_figures(pointed: OpenPage) -> None:
    expected = in_ms(round(waiting_ms(0, 25), 6))
    for view, figure in [("Own work", in_ms(work_ms(0, 25))), ("Waiting for others", expected)]:
        show_view(pointed, view)
        pointed.page.mouse.move(*cell_centre(pointed, 0, 25))
        assert pointed.text("#tooltip") == f"rank 0, iteration 25\n{view}: {figure}"


@pytest.mark.slow("that these times are the first view, test_heatmap.py says; others are pointed at")
def test_the_heatmap_begins_with_the_times_that_the_verdict_compared(opened: OpenPage) -> None:
    opened.page.mouse.move(*cell_centre(opened, 2, 25))
    expected = in_ms(round(work_ms(2, 25), 6))
    assert opened.text("#tooltip") == f"rank 2, iteration 25\nOwn time (judged): {expected}"


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run whose steps take 35 ms to 70 ms of work in equal steps."""
    factor = 1 + np.arange(100) / 100
    path = tmp_path_factory.mktemp("slower") / "report.html"
    write_report(data_parallel(np.stack([factor, factor], axis=1)), path)
    return path


@pytest.mark.slow("a number of the scale; the figure of a cell is pointed at above")
@pytest.mark.parametrize(("scheme", "shade"), [("light", "darkest"), ("dark", "lightest")])
def test_the_strongest_shade_is_the_98th_percentile_and_the_scale_says_so(
    browser: Any, slower: Path, scheme: str, shade: str
) -> None:
    opened = OpenPage(browser, slower, color_scheme=scheme)
    opened.frame()
    assert opened.text("#scale-low") == "35.35 ms"
    assert opened.text("#scale-high") == f"above 68.95 ms: {shade}"
    opened.close()


@pytest.mark.slow("a rarer case of the scale; the figure of a cell is pointed at above")
def test_where_all_cells_are_alike_the_scale_is_as_wide_as_half_of_them(browser: Any, tmp_path: Path) -> None:
    write_report(data_parallel(factors(40, 2)), tmp_path / "report.html")
    opened = OpenPage(browser, tmp_path / "report.html")
    opened.frame()
    assert (opened.text("#scale-low"), opened.text("#scale-high")) == ("35 ms", "52.5 ms")
    opened.close()


@pytest.mark.slow("by keys what a pointer does; keys lead through the timeline")
def test_arrow_keys_go_from_cell_to_cell(opened: OpenPage) -> None:
    opened.page.locator("#heatmap-canvas").focus()
    for key in ["ArrowRight", "ArrowRight", "ArrowDown", "ArrowRight"]:
        opened.page.keyboard.press(key)
    assert opened.text("#tooltip").startswith("rank 1, iteration 2\n")


@pytest.mark.slow("a shade; the figure of a cell is pointed at above")
def test_a_cell_with_more_time_is_darker(pointed: OpenPage) -> None:
    show_view(pointed, "Waiting for others")

    def lightness(rank: int, iteration: int) -> float:
        x, y = cell_centre(pointed, rank, iteration)
        box = pointed.page.locator("#heatmap-canvas").bounding_box()
        script = """([x, y]) => [...document.getElementById("heatmap-canvas").getContext("2d")
          .getImageData(x * devicePixelRatio, y * devicePixelRatio, 1, 1).data].slice(0, 3)"""
        return float(sum(pointed.page.evaluate(script, [x - box["x"], y - box["y"]])))

    assert lightness(0, 25) < lightness(0, 5)
    assert lightness(0, 25) < lightness(2, 25)


def test_only_the_view_that_is_shown_is_explained(pointed: OpenPage) -> None:
    show_view(pointed, "Own work")
    pointed.frame()
    assert pointed.text(".explained").startswith("Own work\nrows that need no other rank")
    assert "Waiting for others" not in pointed.text(".explained")


def step_in_ms(iteration: int) -> tuple[float, float]:
    """When the iteration begins and ends, from the begin of the run."""
    lasted = [max(work_ms(r, i) for r in range(N_RANKS)) + TRANSFER_MS for i in range(iteration + 1)]
    return sum(lasted[:-1]), sum(lasted)


@pytest.mark.slow("a second page for one gesture; what the timeline shows of a range is quick below")
@pytest.mark.parametrize("how", ["click", "Enter"])
def test_a_cell_leads_to_its_iteration_in_the_timeline(calm: OpenPage, how: str) -> None:
    if how == "click":
        calm.page.mouse.click(*cell_centre(calm, 2, 25))
    else:
        calm.page.locator("#heatmap-canvas").focus()
        for _ in range(26):
            calm.page.keyboard.press("ArrowRight")
        calm.page.keyboard.press("Enter")
    begin, end = step_in_ms(25)
    margin = 0.1 * (end - begin)
    shown = tuple(1e3 * at for at in range_s(calm))
    assert shown == (pytest.approx(begin - margin, abs=0.5), pytest.approx(end + margin, abs=0.5))
    assert calm.page.evaluate("document.activeElement.id") == "timeline-canvas"
    assert calm.page.locator("#timeline-canvas").bounding_box()["y"] < 300


@pytest.mark.slow("by touch what a click does")
def test_a_finger_reads_a_cell_first_and_goes_to_the_timeline_with_a_second_tap(
    browser: Any, report: Path
) -> None:
    opened = OpenPage(browser, report, viewport={"width": 800, "height": 900}, has_touch=True)
    whole = range_s(opened)
    opened.page.touchscreen.tap(*cell_centre(opened, 2, 25))
    assert range_s(opened) == whole
    opened.page.touchscreen.tap(*cell_centre(opened, 2, 25))
    assert range_s(opened) != whole
    opened.close()


# -- the timeline --------------------------------------------------------------------------------------


def range_s(opened: OpenPage) -> tuple[float, float]:
    """From when to when the timeline shows, in seconds."""
    opened.frame()
    words = opened.text("#timeline-range").split()
    factors_of = {"s": 1.0, "ms": 1e-3}
    return float(words[0]) * factors_of[words[1]], float(words[3]) * factors_of[words[4]]


def test_the_timeline_begins_with_the_whole_run(pointed: OpenPage) -> None:
    total_s = sum(max(work_ms(r, i) for r in range(N_RANKS)) + TRANSFER_MS for i in range(N_ITERATIONS)) / 1e3
    assert range_s(pointed) == (0.0, pytest.approx(total_s, abs=0.01))


@pytest.mark.slow("by buttons what keys do")
def test_the_zoom_button_halves_what_is_seen_and_all_shows_it_again(pointed: OpenPage) -> None:
    whole = range_s(pointed)
    pointed.page.click("[data-do=in]")
    near = range_s(pointed)
    assert near == (pytest.approx(whole[1] / 4, abs=0.002), pytest.approx(3 * whole[1] / 4, abs=0.002))
    pointed.page.click("[data-do=all]")
    assert range_s(pointed) == whole


@pytest.mark.slow("keys zoom, too")
def test_wheel_with_ctrl_zooms_about_the_pointer_and_alone_it_scrolls(opened: OpenPage) -> None:
    opened.page.locator("#timeline-canvas").scroll_into_view_if_needed()
    whole = range_s(opened)
    box = opened.page.locator("#timeline-canvas").bounding_box()
    opened.page.mouse.move(box["x"] + 191, box["y"] + 40)
    opened.page.mouse.wheel(0, -60)
    assert range_s(opened) == whole
    opened.page.locator("#timeline-canvas").scroll_into_view_if_needed()
    box = opened.page.locator("#timeline-canvas").bounding_box()
    opened.page.mouse.move(box["x"] + 191, box["y"] + 40)
    opened.page.keyboard.down("Control")
    opened.page.mouse.wheel(0, -60)
    opened.page.keyboard.up("Control")
    begin, end = range_s(opened)
    assert begin == pytest.approx(0.0, abs=0.01)
    assert end < 0.7 * whole[1]


@pytest.mark.slow("keys move what is seen, too")
def test_dragging_moves_what_is_seen(opened: OpenPage) -> None:
    opened.page.click("[data-do=in]")
    opened.page.locator("#timeline-canvas").scroll_into_view_if_needed()
    begin, end = range_s(opened)
    box = opened.page.locator("#timeline-canvas").bounding_box()
    middle = (box["x"] + 600, box["y"] + 40)
    opened.page.mouse.move(*middle)
    opened.page.mouse.down()
    opened.page.mouse.move(middle[0] - 100, middle[1])
    opened.page.mouse.up()
    by = 100 / (box["width"] - 190) * (end - begin)
    assert range_s(opened) == (pytest.approx(begin + by, abs=0.005), pytest.approx(end + by, abs=0.005))


def test_keys_zoom_and_move_the_timeline(pointed: OpenPage) -> None:
    pointed.page.locator("#timeline-canvas").focus()
    whole = range_s(pointed)
    pointed.page.keyboard.press("+")
    near = range_s(pointed)
    pointed.page.keyboard.press("ArrowRight")
    later = range_s(pointed)
    pointed.page.click("[data-do=all]")
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 2, abs=0.005)
    assert later[0] > near[0]


def test_the_span_under_the_pointer_says_what_it_is(pointed: OpenPage) -> None:
    pointed.page.locator("#timeline-canvas").scroll_into_view_if_needed()
    box = pointed.page.locator("#timeline-canvas").bounding_box()
    total_ms = 1e3 * range_s(pointed)[1]
    x = box["x"] + 190 + work_ms(0, 0) / 2 / total_ms * (box["width"] - 190)
    pointed.page.mouse.move(x, box["y"] + 32)
    assert pointed.text("#tooltip") == f"BACKWARD, iteration 0 of epoch 0\n{in_ms(work_ms(0, 0))}, from 0 ms"


# -- screens -------------------------------------------------------------------------------------------


@pytest.fixture
def unfolded(pointed: OpenPage) -> Iterator[OpenPage]:
    """The page on a screen 320 px wide, with all tables shown; afterwards it is as before."""
    show = "for (const table of document.querySelectorAll('details')) table.open = {}"
    pointed.page.set_viewport_size({"width": 320, "height": 700})
    pointed.page.evaluate(show.format("true"))
    pointed.frame()
    yield pointed
    pointed.page.emulate_media(color_scheme="light")
    pointed.page.evaluate(show.format("false"))
    pointed.page.set_viewport_size({"width": 1200, "height": 900})
    pointed.frame()


def test_the_narrowest_screen_needs_no_scrolling_sideways(unfolded: OpenPage) -> None:
    assert unfolded.page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.slow("less narrow than 320")
@pytest.mark.parametrize("width", [375, 768])
def test_a_narrow_screen_needs_no_scrolling_sideways(browser: Any, report: Path, width: int) -> None:
    opened = OpenPage(browser, report, viewport={"width": width, "height": 700})
    opened.page.evaluate("for (const table of document.querySelectorAll('details')) table.open = true")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    opened.close()


@pytest.mark.slow("colours of the style sheet, which change seldom")
def test_every_text_has_contrast_on_light_and_dark_screens(unfolded: OpenPage) -> None:
    for scheme in ("light", "dark"):
        unfolded.page.emulate_media(color_scheme=scheme)
        assert unfolded.page.evaluate(LOW_CONTRASTS) == []


@pytest.mark.slow("colours of the style sheet, which change seldom")
def test_a_dark_screen_is_dark(browser: Any, report: Path) -> None:
    opened = OpenPage(browser, report, color_scheme="dark")
    background = opened.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert sum(int(part) for part in background[4:-1].split(",")) < 150
    opened.close()


@pytest.mark.slow("test_page.py reads both in the page, where no script has run")
def test_without_javascript_the_verdict_and_the_tables_are_there(browser: Any, report: Path) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(report.as_uri())
    assert "Rank 2 costs this run 0.30 s" in page.locator("#verdict").inner_text()
    assert page.locator("table").count() >= 5
    page.context.close()


@pytest.mark.slow("60,000 rows: the page of 264 ranks is drawn by test_crowd_in_browser.py")
def test_a_run_of_many_ranks_and_iterations_is_drawn(browser: Any, tmp_path: Path) -> None:
    write_report(data_parallel(factors(300, 200, noise=0.1)), tmp_path / "report.html")
    opened = OpenPage(browser, tmp_path / "report.html", viewport={"width": 375, "height": 700})
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 375
    opened.page.locator("#heatmap-canvas").focus()
    for _ in range(200):
        opened.page.keyboard.press("ArrowDown")
    assert opened.text("#tooltip").startswith("shortest of the other 136 ranks, iterations 0 to 1, mean\n")
    assert opened.complaints == []
    opened.close()

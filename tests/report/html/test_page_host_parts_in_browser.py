"""What hosts counted, on the page in a real browser: drawn below the heatmap and the timeline, and told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from browser import OpenPage
from crowds import crowd
from host_tables import host_of
from page_probes import CUT, LOW_CONTRASTS
from simulated_runs import data_parallel, factors
from slow import slow
from test_page_in_browser import range_s

from timing_logger.report.html import write_report

pytestmark = pytest.mark.slow("in a browser; that the page works in one, test_page_in_browser.py says")

LEFT_OF_HEATMAP, LEFT_OF_TIMELINE = 130, 190
RUN_S = 60 * 0.0365

# The colour of a pixel of a canvas.
PIXEL = """([id, x, y]) => [...document.getElementById(id).getContext("2d")
  .getImageData(x * devicePixelRatio, y * devicePixelRatio, 1, 1).data].slice(0, 3)"""


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two ranks, of which rank 1 waits for a processor for half of the second second."""
    run = data_parallel(factors(60, 2))
    path = tmp_path_factory.mktemp("waiting") / "report.html"
    host = host_of(run, 1.0, main_run_queue_wait_us=[[0, 0, 0], [0, 500_000, 0]])
    write_report(run, path, host=host)
    return path


def opened_in(browser: Any, waiting: Path, scheme: str) -> OpenPage:
    page = OpenPage(
        browser, waiting, color_scheme=scheme, viewport={"width": 1200, "height": 900},
        reduced_motion="reduce",
    )  # fmt: skip
    page.frame()
    return page


@pytest.fixture(params=["light", slow("dark", "colours, of which the contrast is tested in both")])
def shown(browser: Any, waiting: Path, request: pytest.FixtureRequest) -> Iterator[OpenPage]:
    page = opened_in(browser, waiting, request.param)
    yield page
    page.close()


def x_of(opened: OpenPage, canvas: str, left: float, part: float) -> float:
    """How far from the left end of a canvas a part of its axis is."""
    width: float = opened.page.locator(canvas).bounding_box()["width"]
    return left + part * (width - left)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_with_both_parts_complains_of_nothing_and_has_contrast(
    browser: Any, waiting: Path, scheme: str
) -> None:
    shown = opened_in(browser, waiting, scheme)
    shown.page.evaluate("for (const table of document.querySelectorAll('details')) table.open = true")
    assert shown.complaints == []
    assert shown.page.evaluate(LOW_CONTRASTS) == []
    shown.close()


def test_pointing_at_the_strip_tells_the_cause_the_mean_and_the_rank_with_most(shown: OpenPage) -> None:
    shown.page.hover("#causes-canvas", position={"x": x_of(shown, "#causes-canvas", 130, 41.5 / 60), "y": 15})
    assert shown.text("#tooltip") == (
        "Processor wait, iteration 41\nmean over the ranks: 25%\nrank 1, the most: 50%"
    )


def test_the_strip_has_the_columns_of_the_heatmap(shown: OpenPage) -> None:
    ends = [shown.page.locator(f"#{name}-canvas").bounding_box() for name in ("heatmap", "causes")]
    assert ends[0]["x"] == ends[1]["x"]
    assert ends[0]["width"] == ends[1]["width"]

    def column_at(part: float) -> list[Any]:
        x = x_of(shown, "#causes-canvas", LEFT_OF_HEATMAP, part)
        return [shown.page.evaluate(PIXEL, ["causes-canvas", x, y]) for y in (4, 22)]

    assert column_at(20.5 / 60) == [background := column_at(0.1)[0]] * 2  # before the second second
    most, mean = column_at(41.5 / 60)  # up to the rank with most, and up to the mean
    assert len({tuple(colour) for colour in (background, most, mean)}) == 3


def test_arrow_keys_go_along_the_strip_and_enter_leads_to_the_iteration(shown: OpenPage) -> None:
    shown.page.locator("#causes-canvas").focus()
    for _ in range(31):
        shown.page.keyboard.press("ArrowRight")
    assert shown.text("#tooltip").startswith("Processor wait, iteration 30\n")
    shown.page.keyboard.press("Enter")
    begin, end = range_s(shown)
    assert begin < 30 * 0.0365 < 31 * 0.0365 < end < 33 * 0.0365
    assert shown.page.evaluate("document.activeElement.id") == "timeline-canvas"


def test_a_line_under_the_timeline_lies_below_the_rows_of_its_time(shown: OpenPage) -> None:
    box, canvas = (
        shown.page.locator(name).bounding_box() for name in ("#timeline-canvas", "#counters-canvas")
    )
    assert (canvas["x"], canvas["width"]) == (box["x"], box["width"])
    says = {}
    for second in (0.5, 1.5):
        x = x_of(shown, "#counters-canvas", LEFT_OF_TIMELINE, second / RUN_S)
        shown.page.hover("#counters-canvas", position={"x": x, "y": 12})  # at the top: the highest line
        says[second] = shown.text("#tooltip").split("\n")[1]
    assert says == {0.5: "Processor wait: 0% of the time", 1.5: "Processor wait: 50% of the time"}
    assert shown.text("#tooltip").startswith("rank 1, 1500 ms\n")


def test_the_lines_zoom_with_the_timeline(shown: OpenPage) -> None:
    shown.page.click("[data-do=in]")
    begin, end = range_s(shown)
    x = x_of(shown, "#counters-canvas", LEFT_OF_TIMELINE, (1.05 - begin) / (end - begin))
    shown.page.hover("#counters-canvas", position={"x": x, "y": 12})
    assert shown.text("#tooltip").endswith("Processor wait: 50% of the time")


def test_pointing_at_a_rank_lights_its_line(shown: OpenPage) -> None:
    def ink_of_line() -> Any:
        x = x_of(shown, "#counters-canvas", LEFT_OF_TIMELINE, 0.2)
        return shown.page.evaluate(PIXEL, ["counters-canvas", x, 8 + 56 - 2])

    usual = ink_of_line()
    shown.page.hover("#timeline-canvas", position={"x": 500, "y": 30})
    shown.frame()
    lit = ink_of_line()
    assert lit != usual
    shown.page.mouse.move(0, 0)
    shown.frame()
    assert ink_of_line() == usual


def test_without_counters_and_pauses_the_page_has_neither_part(browser: Any, report: Path) -> None:
    opened = OpenPage(browser, report)
    assert opened.page.locator("#causes-canvas, #counters-canvas, #causes-title").count() == 0
    assert opened.complaints == []
    opened.close()


def test_on_a_phone_both_parts_are_as_wide_as_the_screen(browser: Any, waiting: Path) -> None:
    opened = OpenPage(browser, waiting, viewport={"width": 390, "height": 844})
    opened.page.evaluate("for (const table of document.querySelectorAll('details')) table.open = true")
    assert opened.page.evaluate(CUT) == []
    for part in ("#causes-canvas", "#counters-canvas"):
        assert opened.page.locator(part).bounding_box()["width"] > 300
    opened.close()


def test_ranks_that_the_verdict_names_have_a_thick_line_in_its_colour(browser: Any, tmp_path: Path) -> None:
    slow = factors(60, 4, noise=0.01)
    slow[:, 2] *= 2
    run = data_parallel(slow)
    host = host_of(run, 1.0, throttled_us=np.tile([[0.0], [0.0], [6e5], [0.0]], (1, 5)))
    write_report(run, tmp_path / "report.html", host=host)
    opened = OpenPage(browser, tmp_path / "report.html", color_scheme="light")
    opened.frame()
    x = x_of(opened, "#counters-canvas", LEFT_OF_TIMELINE, 0.5)
    colours = [opened.page.evaluate(PIXEL, ["counters-canvas", x, y]) for y in range(8, 14)]
    assert [0xB3, 0x26, 0x1E] in colours
    opened.close()


@pytest.mark.slow("the page of 264 ranks has its height tested, and both parts have their limits, without it")
def test_the_page_of_many_ranks_is_at_most_6400_px_high_with_both_parts_full(
    browser: Any, tmp_path: Path
) -> None:
    run = crowd(136, 20)
    pauses = run[(run["operation"] == "FORWARD") & (run["iteration"] == 3)]
    run = pd.concat([run, pauses.assign(operation="GC")], ignore_index=True)
    counted = np.tile([0.0, 8e4], (136, 3))
    host = host_of(
        run, 0.2, main_run_queue_wait_us=counted, throttled_us=counted, io_pressure_some_us=counted,
        memory_pressure_some_us=counted,
    )  # fmt: skip
    write_report(run, tmp_path / "report.html", host=host)
    opened = OpenPage(browser, tmp_path / "report.html", viewport={"width": 1400, "height": 900})
    opened.frame()
    assert opened.page.locator("#causes-explained dt").count() == 5
    assert opened.page.evaluate("document.documentElement.scrollHeight") <= 6400
    assert opened.complaints == []
    opened.close()

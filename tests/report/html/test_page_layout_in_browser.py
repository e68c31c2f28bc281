"""How the HTML report is laid out on large and on small screens, in a real browser."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browser import OpenPage
from crowds import crowd
from page_probes import BROKEN_WORDS, CUT, LANDMARKS, OVERLAPPING_TICKS
from simulated_runs import data_parallel, factors
from slow import slow

from timing_logger.report._limits import HOST_ROWS
from timing_logger.report.html import write_report

pytestmark = pytest.mark.slow("in a browser; that the page works in one, test_page_in_browser.py says")

LONG_NAME = "ALLGATHERV_SPARSE_REDUCTION"


# Notes what is written into canvases from now on.
WRITTEN = """
() => {
  const write = CanvasRenderingContext2D.prototype.fillText;
  window.written = [];
  CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
    written.push(text);
    write.call(this, text, ...rest);
  };
}
"""


@pytest.fixture(scope="module")
def wordy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a long name for an operation, two sizes of messages, and hidden communication."""
    run = data_parallel(factors(30, 4, noise=0.05))
    reduces = run["operation"] == "ALLREDUCE"
    run.loc[reduces, "message_size_bytes"] = 1000 * (1 + 999 * (run["iteration"] % 2))
    beside = run[run["operation"] == "BACKWARD"].assign(
        operation=LONG_NAME, thread="other", group="world", group_size=4, message_size_bytes=10_000
    )
    path = tmp_path_factory.mktemp("wordy") / "report.html"
    write_report(pd.concat([run, beside], ignore_index=True), path)
    return path


@pytest.fixture(scope="module")
def of_halves(tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], Path]:
    """Writes the page of a run whose steps are two operations of the same length, one with a long name."""

    @functools.cache
    def page(half_ms: float) -> Path:
        path = tmp_path_factory.mktemp("halves") / "report.html"
        times_ms = {"A_NAME_" * 20: half_ms, "B": half_ms}
        write_report(data_parallel(factors(10, 4), operations_ms=times_ms), path)
        return path

    return page


@pytest.fixture
def phone(browser: Any, wordy: Path) -> Iterator[OpenPage]:
    page = OpenPage(browser, wordy, viewport={"width": 390, "height": 844})
    yield page
    page.close()


def test_on_a_phone_nothing_is_cut(phone: OpenPage) -> None:
    phone.page.evaluate("for (const table of document.querySelectorAll('details')) table.open = true")
    assert phone.page.locator(".plot svg").count() > 1
    assert phone.page.evaluate(CUT) == []


@pytest.mark.parametrize("width", [390, 1400])
def test_no_heading_breaks_inside_a_word(browser: Any, wordy: Path, width: int) -> None:
    opened = OpenPage(browser, wordy, viewport={"width": width, "height": 900})
    opened.page.evaluate("for (const table of document.querySelectorAll('details')) table.open = true")
    assert LONG_NAME in opened.page.locator(".cards").text_content()
    assert opened.page.evaluate(BROKEN_WORDS) == []
    opened.close()


def test_the_conditions_of_a_verdict_do_not_fill_a_phone(browser: Any, report: Path) -> None:
    opened = OpenPage(browser, report, viewport={"width": 390, "height": 844})
    opened.page.evaluate("for (const table of document.querySelectorAll('details')) table.open = true")
    assert opened.page.locator(".gates li").count() >= 6
    assert opened.page.locator(".gates").bounding_box()["height"] < 844 / 2
    opened.close()


@pytest.mark.parametrize("width", [390, 1400])
def test_the_parts_of_a_ranks_time_fill_its_bar(browser: Any, wordy: Path, width: int) -> None:
    opened = OpenPage(browser, wordy, viewport={"width": width, "height": 900})
    tracks = opened.page.locator("#time .bars .track")
    assert tracks.count() == 5  # four ranks, and all
    for at in range(tracks.count()):
        track = tracks.nth(at).bounding_box()
        last = tracks.nth(at).locator("i").last.bounding_box()
        assert last["x"] + last["width"] == pytest.approx(track["x"] + track["width"], abs=1)
    opened.close()


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize(
    "half_ms",
    [11.0, slow(500.0, "as other lengths of a step"), slow(500_000.0, "as other lengths of a step")],
)
def test_no_number_of_the_axis_of_a_step_stands_on_another(
    browser: Any, of_halves: Callable[[float], Path], half_ms: float, width: int
) -> None:
    opened = OpenPage(browser, of_halves(half_ms), viewport={"width": width, "height": 900})
    assert opened.page.locator(".axis span:visible").count() >= 2
    assert opened.page.evaluate(OVERLAPPING_TICKS) == []
    opened.close()


def test_no_two_parts_of_the_page_have_the_same_name(phone: OpenPage) -> None:
    names = phone.page.evaluate(LANDMARKS)
    assert len(names) > 10
    assert sorted(names) == sorted(set(names))


def test_on_a_phone_ranks_and_headings_of_many_are_read_in_full(browser: Any, tmp_path: Path) -> None:
    run = crowd(140, 6)
    for file in run.attrs["files"]:
        file["sidecar"]["host"] = f"n{file['rank'] // 2}"
    write_report(run, tmp_path / "many.html")
    opened = OpenPage(browser, tmp_path / "many.html", viewport={"width": 390, "height": 844})
    opened.page.evaluate(WRITTEN)
    opened.page.set_viewport_size({"width": 389, "height": 844})
    opened.frame()
    written = opened.page.evaluate("written")
    assert {"rank 77", "90th percentile"} <= set(written)
    assert any(f"{HOST_ROWS} slowest of " in text for text in written)
    assert [text for text in written if text.endswith("\u2026")] == []
    opened.close()


def test_a_long_name_leaves_the_colour_of_the_legend_as_wide_as_others(
    browser: Any, of_halves: Callable[[float], Path]
) -> None:
    opened = OpenPage(browser, of_halves(11.0), viewport={"width": 390, "height": 844})
    colours = opened.page.locator("#time .legend .swatch").all()
    assert len(colours) > 2
    assert len({colour.bounding_box()["width"] for colour in colours}) == 1
    opened.close()


def test_charts_are_as_wide_as_the_screen(browser: Any, wordy: Path) -> None:
    opened = OpenPage(browser, wordy, viewport={"width": 1800, "height": 900})
    for chart in ["#time .both", "#heatmap-canvas", ".plot", "#overlap .bars", "#timeline-box"]:
        assert opened.page.locator(chart).bounding_box()["width"] > 0.85 * 1800, chart
    opened.close()

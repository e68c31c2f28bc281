"""How the HTML report is laid out on large and on small screens, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browser import OpenPage
from simulated_runs import data_parallel, factors

from timing_logger.report.html import write_report

pytestmark = pytest.mark.serial  # a browser draws by itself, and a page must be there in time

LONG_NAME = "ALLGATHERV_SPARSE_REDUCTION"

# The words of all headings that are on more than one line.
BROKEN_WORDS = """
() => [...document.querySelectorAll("h1, h2, h3, th, figcaption b, legend, dt")].flatMap((heading) => {
  const texts = document.createTreeWalker(heading, NodeFilter.SHOW_TEXT);
  const broken = [];
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    for (const word of node.data.matchAll(/[^\\s]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) broken.push(word[0]);
    }
  }
  return broken;
})
"""

# What reaches beyond the screen, but for what stands in a box that scrolls by itself.
CUT = """
() => [...document.querySelectorAll("body *")]
  .filter((element) => !element.closest(".scroll, [hidden]") && element.checkVisibility())
  .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
  .map((element) => `${element.tagName} ${element.className} ${element.textContent.trim().slice(0, 30)}`)
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


def test_charts_are_as_wide_as_the_screen(browser: Any, wordy: Path) -> None:
    opened = OpenPage(browser, wordy, viewport={"width": 1800, "height": 900})
    for chart in ["#time .both", "#heatmap-canvas", ".plot", "#overlap .bars", "#timeline-box"]:
        assert opened.page.locator(chart).bounding_box()["width"] > 0.85 * 1800, chart
    opened.close()

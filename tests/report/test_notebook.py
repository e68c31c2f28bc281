"""A notebook shows the report in a frame of its own, which reaches nothing of the notebook."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browser import LIMIT_MS
from simulated_runs import data_parallel, factors

from timing_logger.analysis import Verdict, stragglers
from timing_logger.errors import ConfigurationError
from timing_logger.report import inline


@pytest.fixture(scope="module")
def timings() -> pd.DataFrame:
    factor = factors(20, 4, noise=0.02)
    factor[:, 2] *= 2
    return data_parallel(factor)


@pytest.fixture(scope="module")
def verdict(timings: pd.DataFrame) -> Verdict:
    return stragglers(timings)


def test_a_verdict_is_printed_in_the_words_of_the_command(verdict: Verdict) -> None:
    said = str(verdict)
    assert said.startswith("Verdict: rank 2 costs this run ")
    assert said.endswith(" or more work, which logger.set_current_work(n) in each step would tell.")


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    context.set_default_timeout(LIMIT_MS)
    yield context.new_page()
    context.close()


@pytest.mark.slow("in a browser; that the frame is closed and what is in it is read below")
def test_the_page_is_drawn_in_its_frame_and_does_not_reach_the_notebook(
    page: Any, timings: pd.DataFrame, tmp_path: Path
) -> None:
    shown = inline(timings, height_px=700)._repr_html_()
    (tmp_path / "cell.html").write_text(f"<p id=cell>notebook</p>{shown}", encoding="utf-8")
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((tmp_path / "cell.html").as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-drawn=yes]").wait_for(state="attached")
    assert "Rank 2 costs this run" in frame.locator("#verdict-title").inner_text()
    assert frame.locator(".lane").count() == 4
    inner = next(one for one in page.frames if one is not page.main_frame)
    assert inner.evaluate("self.origin") == "null"  # as to another site, the notebook is closed to it
    assert page.locator("iframe").bounding_box()["height"] == 700
    assert complaints == []


@pytest.mark.slow("in a browser; which sections are on the page is read below")
@pytest.mark.parametrize("section", ["heatmap", "timeline", "time"])
def test_a_section_alone_is_drawn_without_the_others_and_without_a_head(
    page: Any, timings: pd.DataFrame, tmp_path: Path, section: str
) -> None:
    (tmp_path / "cell.html").write_text(inline(timings, sections=[section])._repr_html_(), encoding="utf-8")
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((tmp_path / "cell.html").as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-drawn=yes]").wait_for(state="attached")
    assert frame.locator("section").evaluate_all("all => all.map(one => one.id)") == [section]
    assert frame.locator("h1, nav").count() == 0
    assert complaints == []


def test_a_section_that_there_is_not_is_refused_with_those_that_there_are(timings: pd.DataFrame) -> None:
    with pytest.raises(ConfigurationError, match=r"no section 'lanes'; there are verdict, .*, accounting\.$"):
        inline(timings, sections=["timeline", "lanes"])
    with pytest.raises(ConfigurationError, match=r"must be a list of names, such as \['timeline'\]\.$"):
        inline(timings, sections="timeline")


@pytest.fixture(scope="module")
def shown(timings: pd.DataFrame) -> str:
    """What a notebook shows of a run with an operation whose name would end the frame."""
    bad = '"></iframe><script>alert(1)</script>'
    named = timings.assign(operation=timings["operation"].replace({"FORWARD": bad}))
    return inline(named, height_px=700)._repr_html_()


def page_in(shown: str) -> str:
    found = re.search(r' srcdoc="([^"]*)"', shown)
    assert found
    return unescape(found[1])


def test_names_cannot_end_the_frame(shown: str) -> None:
    assert shown.count("<") == 2


def test_the_frame_has_the_whole_page_which_is_closed_to_the_notebook(shown: str) -> None:
    assert re.findall(r'sandbox="([^"]*)"', shown) == ["allow-scripts"]
    assert "height:700px" in shown
    page = page_in(shown)
    assert "Rank 2 costs this run" in page
    assert page.count('class="lane"') == 4
    assert page.endswith("</html>")


def test_a_section_alone_stands_without_the_others_and_without_a_head(timings: pd.DataFrame) -> None:
    page = page_in(inline(timings.head(0), sections=["heatmap"])._repr_html_())
    assert re.findall(r'<section id="([^"]*)"', page) == ["heatmap"]
    assert re.findall("<h1|<nav", page) == []


def test_a_verdict_shows_its_words_and_a_step(verdict: Verdict) -> None:
    page = page_in(verdict._repr_html_())
    assert "Rank 2 costs this run" in page
    assert page.count('class="lane"') == 4


@pytest.mark.slow("in a browser; the words and the step are read below")
@pytest.mark.parametrize("slow", [True, False])
def test_a_verdict_shows_its_words_and_a_step_without_scrolling(
    page: Any, timings: pd.DataFrame, tmp_path: Path, slow: bool
) -> None:
    verdict = stragglers(timings if slow else data_parallel(factors(20, 4, noise=0.02)))
    (tmp_path / "cell.html").write_text(verdict._repr_html_(), encoding="utf-8")
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto((tmp_path / "cell.html").as_uri())
    frame = page.frame_locator("iframe")
    assert ("Rank 2 costs this run" if slow else "No rank is slow") in frame.locator("h2").inner_text()
    assert frame.locator(".lane").count() == 4
    inner = next(one for one in page.frames if one is not page.main_frame)
    height_px = page.locator("iframe").bounding_box()["height"]
    assert inner.evaluate("document.documentElement.scrollHeight") <= height_px
    assert complaints == []


def test_the_step_is_no_part_of_what_a_verdict_says(verdict: Verdict) -> None:
    assert verdict.step is not None
    assert "step" not in verdict.as_dict()
    assert verdict == replace(verdict, step=None)
    assert "ShownStep" not in repr(verdict)

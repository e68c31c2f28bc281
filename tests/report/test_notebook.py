"""A notebook shows the report in a frame of its own, which reaches nothing of the notebook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browser import LIMIT_MS
from simulated_runs import data_parallel, factors
from slow import slow

from timing_logger.analysis import stragglers
from timing_logger.errors import ConfigurationError
from timing_logger.report import inline


@pytest.fixture(scope="module")
def timings() -> pd.DataFrame:
    factor = factors(20, 4, noise=0.02)
    factor[:, 2] *= 2
    return data_parallel(factor)


def test_a_verdict_is_printed_in_the_words_of_the_command(timings: pd.DataFrame) -> None:
    said = str(stragglers(timings))
    assert said.startswith("Verdict: rank 2 costs this run ")
    assert said.endswith(" or more work, which logger.set_current_work(n) in each step would tell.")


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    context.set_default_timeout(LIMIT_MS)
    yield context.new_page()
    context.close()


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


@pytest.mark.slow("in a browser; that the page is drawn in its frame is quick")
@pytest.mark.parametrize("section", ["heatmap", "timeline", slow("time", "nothing is drawn by a script")])
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


def test_names_cannot_end_the_frame(timings: pd.DataFrame) -> None:
    bad = '"></iframe><script>alert(1)</script>'
    shown = inline(timings.assign(operation=timings["operation"].replace({"FORWARD": bad})))._repr_html_()
    assert shown.count("<") == 2


@pytest.mark.slow("in a browser; that the page is drawn in its frame is quick")
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


def test_the_step_is_no_part_of_what_a_verdict_says(timings: pd.DataFrame) -> None:
    verdict = stragglers(timings)
    assert verdict.step is not None
    assert "step" not in verdict.as_dict()
    assert verdict == replace(verdict, step=None)
    assert "ShownStep" not in repr(verdict)

"""The page of a run in a real browser refreshes itself, and leaves the reader where they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
from browser import OpenPage
from conditions import wait_for
from simulated_runs import data_parallel, factors
from timing_files import write_sidecar, write_table

from timing_logger.analysis import Verdict
from timing_logger.live import run_page
from timing_logger.live.page_server import LOOPBACK, PageServer
from timing_logger.live.run_page import RunPage, figures_of
from timing_logger.live.watcher import Watcher
from timing_logger.report.html._findings import Findings

pytestmark = pytest.mark.slow(
    "a second page in a browser; test_page_in_browser.py has one, and test_run_page.py what this one is sent"
)

ENDLESS_S, EVERY_S = 1e9, 0.05
STEPS_AT_ONCE = 20
FIGURES = "JSON.parse(document.getElementById('data').textContent).live.figures"


class Served:
    """A run of four ranks that goes on when it is told to, and its page."""

    def __init__(self, folder: Path, n_steps: int = STEPS_AT_ONCE) -> None:
        self._run = data_parallel(factors(200, 4, 0.02))
        self._run["start_counter"] -= 1000.0 * self._run["rank"]  # the clocks of simulated ranks lie apart
        self.folder, self.n_steps = folder, n_steps
        if n_steps:
            self._write()
        self.run_page = RunPage(Watcher(folder, ENDLESS_S), "logs/run", EVERY_S, print)
        self.run_page.look()
        self.server = self.serve()

    def serve(self) -> PageServer:
        return PageServer(0, LOOPBACK, self.run_page.served)

    def _write(self, *, closed: bool = False) -> None:
        write_table(self.folder, self._run[self._run["iteration"] < self.n_steps])
        for path in self.folder.glob("*.csv"):
            write_sidecar(path, closed=closed, end_s=time.time(), world_size=4)

    def go_on(self, *, closed: bool = False) -> None:
        """Let the run go on, and look."""
        self.n_steps += STEPS_AT_ONCE
        self._write(closed=closed)
        self.run_page.look()


class Reader:
    """A browser that shows the page."""

    def __init__(
        self,
        served: Served,
        browser: Any,
        *,
        server: PageServer | None = None,
        width: int = 1200,
        **context: Any,
    ) -> None:
        self.served, self.server = served, server or served.server
        self.opened = OpenPage(browser, self.server.url, viewport={"width": width, "height": 900}, **context)
        self.page = self.opened.page
        self.figures = self.page.evaluate(FIGURES) if served.n_steps else 0

    def look(self, *, closed: bool = False) -> None:
        """Let the run go on, look, and wait until the head of the page tells."""
        self.served.go_on(closed=closed)
        last = self.served.n_steps - 1
        self.until(f"document.getElementById('now').textContent.includes('at iteration {last}')")

    def until(self, condition: str) -> None:
        wait_for(lambda: self.page.evaluate(condition))  # the page's policy forbids to wait within it

    def renewed(self) -> None:
        """Wait until the figures are the next ones, and drawn."""
        self.until(f"{FIGURES} === {self.figures + 1} && document.documentElement.dataset.drawn === 'yes'")
        self.opened.frame()

    def wait(self, looks: int) -> None:
        """Wait as long as the page takes to ask so many times."""
        self.page.wait_for_timeout(looks * 1000 * EVERY_S)

    def close(self) -> None:
        self.opened.close()


@pytest.fixture(scope="module", autouse=True)
def figures_at_each_look() -> Iterator[None]:
    """Figures are made at each look, always of what the first look found: that takes longest."""
    made: list[Findings] = []

    def figures_of_first_look(timings: pd.DataFrame, verdict: Verdict) -> Findings:
        if not made:
            made.append(figures_of(timings, verdict))
        return made[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_page, "figures_of", figures_of_first_look)
        patch.setattr(run_page, "FIGURES_EVERY_S", 0.0)
        patch.setattr(run_page, "LEAST_PAUSE", 0.0)
        yield


@pytest.fixture(scope="module")
def served(figures_at_each_look: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("run"))
    yield served
    served.server.close()


@pytest.fixture
def reader(served: Served, browser: Any) -> Iterator[Reader]:
    reader = Reader(served, browser)
    yield reader
    reader.close()


# -- what a reader did, and the page is renewed -----------------------------------------------------------

TABLE = "document.querySelector('#now .scroll')"
TOP = "document.getElementById('timeline').getBoundingClientRect().top"


class Renewed(NamedTuple):
    """A page that was renewed after somebody had scrolled, opened, closed and chosen something in it.

    Attributes:
        reader: who did.
        top: where the timeline was on their screen before, in pixels.
    """

    reader: Reader
    top: float


@pytest.fixture(scope="module")
def renewed(served: Served, browser: Any) -> Iterator[Renewed]:
    reader = Reader(served, browser, width=400)
    page = reader.page
    page.locator("#verdict details summary").first.click()
    page.locator("#now details summary").first.click()
    page.get_by_text("Own work", exact=True).first.click()
    page.evaluate(f"{TABLE}.scrollLeft = 60")
    page.evaluate("document.getElementById('time').remove()")  # it comes back
    page.locator("#timeline").scroll_into_view_if_needed()
    top = page.evaluate(TOP)
    reader.look()
    reader.renewed()
    yield Renewed(reader, top)
    reader.close()


def test_while_the_files_grow_it_shows_more_and_complains_of_nothing(renewed: Renewed) -> None:
    opened = renewed.reader.opened
    assert opened.text("#now-title").startswith("Running: 4 ranks, ")
    assert opened.complaints == []
    assert all(url.startswith((renewed.reader.server.url, "data:")) for url in opened.requests)


def test_what_is_opened_stays_open_and_what_is_closed_closed(renewed: Renewed) -> None:
    page = renewed.reader.page
    assert page.locator("#verdict details").first.get_attribute("open") is not None
    assert page.locator("#now details").first.get_attribute("open") is None


def test_the_reader_stays_where_they_are_though_what_is_above_grows(renewed: Renewed) -> None:
    assert renewed.reader.page.locator("#time").count() == 1
    assert renewed.reader.page.evaluate(TOP) == pytest.approx(renewed.top, abs=2)


def test_a_table_stays_scrolled(renewed: Renewed) -> None:
    assert renewed.reader.page.evaluate(f"{TABLE}.scrollLeft") == 60


def test_the_view_of_the_heatmap_and_the_focus_stay(renewed: Renewed) -> None:
    chosen = "document.querySelector('.views input:checked').parentElement.textContent"
    explained = "document.querySelector('#views-explained > div:not([hidden]) dt').textContent"
    assert renewed.reader.page.evaluate(f"[{chosen}, {explained}]") == ["Own work", "Own work"]
    assert renewed.reader.page.evaluate("document.activeElement.name") == "view"


# -- the beginning and the end of a run --------------------------------------------------------------------


class Lived(NamedTuple):
    """What a page told that was open before the run began, and when it had ended.

    Attributes:
        beginning, end: what it said.
        figures: the numbers of the figures after the first look at files, and after the last.
        complaints: what went wrong until then, a click on a link included.
        asked_afterwards: how often it asked after it had said that it would not.
    """

    beginning: str
    end: str
    figures: list[int]
    complaints: list[str]
    asked_afterwards: int


@pytest.fixture(scope="module")
def lived(
    browser: Any, figures_at_each_look: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lived]:
    reader = Reader(Served(tmp_path_factory.mktemp("lived") / "later", n_steps=0), browser)
    beginning = reader.opened.text("#now-title")
    reader.look()
    reader.until(f"{FIGURES} === 1")
    reader.page.get_by_role("link", name="Timeline").click()
    complaints = list(reader.opened.complaints)
    figures = [reader.page.evaluate(FIGURES)]
    reader.look(closed=True)
    reader.until("document.getElementById('connection').textContent.includes('stopped asking')")
    figures.append(reader.page.evaluate(FIGURES))
    asked = len(reader.opened.requests)
    reader.wait(10)
    afterwards = len(reader.opened.requests) - asked
    yield Lived(beginning, reader.opened.text("#now-title"), figures, complaints, afterwards)
    reader.close()
    reader.server.close()


# -- what renews nothing ----------------------------------------------------------------------------------


def test_a_timeline_that_is_looked_into_stands_still_until_all_of_it_is_shown(reader: Reader) -> None:
    reader.page.locator("[data-do=in]").click()
    reader.opened.frame()
    shown = reader.opened.text("#timeline-range")
    reader.look()
    reader.wait(10)  # as often as it could have been renewed
    assert reader.page.evaluate(FIGURES) == reader.figures
    assert reader.opened.text("#timeline-range") == shown
    reader.page.locator("[data-do=all]").click()
    reader.renewed()


def test_a_text_that_is_selected_stays(reader: Reader) -> None:
    reader.page.evaluate("getSelection().selectAllChildren(document.querySelector('#verdict h2'))")
    reader.look()
    reader.wait(10)
    assert reader.page.evaluate("getSelection().toString()") == reader.opened.text("#verdict h2")
    reader.page.evaluate("getSelection().removeAllRanges()")
    reader.renewed()


def test_when_the_run_ends_it_says_so_and_asks_no_more(lived: Lived) -> None:
    assert lived.end.startswith("The run ended: 4 ranks")
    assert lived.figures == [1, 2]  # of the beginning, and those of the end
    assert lived.asked_afterwards == 0


def test_when_the_server_ends_it_says_since_when_nothing_is_new(served: Served, browser: Any) -> None:
    reader = Reader(served, browser, server=served.serve())
    reader.server.close()
    reader.page.wait_for_selector("#connection.late")
    assert "Not updated since " in reader.opened.text("#connection")
    assert "does not answer" in reader.opened.text("#connection")
    reader.close()


def test_a_page_that_nobody_sees_asks_nothing(reader: Reader) -> None:
    reader.page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    reader.wait(5)  # an answer may be on its way
    asked = len(reader.opened.requests)
    reader.wait(10)
    assert len(reader.opened.requests) == asked
    reader.page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    reader.look()


# -- other pages ------------------------------------------------------------------------------------------


def test_times_are_those_of_the_reader(served: Served, browser: Any) -> None:
    reader = Reader(served, browser, timezone_id="Asia/Kolkata")  # half an hour off everybody else
    iso = reader.page.locator("#now time").first.get_attribute("datetime")
    shown = reader.page.evaluate(
        "(iso) => new Date(iso).toLocaleTimeString('en-GB', { timeZone: 'Asia/Kolkata' })", iso
    )
    assert reader.page.locator("#now time").first.inner_text() == shown
    reader.close()


def test_it_begins_before_the_run_does(lived: Lived) -> None:
    assert lived.beginning == "No timing files yet in logs/run."
    assert lived.figures[0] == 1
    assert lived.complaints == []

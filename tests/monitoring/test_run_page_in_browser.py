"""The page of a run in a real browser refreshes itself, and leaves the reader where they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import LIMIT_MS, OpenPage
from conditions import wait_for
from simulated_runs import data_parallel, factors
from timing_files import write_sidecar, write_table

from timing_logger.engine.live import Watcher
from timing_logger.monitoring import run_page
from timing_logger.monitoring.page_server import LOOPBACK, PageServer
from timing_logger.monitoring.run_page import RunPage

ENDLESS_S, EVERY_S = 1e9, 0.05
FIGURES = "JSON.parse(document.getElementById('data').textContent).live.figures"


class Served:
    """A run of four ranks, its page, and the browser that shows it; the test looks at the run."""

    def __init__(self, folder: Path, browser: Any, n_steps: int = 40, **context: Any) -> None:
        self._run = data_parallel(factors(200, 4, 0.02))
        self._run["start_counter"] -= 1000.0 * self._run["rank"]  # the clocks of simulated ranks lie apart
        self.folder = folder
        if n_steps:
            self.write(n_steps)
        self.run_page = RunPage(Watcher(folder, ENDLESS_S), "logs/run", EVERY_S, print)
        self.run_page.look()
        self.server = PageServer(0, LOOPBACK, self.run_page.served)
        self.opened = OpenPage(browser, self.server.url, viewport={"width": 1200, "height": 900}, **context)
        self.page = self.opened.page

    def write(self, n_steps: int, *, closed: bool = False) -> None:
        write_table(self.folder, self._run[self._run["iteration"] < n_steps])
        for path in self.folder.glob("*.csv"):
            write_sidecar(path, closed=closed, end_s=time.time(), world_size=4)

    def look(self, n_steps: int, *, closed: bool = False) -> None:
        """Let the run go on, look, and wait until the head of the page tells."""
        self.write(n_steps, closed=closed)
        self.run_page.look()
        self.until(f"document.getElementById('now').textContent.includes('at iteration {n_steps - 1}')")

    def until(self, condition: str) -> None:
        wait_for(lambda: self.page.evaluate(condition))  # the page's policy forbids to wait within it

    def renewed(self) -> None:
        """Wait until the figures are the second ones, and drawn."""
        self.until(f"{FIGURES} === 2 && document.documentElement.dataset.drawn === 'yes'")
        self.opened.frame()

    def close(self) -> None:
        self.opened.close()
        self.server.close()


@pytest.fixture
def served(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(run_page, "FIGURES_EVERY_S", 0.0)
    monkeypatch.setattr(run_page, "LEAST_PAUSE", 0.0)
    served = Served(tmp_path, browser)
    yield served
    served.close()


def test_while_the_files_grow_it_shows_more_and_complains_of_nothing(served: Served) -> None:
    served.look(80)
    served.renewed()
    assert served.opened.text("#now-title").startswith("Running: 4 ranks, ")
    assert served.opened.complaints == []
    assert all(url.startswith((served.server.url, "data:")) for url in served.opened.requests)


def test_what_is_opened_stays_open_and_what_is_closed_closed(served: Served) -> None:
    opened = served.page.locator("#verdict details").first
    closed = served.page.locator("#now details").first
    opened.locator("summary").click()
    closed.locator("summary").click()
    served.look(80)
    served.renewed()
    assert opened.get_attribute("open") is not None
    assert closed.get_attribute("open") is None


def test_the_reader_stays_where_they_are_though_what_is_above_grows(served: Served) -> None:
    served.page.evaluate("document.getElementById('time').remove()")  # it comes back
    served.page.locator("#timeline").scroll_into_view_if_needed()
    at = "document.getElementById('timeline').getBoundingClientRect().top"
    before = served.page.evaluate(at)
    served.look(120)
    served.renewed()
    assert served.page.locator("#time").count() == 1
    assert served.page.evaluate(at) == pytest.approx(before, abs=2)


def test_a_table_stays_scrolled(served: Served) -> None:
    served.page.set_viewport_size({"width": 400, "height": 900})
    table = "document.querySelector('#now .scroll')"
    served.page.evaluate(f"{table}.scrollLeft = 60")
    served.look(80)
    assert served.page.evaluate(f"{table}.scrollLeft") == 60


def test_the_view_of_the_heatmap_and_the_focus_stay(served: Served) -> None:
    served.page.get_by_text("Own work", exact=True).first.click()
    chosen = "document.querySelector('.views input:checked').parentElement.textContent"
    explained = "document.querySelector('#views-explained > div:not([hidden]) dt').textContent"
    served.look(80)
    served.renewed()
    assert served.page.evaluate(f"[{chosen}, {explained}]") == ["Own work", "Own work"]
    assert served.page.evaluate("document.activeElement.name") == "view"


def test_a_timeline_that_is_looked_into_stands_still_until_all_of_it_is_shown(served: Served) -> None:
    served.page.locator("[data-do=in]").click()
    served.opened.frame()
    shown = served.opened.text("#timeline-range")
    served.look(80)
    served.page.wait_for_timeout(20 * 1000 * EVERY_S)  # as often as it could have been renewed
    assert served.page.evaluate(FIGURES) == 1
    assert served.opened.text("#timeline-range") == shown
    served.page.locator("[data-do=all]").click()
    served.renewed()


def test_a_text_that_is_selected_stays(served: Served) -> None:
    served.page.evaluate("getSelection().selectAllChildren(document.querySelector('#verdict h2'))")
    served.look(80)
    served.page.wait_for_timeout(20 * 1000 * EVERY_S)
    assert served.page.evaluate("getSelection().toString()") == served.opened.text("#verdict h2")
    served.page.evaluate("getSelection().removeAllRanges()")
    served.renewed()


def test_when_the_run_ends_it_says_so_and_asks_no_more(served: Served) -> None:
    served.look(80, closed=True)
    served.until("document.getElementById('connection').textContent.includes('stopped asking')")
    assert served.opened.text("#now-title").startswith("The run ended: 4 ranks")
    assert served.page.evaluate(FIGURES) == 2  # those of the end
    asked = len(served.opened.requests)
    served.page.wait_for_timeout(20 * 1000 * EVERY_S)
    assert len(served.opened.requests) == asked


def test_when_the_server_ends_it_says_since_when_nothing_is_new(served: Served) -> None:
    served.server.close()
    served.page.wait_for_selector("#connection.late", timeout=LIMIT_MS)
    assert "Not updated since " in served.opened.text("#connection")
    assert "does not answer" in served.opened.text("#connection")


def test_a_page_that_nobody_sees_asks_nothing(served: Served) -> None:
    served.page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    served.page.wait_for_timeout(5 * 1000 * EVERY_S)  # an answer may be on its way
    asked = len(served.opened.requests)
    served.page.wait_for_timeout(20 * 1000 * EVERY_S)
    assert len(served.opened.requests) == asked
    served.page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    served.look(80)


def test_times_are_those_of_the_reader(browser: Any, tmp_path: Path) -> None:
    served = Served(tmp_path, browser, timezone_id="Asia/Kolkata")  # half an hour off everybody else
    iso = served.page.locator("#now time").first.get_attribute("datetime")
    shown = served.page.evaluate(
        "(iso) => new Date(iso).toLocaleTimeString('en-GB', { timeZone: 'Asia/Kolkata' })", iso
    )
    assert served.page.locator("#now time").first.inner_text() == shown
    served.close()


def test_it_begins_before_the_run_does(browser: Any, tmp_path: Path) -> None:
    served = Served(tmp_path / "later", browser, n_steps=0)
    assert served.opened.text("#now-title") == "No timing files yet in logs/run."
    served.look(40)
    served.until(f"{FIGURES} === 1")
    served.page.get_by_role("link", name="Timeline").click()
    assert served.opened.complaints == []
    served.close()

"""A headless Chromium for tests that need a real browser; they are skipped if there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SYSTEM_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def chromium() -> Iterator[Any]:
    """Give Playwright's own browser (``playwright install chromium``), or else the system's.

    The test is skipped if Playwright or a browser is missing.
    """
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with api.sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        path = str(own) if own.exists() else next(filter(None, map(shutil.which, SYSTEM_BROWSERS)), None)
        if path is None:
            pytest.skip("no Chromium: playwright install chromium, or apt-get install chromium")
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for the tests of a module."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the small run."""
    from small_run import report_of, write_small_run  # what only records is tested without pandas

    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report_of(write_small_run(path.parent / "small")), encoding="utf-8")
    return path


class OpenPage:
    """An open page: a file, or what is at an address.

    Attributes:
        complaints: the texts of its console messages, errors and dialogs.
        requests: the addresses that it requested.
        page: Playwright's page.
    """

    def __init__(self, browser: Any, page: Path | str, **context: Any) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = browser.new_context(**context).new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(page if isinstance(page, str) else page.as_uri())
        self.page.wait_for_selector("html[data-drawn=yes]", state="attached")

    def close(self) -> None:
        self.page.context.close()

    def frame(self) -> None:
        """Wait until the page has drawn the next frame."""
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def text(self, selector: str) -> str:
        """Return the visible text of the element that ``selector`` finds."""
        shown: str = self.page.locator(selector).inner_text()
        return shown

"""A headless Chromium for tests that need a real browser; they are skipped if there is none."""

from __future__ import annotations

import asyncio
import functools
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from limits import LIMIT_S

LIMIT_MS = 1000 * LIMIT_S
USUAL_VIEWPORT = {"width": 1280, "height": 720}
SYSTEM_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Playwright's own browser (``playwright install chromium``), or else the system's; one for all modules.

    The test is skipped if Playwright or a browser is missing.
    """
    started = _started(request.config)
    with started.in_use():
        yield started.browser


class _Started:
    """A browser that runs, and the loop that its commands need; to no other test this is a running one."""

    def __init__(self) -> None:
        api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
        with ExitStack() as ends:
            playwright = ends.enter_context(api.sync_playwright())
            own = Path(playwright.chromium.executable_path)
            path = str(own) if own.exists() else next(filter(None, map(shutil.which, SYSTEM_BROWSERS)), None)
            if path is None:
                pytest.skip("no Chromium: playwright install chromium, or apt-get install chromium")
            self.browser = playwright.chromium.launch(executable_path=path, timeout=LIMIT_MS)
            ends.callback(self.browser.close)
            self._ends = ends.pop_all()
        self._loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        asyncio._set_running_loop(self._loop)
        yield
        asyncio._set_running_loop(None)

    def end(self) -> None:
        with self.in_use():
            self._ends.close()


@functools.cache
def _started(config: pytest.Config) -> _Started:
    started = _Started()
    config.add_cleanup(started.end)
    return started


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the small run, whose files are in ``logs/small`` beside it."""
    from small_run import report_of, write_small_run  # what only records is tested without pandas

    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report_of(write_small_run(path.parent / "logs" / "small")), encoding="utf-8")
    return path


@dataclass
class _Told:
    """Where what a tab tells of its present page is kept."""

    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def _new_tab(browser: Any, **context: Any) -> tuple[Any, _Told]:
    opened, told = browser.new_context(**context), _Told()
    opened.set_default_timeout(LIMIT_MS)
    page = opened.new_page()
    page.on("console", lambda message: told.complaints.append(message.text))
    page.on("pageerror", lambda error: told.complaints.append(str(error)))
    page.on("dialog", lambda dialog: told.complaints.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: told.requests.append(request.url))
    return page, told


class OpenPage:
    """An open page: a file, or what is at an address.

    It is a new document, in a tab that an earlier page may have had: opening tabs takes longest.

    Attributes:
        complaints: the texts of its console messages, errors and dialogs.
        requests: the addresses that it requested.
        page: Playwright's page.
    """

    _free_tabs: ClassVar[list[tuple[Any, _Told]]] = []

    def __init__(
        self, browser: Any, page: Path | str, *, viewport: Any = None, color_scheme: str = "light",
        reduced_motion: str = "no-preference", **context: Any,
    ) -> None:  # fmt: skip
        self._is_usual = not context
        if self._is_usual and self._free_tabs:
            self.page, told = self._free_tabs.pop()
        else:
            self.page, told = _new_tab(browser, **context)
        self._told = told
        self.complaints, self.requests = told.complaints, told.requests = [], []
        self.page.set_viewport_size(viewport or USUAL_VIEWPORT)
        self.page.emulate_media(color_scheme=color_scheme, reduced_motion=reduced_motion)
        self.page.goto(page if isinstance(page, str) else page.as_uri())
        self.page.wait_for_selector("html[data-drawn=yes]", state="attached")

    def close(self) -> None:
        if not self._is_usual:
            self.page.context.close()
            return
        self._told.complaints, self._told.requests = [], []
        self.page.goto("about:blank")
        self.page.mouse.move(0, 0)
        self._free_tabs.append((self.page, self._told))

    def frame(self) -> None:
        """Wait until the page has drawn the next frame."""
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def text(self, selector: str) -> str:
        """Return the visible text of the element that ``selector`` finds."""
        shown: str = self.page.locator(selector).inner_text()
        return shown

"""The page over a run in progress, made by one thread and read by any.

Each look renews the head of the page. The figures below it take much longer to make: they are renewed rarely,
for a small part of the time, and not at all where nobody asks.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from timing_logger.engine.changes import Changes
from timing_logger.errors import NoTimingFilesError
from timing_logger.live.live_page import Head, figures_of, head_html, head_of, live_page
from timing_logger.live.now import MOST_CHANGES
from timing_logger.report.json import strict_json

if TYPE_CHECKING:
    from timing_logger.engine.changes import Change
    from timing_logger.live.snapshot import Snapshot
    from timing_logger.live.watcher import Watcher
    from timing_logger.report.html._findings import Findings

FIGURES_EVERY_S = 10.0
"""The least time from one making of the figures to the next, in seconds."""

LEAST_PAUSE = 9.0
"""And at least so many times as long as they took, so that they take a tenth of a core at most."""

ASKED_WITHIN_S = 30.0
"""Nothing is made for the page if nobody asked for so many seconds."""

PAGE, NOW = "", "now"
"""The names of what is served: the page, and what its script asks for."""


class RunPage:
    """Looks at a run, and makes the page.

    Args:
        watcher: looks at the run.
        title: what the run is called.
        every_s: the time from one look to the next, in seconds; the page asks as often.
        say: is told what goes wrong, each thing once.
    """

    def __init__(self, watcher: Watcher, title: str, every_s: float, say: Callable[[str], None]) -> None:
        self._watcher, self._title, self._every_s, self._say = watcher, title, every_s, say
        self._changes = Changes()
        self._last_changes: deque[Change] = deque(maxlen=MOST_CHANGES)
        self._figures = _Figures(watcher)
        self._version = 0
        self._since_unix_s = time.time()
        self._said: set[str] = set()
        self._asked, self._asked_s = threading.Event(), time.monotonic()
        self._served: Mapping[str, bytes] = {}

    def served(self, name: str) -> bytes | None:
        """Return what has this name, as it was last made; None if nothing has. Any thread may ask."""
        if not self._is_read():
            self._asked.set()
        self._asked_s = time.monotonic()
        return self._served.get(name)

    def wait(self) -> None:
        """Wait until the next look, which comes at once if somebody asks after a long time."""
        self._asked.wait(self._every_s)
        self._asked.clear()

    def look(self) -> None:
        """Look once, and renew the page if somebody asked lately. What goes wrong is said on it, too."""
        try:
            snapshot = self._watcher.snapshot()
        except (NoTimingFilesError, FileNotFoundError):
            self._renew(Head(f"No timing files yet in {self._title}."))
        except Exception as error:
            self._renew(Head("The run cannot be looked at now.", trouble=self._trouble(error)))
        else:
            if change := self._changes.after(snapshot.verdict, time.time()):
                self._last_changes.append(change)
            if self._is_read():
                self._show(snapshot)

    def _is_read(self) -> bool:
        return time.monotonic() - self._asked_s <= ASKED_WITHIN_S

    def _show(self, snapshot: Snapshot) -> None:
        head = head_of(snapshot, list(self._last_changes))
        try:
            self._figures.renew(snapshot, has_ended=head.state == "over")
        except Exception as error:
            head = head._replace(trouble=f"What is below cannot be renewed: {self._trouble(error)}")
        self._renew(head)

    def _renew(self, head: Head) -> None:
        self._version += 1
        html = head_html(head, time.time(), self._since_unix_s)
        figures = self._figures
        state = {
            "version": self._version, "figures": figures.number, "every_s": self._every_s,
            "over": figures.are_last,
        }  # fmt: skip
        if not figures.number or figures.number != figures.shown:
            self._served = {**self._served, PAGE: self._page(html, state).encode()}
            figures.shown = figures.number
        self._served = {**self._served, NOW: strict_json({**state, "now": html}).encode()}

    def _page(self, head: str, state: Mapping[str, object]) -> str:
        figures = self._figures
        return live_page(
            self._title, head, state, figures.found, window_s=figures.window_s, made_unix_s=figures.unix_s
        )

    def _trouble(self, error: Exception) -> str:
        said = f"{type(error).__name__}: {error}"
        if said not in self._said:
            self._said.add(said)
            self._say(said)
        return said


class _Figures:
    """The figures on the page, and when they are due again.

    Attributes:
        found: what they are drawn from; None before they are first made.
        number: how often they were made.
        shown: the number of those that are on the page.
        window_s, unix_s: how long the time is that they are about, and when they were made, in seconds.
        are_last: whether they were made of a run that had ended.
    """

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._due_s = 0.0
        self.found: Findings | None = None
        self.number = self.shown = 0
        self.window_s = self.unix_s = 0.0
        self.are_last = False

    def renew(self, snapshot: Snapshot, *, has_ended: bool) -> None:
        """Make them if they are due; those of the end are made once, and at once."""
        began_s = time.monotonic()
        self.are_last = self.are_last and has_ended  # or another run goes on in the folder
        if self.are_last or (began_s < self._due_s and not has_ended):
            return
        try:
            self.found = figures_of(self._watcher.timings(), snapshot.verdict)
        finally:
            took_s = time.monotonic() - began_s
            self._due_s = began_s + took_s + max(FIGURES_EVERY_S, LEAST_PAUSE * took_s)
        self.number += 1
        self.window_s, self.unix_s, self.are_last = snapshot.window_s, time.time(), has_ended

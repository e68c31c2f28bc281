"""The page over a run in progress, made by one thread and read by any.

Each look renews the head of the page. The figures below it take much longer to make: they are renewed rarely,
for a small part of the time, and not at all where nobody asks.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from timing_logger.engine.changes import Changes
from timing_logger.errors import NoTimingFilesError
from timing_logger.live.events import clock_time, iso_time, what_changes
from timing_logger.live.now import MOST_CHANGES, WORST, Now, looked_at, now_of, table_of_ranks, worst_first
from timing_logger.reading.named_ranks import capital
from timing_logger.report._limits import MOST_LINES
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._tables import Shown, Table, as_script_data
from timing_logger.report.html.page import rendered, sections, surroundings
from timing_logger.report.json import strict_json
from timing_logger.results.verdict import Verdict

if TYPE_CHECKING:
    from timing_logger.engine.changes import Change
    from timing_logger.live.watcher import Snapshot, Watcher


class Instant(NamedTuple):
    """An instant, for the page to show in the time zone of whoever reads it.

    Attributes:
        iso: with the offset from UTC.
        shown: the local time of day here.
    """

    iso: str
    shown: str

    @classmethod
    def at(cls, unix_s: float) -> Instant:
        """Return the instant so many seconds after 1970."""
        return cls(iso_time(unix_s), clock_time(unix_s))


class ChangeLine(NamedTuple):
    """A change, and when it was seen."""

    at: Instant
    text: str


class Head(NamedTuple):
    """What the head of the page says; all but ``headline`` may be empty.

    Attributes:
        headline: whether the run goes on, how fast, and where it is.
        trouble: what keeps the run from being looked at.
        state: as in ``Now``.
        window: what part of the run is looked at.
        verdict, waits: who is slow and who waits, in sentences.
        whether_it_hangs: the answer to that.
        hangs: what hangs, or may be about to, in sentences.
        not_told: what the source of an imported run does not tell, in sentences.
        changes: the latest first.
        ranks: the worst first.
    """

    headline: str
    trouble: str = ""
    state: str = ""
    window: str = ""
    verdict: str = ""
    waits: str = ""
    whether_it_hangs: str = ""
    hangs: tuple[str, ...] = ()
    not_told: tuple[str, ...] = ()
    changes: tuple[ChangeLine, ...] = ()
    ranks: Table = Table("", [], [], "")


def head_of(snapshot: Snapshot, changes: Sequence[Change]) -> Head:
    """Return what the head of the page says of a snapshot, and of what changed before, the latest last."""
    now = now_of(snapshot)
    heads, rows = table_of_ranks(snapshot, worst_first(snapshot))
    shown = Shown(MOST_LINES, WORST, "timing-logger watch --all")
    lines = [ChangeLine(Instant.at(change.unix_s), what_changes(change)) for change in changes]
    return Head(
        headline=now.headline,
        state=now.state,
        window=looked_at(snapshot.window_s),
        verdict=capital(now.verdict.removeprefix("Verdict: ")),
        waits=now.waits,
        whether_it_hangs=_whether_it_hangs(now),
        hangs=now.hangs,
        not_told=now.not_told,
        changes=tuple(lines[: -MOST_CHANGES - 1 : -1]),
        ranks=Table("Ranks, the worst first", heads, rows, shown.note(len(snapshot.ranks))),
    )


_WHETHER_IT_HANGS = {
    "runs": "No.",
    "hangs": "Yes, as said above.",
    "silent": "Not that it is known: no process says that it lives.",
    "over": "No, it is over.",
}


def _whether_it_hangs(now: Now) -> str:
    if now.not_told and now.state != "hangs":
        return "Not as far as that is told."
    if now.hangs and now.state == "runs":
        return "Not yet, but see above."
    return _WHETHER_IT_HANGS[now.state]


def head_html(head: Head, seen_unix_s: float, since_unix_s: float) -> str:
    """Return the head of the page.

    Args:
        head: what it says.
        seen_unix_s, since_unix_s: when that was seen, and when the first look was, in seconds since 1970.
    """
    instants = {"seen": Instant.at(seen_unix_s), "since": Instant.at(since_unix_s)}
    return rendered("now.html.jinja", {"now": head, **instants})


def figures_of(timings: pd.DataFrame, verdict: Verdict) -> Findings:
    """Return the findings about the last seconds of a run.

    Args:
        timings: the rows of a window, as ``Window.timings`` returns them.
        verdict: that on the same window.
    """
    rows = timings.assign(timestamp=pd.Series(pd.NaT, timings.index, dtype="datetime64[us, UTC]"))
    rows.attrs["files"] = [{"path": "", "bytes": 0, "rows": 0, **file} for file in timings.attrs["files"]]
    found = Findings.of(rows)
    # Of the files only the ends were read: nothing can be said about whole files.
    summary = found.summary._replace(files=[], counters=[])
    return replace(found, summary=summary, verdict=verdict)


def live_page(
    title: str, head: str, script_data: Mapping[str, object], figures: Findings | None, *,
    window_s: float, made_unix_s: float,
) -> str:  # fmt: skip
    """Return the page over a run in progress, as one HTML document that asks only its own server.

    Args:
        title: what the run is called.
        head: as :func:`head_html` returns it.
        script_data: what the script needs to know to ask for more.
        figures: what :func:`figures_of` returns; None if there are no rows yet.
        window_s: how long the time is that ``figures`` are about, in seconds; NaN if unknown.
        made_unix_s: when they were made, in seconds since 1970.

    Raises:
        ConfigurationError: Jinja2 is not installed.
    """
    content, data = sections(figures, ()) if figures else ({}, {})
    instant = Instant.at(made_unix_s)
    further = {
        "title": title,
        "now": head,
        "window": looked_at(window_s),
        "figures_at": instant if figures else None,
        "data": as_script_data({**data, "live": script_data}),
    }
    return rendered("live.html.jinja", {**content, **surroundings("keeping.js", "following.js"), **further})


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
            page = live_page(
                self._title, html, state, figures.found, window_s=figures.window_s, made_unix_s=figures.unix_s
            )
            self._served = {**self._served, PAGE: page.encode()}
            figures.shown = figures.number
        self._served = {**self._served, NOW: strict_json({**state, "now": html}).encode()}

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

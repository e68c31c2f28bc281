"""The page over a run in progress: at its head what a person asks, below it the report on some seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from timing_logger.live.change_text import clock_time, iso_time, what_changes
from timing_logger.live.now import MOST_CHANGES, WORST, Now, looked_at, now_of, table_of_ranks, worst_first
from timing_logger.reading.named_ranks import capital
from timing_logger.report._limits import MOST_LINES
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._packing import as_script_data
from timing_logger.report.html._tables import Shown, Table
from timing_logger.report.html.page import rendered, sections, surroundings
from timing_logger.results.verdict import Verdict

if TYPE_CHECKING:
    from timing_logger.engine.changes import Change
    from timing_logger.live.snapshot import Snapshot


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
        ranks=_ranks(snapshot),
    )


_WHETHER_IT_HANGS = {
    "runs": "No.",
    "hangs": "Yes, as said above.",
    "silent": "Not that it is known: no process says that it lives.",
    "over": "No, it is over.",
}
_SEE_ABOVE = "Not yet, but see above."
_NOT_TOLD = "Not as far as that is told."


def _whether_it_hangs(now: Now) -> str:
    if now.not_told and now.state != "hangs":
        return _NOT_TOLD
    return _SEE_ABOVE if now.hangs and now.state == "runs" else _WHETHER_IT_HANGS[now.state]


def _ranks(snapshot: Snapshot) -> Table:
    heads, rows = table_of_ranks(snapshot, worst_first(snapshot))
    shown = Shown(MOST_LINES, WORST, "timing-logger watch --all")
    return Table("Ranks, the worst first", heads, rows, shown.note(len(snapshot.ranks)))


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

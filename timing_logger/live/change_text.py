"""What changes in a run in progress, in words: a line for each change."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from timing_logger.results.verdict import Verdict
from timing_logger.words.verdict import verdict_sentence

if TYPE_CHECKING:
    from timing_logger.engine.changes import Change

_AS_IT_IS = {"begins": "", "changes": "now: ", "ends": "over: "}


def change_text(change: Change) -> str:
    """Return a change in a line, which begins with the local time."""
    return f"{clock_time(change.unix_s)} {what_changes(change)}"


def what_changes(change: Change) -> str:
    """Return a change in a line, without its time."""
    return f"{_AS_IT_IS[change.kind]}{what_is_found(change.verdict)}"


def clock_time(unix_s: float) -> str:
    """Return the local time of day of an instant that is given in seconds since 1970."""
    return time.strftime("%H:%M:%S", time.localtime(unix_s))


def iso_time(unix_s: float) -> str:
    """Return such an instant for programs, with the offset of the local time from UTC."""
    return datetime.fromtimestamp(unix_s).astimezone().isoformat()


def what_is_found(verdict: Verdict) -> str:
    """Return in sentences what a verdict says of a run in progress, or the hang that came after it."""
    if verdict.end.hangs:
        return " ".join(verdict.end.sentences[:2])
    return verdict_sentence(verdict).removeprefix("Verdict: ")

"""How the processes of a run ended, in order of time: what ended a run is told apart from what it did."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from timing_logger.analysis.hangs.last_rows import INTERRUPTED, has_failed
from timing_logger.analysis.hangs.open_calls import Ending
from timing_logger.analysis.hangs.sidecar_state import LastWords

How: TypeAlias = Literal["closed", "interrupted", "signal", "killed", "failed"]


class Fate(NamedTuple):
    """How some ranks ended, in the same way.

    Attributes:
        how: ``closed``: the log was closed, and no error is known. ``interrupted``: by SIGINT, as Ctrl-C
            sends it. ``signal``: by another signal that the logger handled. ``killed``: without closing the
            log. ``failed``: by an exception.
        what: the signal, or the type of the exception; "" otherwise.
        ranks: the ranks, ascending.
    """

    how: How
    what: str
    ranks: tuple[int, ...]


def fates_of(ending: Ending) -> tuple[Fate, ...]:
    """Return how the ranks ended, of which it is known, the first to end first."""
    last = ending.rows[ending.rows["ended_s"].notna()].sort_values("ended_s").groupby("rank")["status"].last()
    found: dict[tuple[How, str], list[int]] = {}
    for rank in sorted(ending.words, key=lambda rank: ending.seen_s.get(rank, math.inf)):
        fate = _fate(ending.words[rank], str(last.get(rank, "")))
        if fate is not None:
            found.setdefault(fate, []).append(rank)
    return tuple(Fate(how, what, tuple(sorted(ranks))) for (how, what), ranks in found.items())


def by_signals(fates: Iterable[Fate]) -> bool:
    """Tell whether some rank was ended by a signal that it could handle."""
    return any(fate.how in ("interrupted", "signal") for fate in fates)


def _fate(one: LastWords, last_status: str) -> tuple[How, str] | None:
    if "KeyboardInterrupt" in one.ended_by or (one.closed and last_status in INTERRUPTED):
        return "interrupted", ""
    if one.signal:
        return "signal", one.signal
    if one.killed:
        return "killed", ""
    if not one.closed:
        return None
    if one.ended_by:
        return "failed", one.ended_by
    return ("failed", last_status.removeprefix("error:")) if has_failed(last_status) else ("closed", "")

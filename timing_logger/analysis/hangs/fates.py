"""Find how the ranks of a run ended, each by the surest sign."""

from __future__ import annotations

import math

from timing_logger.analysis.hangs.last_rows import INTERRUPTED, has_failed
from timing_logger.analysis.hangs.open_calls import Ending
from timing_logger.analysis.hangs.sidecar_state import LastWords
from timing_logger.results.run_end import Fate, How


def fates_of(ending: Ending) -> tuple[Fate, ...]:
    """Return how the ranks ended, of which it is known, the first to end first."""
    last = ending.rows[ending.rows["ended_s"].notna()].sort_values("ended_s").groupby("rank")["status"].last()
    found: dict[tuple[How, str], list[int]] = {}
    for rank in sorted(ending.words, key=lambda rank: ending.seen_s.get(rank, math.inf)):
        fate = _fate(ending.words[rank], str(last.get(rank, "")))
        if fate is not None:
            found.setdefault(fate, []).append(rank)
    return tuple(Fate(how, what, tuple(sorted(ranks))) for (how, what), ranks in found.items())


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

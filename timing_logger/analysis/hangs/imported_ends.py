"""What can be said of the end of a run that was imported from a source that does not tell it.

Its files are closed when the import ends, and open as long as it follows what grows: neither is of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from timing_logger.analysis.hangs.result import RunEnd, RunState
from timing_logger.analysis.hangs.sidecar_state import LastWords


def doubts_the_end(words: Mapping[int, LastWords]) -> bool:
    """Tell whether some file was made from what does not tell how the run ended."""
    return any("end" in one.not_told for one in words.values())


def as_far_as_told(end: RunEnd, words: Mapping[int, LastWords]) -> RunEnd:
    """Return the end of a run without what only the files of the import tell.

    Args:
        end: the end as it was if processes of the run had written the files, with its ``sentences``.
        words: what the sidecars say, by rank, of which some were made from what does not tell the end.
    """
    fates = tuple(fate for fate in end.fates if fate.how != "closed")
    if end.state not in ("ended", "unfinished", "running"):
        return replace(end, fates=fates)
    goes_on = any(one.goes_on for one in words.values())
    state: RunState = "running" if end.state == "running" and goes_on else "unknown"
    return replace(end, state=state, fates=fates, sentences=tuple(_sentences(end, goes_on)))


def _sentences(end: RunEnd, goes_on: bool) -> Iterable[str]:
    if end.state == "running":
        yield (
            "The import goes on, and follows what grows. Whether the run does is not told by what it was "
            "imported from."
        )
    elif goes_on:
        yield (
            "The import followed what grows, and had not ended when it was last heard of. How the run went "
            "on is not known."
        )
    else:
        yield "How the run ended is not told by what it was imported from."

"""One difference between two sides in words, as tables and charts have it."""

from __future__ import annotations

from timing_logger.analysis.comparison.result import Difference
from timing_logger.record import escape_text


def what_differs(one: Difference) -> str:
    """Return the name of what differs, marked if only one side has it, or if it is divided otherwise."""
    return f"{escape_text(one.operation)}{_mark(one)}"


def _mark(one: Difference) -> str:
    if one.does == "divided":
        return " (divided)"
    if one.n_runs and one.n_against:
        return ""
    return " (new)" if one.n_runs else " (gone)"


def of_what(one: Difference) -> str:
    """Return of what it is: its rank, or phase, group and layer; "" where nothing tells it apart."""
    if one.kind == "rank":
        return f"rank {one.rank}"
    if one.kind == "account":
        return "part of the step"
    return escape_text(", ".join(filter(None, (one.phase, one.group, one.layer))))


def is_sure(one: Difference) -> bool:
    """Tell whether a difference is beyond chance, as one of all that were compared."""
    return one.is_named and one.shift.is_shown


def signed(ms: float) -> str:
    """Return a difference in ms with its sign; of ends of intervals that are all noise, the magnitude."""
    return f"{ms:+.2f}" if abs(ms) < _MOST_MS else f"{ms:+.0e}"


_MOST_MS = 1e7

DIVIDED = "Divided: as many bytes in all, divided otherwise, among other calls, layers or buckets."
"""What the mark means."""

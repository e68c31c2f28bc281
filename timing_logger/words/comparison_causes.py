"""What explains a change between two sides, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from timing_logger.reading.named_ranks import capital, named_ranks
from timing_logger.results.comparison import Comparison, Difference, NewCause
from timing_logger.results.plain import UNLOGGED
from timing_logger.schema.record import COMPILE, GC, GRAPH_CAPTURE, IMPORT, escape_text
from timing_logger.words.comparison import PARTS
from timing_logger.words.units import as_duration, quoted, size

_PAUSES = {
    GC: "Garbage collections", COMPILE: "Compilations", IMPORT: "Imports", GRAPH_CAPTURE: "Captures of graphs"
}  # fmt: skip


def cause_sentences(found: Comparison) -> Iterator[str]:
    """Yield what explains the change, what says most first."""
    for cause in found.causes:
        yield _CAUSES[cause.kind](cause)


def _took(cause: NewCause) -> str:
    return f"{as_duration(cause.ms)} in each step against {as_duration(cause.against_ms)}"


def _rank(cause: NewCause) -> str:
    worse, where = cause.ms > cause.against_ms, ""
    if cause.operation:
        where = (
            " in code that no row covers"
            if cause.operation == UNLOGGED
            else f" in {escape_text(cause.operation)}"
        )
    who = capital(named_ranks(cause.ranks))
    verb = "fell behind" if worse else "caught up with"
    its = "its" if len(cause.ranks) == 1 else "their"
    return f"{who} {verb} {its} peers{where}: by {_took(cause)}."


def _pauses(cause: NewCause) -> str:
    name = _PAUSES.get(cause.operation, cause.operation)
    often = f"{cause.amount or 0:.2g} in a step against {cause.against_amount or 0:.2g}"
    return f"{name} ({escape_text(cause.operation)}) take {_took(cause)}; there are {often}."


def _bytes(cause: NewCause) -> str:
    layer = f", most of the difference in {quoted(cause.layer)}" if cause.layer else ""
    amounts = f"{size(cause.amount or 0.0)} against {size(cause.against_amount or 0.0)}"
    return f"{escape_text(cause.operation)} has {amounts} in a step{layer}. It takes {_took(cause)}."


def _count(cause: NewCause) -> str:
    amounts = f"{cause.amount or 0:.3g} times in a step against {cause.against_amount or 0:.3g}"
    return f"{escape_text(cause.operation)} is made {amounts}. It takes {_took(cause)}."


def _divided(cause: NewCause) -> str:
    often = f"{cause.amount or 0:.3g} times in a step against {cause.against_amount or 0:.3g}"
    return (
        f"{escape_text(cause.operation)} has as many bytes in all, divided otherwise: it is made {often}, in "
        f"other layers or buckets. It takes {_took(cause)}."
    )


def _new(cause: NewCause) -> str:
    return f"{escape_text(cause.operation)} is new: it takes {as_duration(cause.ms)} in each step."


def _gone(cause: NewCause) -> str:
    return f"{escape_text(cause.operation)} is gone: it took {as_duration(cause.against_ms)} in each step."


def _work(cause: NewCause) -> str:
    return f"{escape_text(cause.operation)} takes {_took(cause)}."


def _part(cause: NewCause) -> str:
    verb = "take" if cause.kind == "transfer" else "takes"
    return f"{PARTS[cause.kind]} {verb} {_took(cause)}."


_CAUSES: Mapping[str, Callable[[NewCause], str]] = {
    "rank": _rank, "pauses": _pauses, "bytes": _bytes, "divided": _divided, "count": _count, "new": _new,
    "gone": _gone, "work": _work, "not timed": _part, "transfer": _part, "waiting": _part,
}  # fmt: skip


# -- one difference between two sides in words, as tables and charts have it -----------------------------


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

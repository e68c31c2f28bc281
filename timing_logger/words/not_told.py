"""What the sources of imported runs do not tell and an answer would need: in words, and as plain values.

Each answer names here what it needs, whether it is read by a person or by a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from timing_logger.schema.record import escape_text
from timing_logger.schema.sidecar import NOT_TOLD
from timing_logger.words.units import listed, page, paragraph

NEEDED_BY: Mapping[str, tuple[str, ...]] = {
    "summary": tuple(NOT_TOLD),
    "summary --by": ("communication", "waits", "groups", "sizes", "own work"),
    "stragglers": ("communication", "waits", "groups", "own work"),
    "hang": ("communication", "instants", "groups", "peers", "end"),
    "waits": ("communication", "waits", "instants", "clocks", "groups", "peers", "own work"),
    "bandwidth": ("communication", "groups", "peers", "sizes"),
    "overlap": ("communication", "waits", "instants", "own work"),
    "what-if": ("communication", "waits", "instants", "groups", "peers", "sizes", "own work"),
    "compression": ("communication", "sizes"),
    "compare": ("communication", "waits", "groups", "sizes", "own work"),
    "report": tuple(NOT_TOLD),
    "trace": ("communication", "instants", "clocks", "groups", "peers", "own work"),
    "watch": ("communication", "waits", "groups", "own work", "end"),
}
"""What each answer needs, by the command that gives it and the names of ``sidecar.NOT_TOLD``."""

NEED_INSTANTS_OF_COMMUNICATION = frozenset(
    ("summary", "summary --by", "stragglers", "waits", "overlap", "what-if", "compare", "report", "watch")
)
"""The answers that need to know when communication was, where the source tells of any.

Steps that follow each other without gaps are as long as they were. What is between collectives is unknown."""

_UNKNOWN_WITHOUT_INSTANTS = (
    "Without instants it is not known who waited for whom, nor what share of the time anything took."
)

NotTold = Mapping[str, Sequence[str]]
"""What sources do not tell, by the kind of the import and the names of ``sidecar.NOT_TOLD``."""


def lacking_for(answer: str, not_told: NotTold) -> dict[str, list[str]]:
    """Return what an answer needs and sources do not tell, by the kind of the import.

    Args:
        answer: a key of :data:`NEEDED_BY`.
        not_told: what sources do not tell.
    """
    found = {}
    for kind, names in not_told.items():
        needed = {*NEEDED_BY[answer], *(("instants",) if _is_without_instants(answer, names) else ())}
        found[kind] = [name for name in NOT_TOLD if name in names and name in needed]
    return {kind: names for kind, names in found.items() if names}


def _is_without_instants(answer: str, names: Sequence[str]) -> bool:
    """Tell whether an answer is about communication of which it is not known when it was."""
    is_laid_out = "instants" in names and "communication" not in names
    return is_laid_out and answer in NEED_INSTANTS_OF_COMMUNICATION


def not_told_sentences(answer: str, not_told: NotTold) -> Iterable[str]:
    """Yield for each kind of import what it does not tell that an answer needs, and what follows of that."""
    for kind, names in lacking_for(answer, not_told).items():
        told = listed([NOT_TOLD[name] for name in names])
        follows = f" {_UNKNOWN_WITHOUT_INSTANTS}" if _is_without_instants(answer, not_told[kind]) else ""
        yield f"Imported ({escape_text(kind)}), from what does not tell {told}.{follows}"


def not_told_text(answer: str, not_told: NotTold, width: int) -> str:
    """Return these sentences as text; "" if there are none."""
    said = list(not_told_sentences(answer, not_told))
    return page(*paragraph(width, *said)) if said else ""


def not_told_values(answer: str, not_told: NotTold) -> list[dict[str, str]]:
    """Return the same as plain values: for each thing ``kind``, ``name`` and ``text``."""
    return [
        {"kind": kind, "name": name, "text": NOT_TOLD[name]}
        for kind, names in lacking_for(answer, not_told).items()
        for name in names
    ]

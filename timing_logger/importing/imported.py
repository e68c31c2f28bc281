"""What an import has made, and what of its input could not be used."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

MOST_REASONS = 100
"""Reasons of which each is counted by itself; a hostile file could otherwise bring any number."""

OTHER = "for other reasons"

_MOST_INTEGER = 2**62


class LeftOut(Counter[str]):
    """How many records could not be used, by reason."""

    def add(self, reason: str, n_records: int = 1) -> None:
        """Count records; beyond :data:`MOST_REASONS` reasons, under one for all others."""
        self[reason if reason in self or len(self) < MOST_REASONS else OTHER] += n_records

    @property
    def briefly(self) -> str:
        """The commonest reasons as they stand at the end of a sentence; "" without any."""
        told = "; ".join(f"{n}: {reason}" for reason, n in self.most_common(3))
        return f": {told}" if told else ""


def integer(value: Any) -> int | None:
    """Return a whole number of at least 0 that a row can hold; None for all else."""
    return value if type(value) is int and 0 <= value < _MOST_INTEGER else None


class Imported(NamedTuple):
    """The result of an import.

    Attributes:
        folder: the folder that was made.
        ranks: the ranks that have a timing file in it, ascending.
        rows: the number of rows in all files.
        left_out: how many records could not be used, by reason.
        not_told: what the source does not tell, by the names of ``sidecar.NOT_TOLD``.
        notes: what else there is to know, a sentence each.
    """

    folder: Path
    ranks: list[int]
    rows: int
    left_out: dict[str, int]
    not_told: list[str]
    notes: list[str]

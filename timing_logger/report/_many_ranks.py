"""Tables of hundreds of ranks: of each kind of row the ends and the middle, since nobody reads them all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

MOST_SHOWN = 16
"""More rows than these are not all shown."""

_AT_EACH_END = 2

_RowT = TypeVar("_RowT", bound=Mapping[str, Any])


def ends_and_middle(rows: Sequence[_RowT], name: str) -> list[_RowT]:
    """All rows if they are few; else those with the least and the most of ``name``, and the middle one.

    Of many the least comes first; a NaN counts as more than any number.
    """
    if len(rows) <= MOST_SHOWN:
        return list(rows)
    ordered = sorted(rows, key=lambda row: (row[name] != row[name], row[name]))
    middle = (len(rows) - 1) // 2
    return [*ordered[:_AT_EACH_END], ordered[middle], *ordered[-_AT_EACH_END:]]


def on_many_ranks(n_processes: int) -> Iterable[str]:
    """What must be known to read such tables."""
    if n_processes > MOST_SHOWN:
        yield (
            f"Of {n_processes} ranks each operation shows the two that spent least in it, the middle one, "
            "and the two that spent most; the table of ranks goes by their communication, and that of files "
            "shows those that are not complete. --ranks LIST shows the ranks that you name, --json all."
        )

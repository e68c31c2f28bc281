"""Selection of rows for tables of hundreds of ranks: the extremes and the middle of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

MOST_SHOWN = 16
"""The most rows that a table shows in full."""

_AT_EACH_END = 2

_RowT = TypeVar("_RowT", bound=Mapping[str, Any])


def ends_and_middle(rows: Sequence[_RowT], name: str) -> list[_RowT]:
    """Return all rows if they are few; else those with the extreme values of ``name``, and the middle one.

    In the latter case the smallest comes first; a NaN counts as more than any number.
    """
    if len(rows) <= MOST_SHOWN:
        return list(rows)
    ordered = sorted(rows, key=lambda row: (row[name] != row[name], row[name]))
    middle = (len(rows) - 1) // 2
    return [*ordered[:_AT_EACH_END], ordered[middle], *ordered[-_AT_EACH_END:]]


def on_many_ranks(n_processes: int) -> Iterable[str]:
    """Yield the sentence that explains which rows such tables show, if ``n_processes`` is large."""
    if n_processes > MOST_SHOWN:
        yield (
            f"Of {n_processes} ranks each operation shows the two that spent least in it, the middle one, "
            "and the two that spent most; the table of ranks goes by their communication, and that of files "
            "shows those that are not complete. --ranks LIST shows the ranks that you name, --json all."
        )

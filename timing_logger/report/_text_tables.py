"""Tables and paragraphs of a text report: columns, the formatting of cells, and the layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from timing_logger.record import escape_text
from timing_logger.report._drawing import drawn, new_table, wrapped
from timing_logger.report._wording import UNKNOWN, fixed

if TYPE_CHECKING:
    import pandas as pd

_LEAST_WIDTH_OF_NAMES = 14


class Column(NamedTuple):
    """One column of a table.

    Attributes:
        name: the column's name in the analysis.
        head: the text above the column.
        shown: converts a value to text.
    """

    name: str
    head: str
    shown: Callable[[Any], str] = str


def table_text(frame: pd.DataFrame, columns: Sequence[Column], width: int) -> str:
    """Return ``frame`` as a text table, without columns that are missing or hold no known value."""
    present = [column for column in columns if _tells_something(frame, column.name)]
    if not present:
        return "There are no such rows."
    table = new_table(*(column.head for column in present))
    cells_of = [_cells(frame, column) for column in present]
    for column, cells, drawn_column in zip(present, cells_of, table.columns, strict=True):
        drawn_column.no_wrap, drawn_column.overflow = False, "fold"
        drawn_column.min_width = _least_width(column, cells)
        if column.shown is as_word:
            drawn_column.justify = "left"
    for row in zip(*cells_of, strict=True):
        table.add_row(*row)
    return drawn(table, width)


def _least_width(column: Column, cells: Sequence[str]) -> int:
    """Return the minimum width of a column: heads wrap and long names fold, but figures stay whole."""
    longest = max(map(len, cells))
    if column.shown is as_word:
        longest = min(longest, _LEAST_WIDTH_OF_NAMES)
    return max(longest, *map(len, column.head.split()))


def _tells_something(frame: pd.DataFrame, name: str) -> bool:
    if name not in frame.columns:
        return False
    if name == "incarnation":
        return frame[name].nunique() > 1
    return bool((frame[name].notna() & (frame[name] != "")).any())


def _cells(frame: pd.DataFrame, column: Column) -> list[str]:
    return [_cell(value, column.shown) for value in frame[column.name].tolist()]


def _cell(value: Any, shown: Callable[[Any], str]) -> str:
    import pandas as pd

    return UNKNOWN if pd.isna(value) or value == "" else shown(value)


def as_ms(value: float) -> str:
    return fixed(value, 3)


def as_tenths(value: float) -> str:
    return fixed(value, 1)


def as_hundredths(value: float) -> str:
    return fixed(value, 2)


def as_gb_per_s(value: float) -> str:
    return f"{value:.3f}" if value >= 0.01 else f"{value:.1e}"


def as_word(value: Any) -> str:
    return escape_text(str(value))


def paragraph(width: int, *sentences: str) -> Iterable[str]:
    if sentences:
        yield "\n".join(wrapped(sentence, width) for sentence in sentences)


def page(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"

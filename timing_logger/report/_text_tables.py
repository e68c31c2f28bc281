"""Tables and paragraphs of a text report, drawn in plain ASCII of a given width."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from timing_logger.words.units import UNKNOWN, as_word, wrapped

if TYPE_CHECKING:
    from rich.table import Table


_LINES = "    \n    \n -- \n    \n    \n    \n    \n    \n"  # only a rule below the heads
_LEAST_WIDTH_OF_NAMES = 14
_BETWEEN = 2  # blanks between two columns


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


WHOSE = Column("rank", "rank"), Column("incarnation", "run")
"""The columns that name a process; the second one says nothing where each rank has one."""


def table_text(frame: pd.DataFrame, columns: Sequence[Column], width: int) -> str:
    """Return ``frame`` as a text table, without columns that are missing or hold no known value.

    A terminal that is too narrow shows the first columns, and a sentence names the others.
    """
    present = [column for column in columns if _tells_something(frame, column.name)]
    if not present:
        return "There are no such rows."
    cells_of = [_cells(frame, column) for column in present]
    widths = _widths(present, cells_of, width)
    shown, left_out = present[: len(widths)], ", ".join(column.head for column in present[len(widths) :])
    table = new_table(*(column.head for column in shown))
    for column, column_width, drawn_column in zip(shown, widths, table.columns, strict=True):
        drawn_column.no_wrap, drawn_column.overflow = False, "fold"
        drawn_column.width = column_width
        if column.shown is as_word:
            drawn_column.justify = "left"
    for row in zip(*cells_of[: len(widths)], strict=True):
        table.add_row(*row)
    note = f"\n{wrapped(f'No room for: {left_out}. A wider terminal shows them.', width)}" if left_out else ""
    return drawn(table, width) + note


def fits(frame: pd.DataFrame, columns: Sequence[Column], width: int) -> bool:
    """Tell whether a terminal of this width has room for all columns that :func:`table_text` would draw."""
    present = [column for column in columns if _tells_something(frame, column.name)]
    return len(_widths(present, [_cells(frame, column) for column in present], width)) == len(present)


def _widths(columns: Sequence[Column], cells_of: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the widths of the first columns that fit; room that is left goes to the first of them."""
    widths: list[int] = []
    left = width + _BETWEEN
    for needed in map(_least_width, columns, cells_of):
        left -= needed + _BETWEEN
        if left < 0 and widths:
            left += needed + _BETWEEN
            break
        widths.append(needed)
    for at, (column, cells) in enumerate(zip(columns[: len(widths)], cells_of, strict=False)):
        more = max(0, min(left, max(len(column.head), *map(len, cells)) - widths[at]))
        widths[at] += more
        left -= more
    return widths


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
    return UNKNOWN if pd.isna(value) or value == "" else shown(value)


# -- drawing -------------------------------------------------------------------------------------


def new_table(first: str, *others: str) -> Table:
    from rich.box import Box
    from rich.table import Table

    table = Table(box=Box(_LINES, ascii=True), pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column(first, overflow="fold")
    for head in others:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def drawn(table: Table, width: int) -> str:
    from rich.console import Console

    page = StringIO()
    console = Console(
        file=page, width=width, color_system=None, force_terminal=False, legacy_windows=False,
        markup=False, emoji=False, highlight=False,
    )  # fmt: skip
    console.print(table)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines()).rstrip()


def bar(value: float, most: float, width: int) -> str:
    """Return a bar of ``#`` for ``value``, ``width`` long at ``most``; every value above 0 is visible."""
    return "#" * math.ceil(width * value / most) if most > 0 else ""

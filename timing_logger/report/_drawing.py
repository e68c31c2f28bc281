"""Drawing of reports for a terminal: plain ASCII of a given width."""

from __future__ import annotations

import math
import textwrap
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_LINES = "    \n    \n -- \n    \n    \n    \n    \n    \n"  # only a rule below the heads


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


def wrapped(line: str, width: int) -> str:
    return textwrap.fill(line, width, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)


def bar(value: float, most: float, width: int) -> str:
    """Return a bar of ``#`` for ``value``, ``width`` long at ``most``; every value above 0 is visible."""
    return "#" * math.ceil(width * value / most) if most > 0 else ""

"""How reports are drawn in a terminal: tables in plain ASCII, and figures in words with their units."""

from __future__ import annotations

import math
import textwrap
from io import StringIO
from typing import TYPE_CHECKING, Any

from timing_logger.record import escape_text

if TYPE_CHECKING:
    from rich.table import Table

UNKNOWN = "-"

_LINES = "    \n    \n -- \n    \n    \n    \n    \n    \n"  # a rule below the heads and nothing else
_MAX_QUOTED = 60


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


def quoted(text: str) -> str:
    shown = escape_text(text)
    return f"'{shown}'" if len(shown) <= _MAX_QUOTED else f"'{shown[:_MAX_QUOTED]}...'"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def or_unknown(value: Any) -> str:
    return UNKNOWN if value is None else str(value)


def fixed(value: float, decimals: int) -> str:
    return UNKNOWN if math.isnan(value) else f"{value:.{decimals}f}"


def percent(share: float) -> str:
    return UNKNOWN if math.isnan(share) else f"{100 * share:.1f}%"


def seconds(ms: float) -> str:
    return f"{ms / 1000:.2f} s" if ms >= 100 else f"{ms / 1000:.3g} s"


def size(n_bytes: float) -> str:
    if math.isnan(n_bytes):
        return UNKNOWN
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= factor:
            return (
                f"{n_bytes / factor:.3g} {unit}"
                if n_bytes < 999.5 * factor
                else f"{n_bytes / factor:.0f} {unit}"
            )
    return f"{n_bytes:.0f} B"


def bar(value: float, most: float, width: int) -> str:
    """As long as ``value`` is of ``most``; anything above nothing is seen."""
    return "#" * math.ceil(width * value / most) if most > 0 else ""

"""Tables of figures for the template."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, SupportsFloat, TypedDict

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.arrays import Array
from timing_logger.schema.record import escape_text
from timing_logger.words.units import UNKNOWN, fixed, percent, size


class Packed(TypedDict):
    """An array, as the page holds it."""

    dtype: str
    deflated: str


def packed(values: Array, dtype: str) -> Packed:
    """Encode an array for ``unpack`` of packed.js: little-endian, deflated, in base64.

    Args:
        dtype: ``float64``, ``float32``, ``uint32``, ``int32`` or ``uint16``.
    """
    raw = np.ascontiguousarray(values, np.dtype(dtype).newbyteorder("<")).tobytes()
    # Level 1 is three times as fast as the default, at the cost of a tenth more bytes.
    return {"dtype": dtype, "deflated": base64.b64encode(zlib.compress(raw, 1)).decode()}


def as_script_data(content: Mapping[str, object]) -> str:
    """Return JSON that is safe inside a ``script`` element, whatever its strings are.

    Such an element ends at the first ``</script`` and knows no entities. In JSON ``<`` can only occur within
    strings, where its escape means the same.
    """
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


MAX_ROWS = 1000
"""The most rows of a table behind a chart; a longer one is cut, and the page says so."""


class Shown(NamedTuple):
    """Which rows of a long table are shown.

    Attributes:
        most: how many.
        which: what they are, after "these are"; "" for the first.
        command: what has all rows.
    """

    most: int
    which: str
    command: str

    def note(self, n_rows: int) -> str:
        """Return the sentence on the rows that are left out; "" if none is."""
        if n_rows <= self.most:
            return ""
        if not self.which:
            return f"The first {self.most} of {n_rows} rows."
        shown = f"Of {n_rows:,} rows these are the {self.most} {self.which}"
        return f"{shown}; the other {n_rows - self.most:,} are not shown. {self.command} has all."


FIRST = Shown(MAX_ROWS, "", "")
"""The first rows, of a run of few ranks."""


class Table(NamedTuple):
    """Rows of a table as text, and a sentence on those that are left out, "" if none is."""

    caption: str
    heads: list[str]
    rows: list[list[str]]
    note: str


class Tick(NamedTuple):
    """A label of an axis, and where it is."""

    at: float
    label: str


class PageColumn(NamedTuple):
    """One column of a table: its head, and how its values are formatted."""

    head: str
    written: Callable[[Any], str]


def table_of(
    frame: pd.DataFrame, caption: str, columns: Mapping[str, PageColumn], which: Shown = FIRST
) -> Table:
    """Return the first rows of ``frame``, with a column for each name in ``columns``."""
    shown = frame.head(which.most)
    written = [map(column.written, shown[name].tolist()) for name, column in columns.items()]
    rows = [list(cells) for cells in zip(*written, strict=True)]
    return Table(caption, [column.head for column in columns.values()], rows, which.note(len(frame)))


def table(caption: str, heads: Sequence[str], rows: Sequence[list[str]], which: Shown = FIRST) -> Table:
    return Table(caption, list(heads), list(rows[: which.most]), which.note(len(rows)))


def decimals(digits: int) -> Callable[[SupportsFloat], str]:
    """Return a function that formats numbers with ``digits`` decimals."""
    return lambda value: fixed(_number(value), digits)


def integer(value: SupportsFloat) -> str:
    number = _number(value)
    return UNKNOWN if math.isnan(number) else f"{number:.0f}"


def share(value: SupportsFloat) -> str:
    return percent(_number(value))


def byte_size(value: SupportsFloat) -> str:
    return size(_number(value))


def significant(value: SupportsFloat) -> str:
    """Format a value with three significant digits, without an exponent."""
    number = _number(value)
    if math.isnan(number):
        return UNKNOWN
    digits = 2 if number == 0 else 2 - math.floor(math.log10(abs(number)))
    return f"{number:.{min(max(digits, 0), 9)}f}"


def text(value: object) -> str:
    return escape_text(str(value)) if value else UNKNOWN


def _number(value: SupportsFloat) -> float:
    """Convert a value to float; pandas' kinds of unknown numbers become NaN."""
    try:
        return float(value)
    except TypeError:
        return math.nan

"""A large timing file -> compact columns, by DuckDB on all cores; only if nothing is wrong with the file.

Plain is a file as the logger leaves it at its end: its own header, whole lines, and in every cell what the
logger writes there. Of any other file nothing is said but that: ``_parsing`` looks at its lines one by one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger._parsing import Parsed, unescaped
from timing_logger.record import COLUMNS, FIELDS, HEADER, Kind

if TYPE_CHECKING:
    import duckdb

_BLOCK_BYTES = 2**23
_VECTORS_PER_CHUNK = 64  # of 2048 rows
_BETWEEN_TEXTS = "\x1f"  # a control character: in the cells it is escaped

# DuckDB takes these spaces for no part of the cell, others do.
_SPACED_QUOTES = re.compile(rb'(?:^|,)[ \t]+"|"[ \t]+(?:,|$)', re.MULTILINE)

# What DuckDB would read as a number or an instant is more than that (``1e3`` is an integer to it).
_PLAIN_CELLS: dict[Kind, str] = {
    "integer": "-?[0-9]{0,18}",
    "milliseconds": r"(?:[0-9]+\.[0-9]+)?",
    "seconds": r"(?:[0-9]+\.[0-9]+)?",
    "timestamp": r"[12][0-9]{3}-[01][0-9]-[0-3][0-9]T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}",
}

_Ints = npt.NDArray[np.int64]


def parse_plain_file(path: Path, columns: Collection[str]) -> Parsed | None:
    """The content of a plain timing file; None if it is not plain, or changes meanwhile.

    Args:
        path: a regular file.
        columns: of ``record.COLUMNS``, those that the frame shall have. Text comes as categoricals.
    """
    import duckdb

    n_rows = _rows_of_whole_lines(path)
    if n_rows is None:
        return None
    chosen = [field for field in FIELDS if field.name in columns]
    numbers = [field.name for field in chosen if field.kind != "text"]
    table = _Table(n_rows, numbers, [field.name for field in chosen if field.kind == "text"])
    try:
        with duckdb.connect() as database:
            for chunk in _chunks(database, path, table):
                table.append(chunk)
    except (duckdb.Error, _NotPlain):
        return None
    return Parsed(path.stat().st_size, table.frame(), "", 0, []) if table.is_full else None


class _NotPlain(ValueError):
    """A cell holds what the logger would not have written like this."""


def _rows_of_whole_lines(path: Path) -> int | None:
    """How many lines follow the header; None if the file's bytes show that it is not plain."""
    n_lines, block = 0, b""
    with path.open("rb") as file:
        if file.readline(len(HEADER)) != HEADER.encode():
            return None
        while more := file.read(_BLOCK_BYTES):
            block = more
            if b"\0" in block or b"\r" in block or (b'"' in block and _SPACED_QUOTES.search(block)):
                return None
            n_lines += block.count(b"\n")
    return n_lines if block.endswith(b"\n") or not block else None


# -- the query -------------------------------------------------------------------------------------


def _chunks(database: duckdb.DuckDBPyConnection, path: Path, table: _Table) -> Iterator[pd.DataFrame]:
    cells = "{" + ", ".join(f"'{name}': 'VARCHAR'" for name in COLUMNS) + "}"
    found = database.execute(
        f"""SELECT {", ".join(_selected(table))}
        FROM read_csv(?, columns = {cells}, header = true, auto_detect = false, delim = ',', quote = '"',
                      escape = '"', new_line = '\\n', strict_mode = true, nullstr = '',
                      allow_quoted_nulls = false)""",
        [_without_wildcards(path)],
    )
    while len(chunk := found.fetch_df_chunk(_VECTORS_PER_CHUNK)):
        yield chunk


def _without_wildcards(path: Path) -> str:
    return re.sub(r"([*?\[])", r"[\1]", str(path.resolve()))


def _selected(table: _Table) -> Iterator[str]:
    """Numbers with 0 or NaN where blank, texts joined into one, and whether all cells are plain."""
    kinds = {field.name: field.kind for field in FIELDS}
    for name in table.numbers:
        if kinds[name] == "integer":
            yield f'coalesce(CAST("{name}" AS BIGINT), 0) AS "{name}"'
            yield f'"{name}" IS NULL AS "{name} is blank"'
        elif kinds[name] == "timestamp":
            yield f'epoch_us(CAST("{name}" AS TIMESTAMP)) AS "{name}"'
        else:
            yield f'coalesce(CAST("{name}" AS DOUBLE), \'nan\') AS "{name}"'
    texts = [f"coalesce(\"{name}\", '')" for name in table.texts] or ["''"]
    yield f"concat_ws(chr({ord(_BETWEEN_TEXTS)}), {', '.join(texts)}) AS texts"
    yield f"{_is_plain()} AS plain"


def _is_plain() -> str:
    checked = [field for field in FIELDS if field.kind in _PLAIN_CELLS]
    cells = ", ',', ".join(f'"{field.name}"' for field in checked)
    pattern = ",".join(_PLAIN_CELLS[field.kind] for field in checked)
    # The pattern lets 31 February pass; the cast does not.
    return f"(regexp_full_match(concat({cells}), '{pattern}') AND CAST(timestamp AS TIMESTAMP) IS NOT NULL)"


# -- the rows ----------------------------------------------------------------------------------------


class _Table:
    """Columns of known length, filled chunk by chunk, so that no second copy of them is ever made."""

    def __init__(self, n_rows: int, numbers: Sequence[str], texts: Sequence[str]) -> None:
        self.numbers, self.texts = list(numbers), list(texts)
        self._kinds = {field.name: field.kind for field in FIELDS}
        self._values = {name: np.empty(n_rows, self._dtype(name)) for name in numbers}
        self._blank = {name: np.empty(n_rows, np.bool_) for name in numbers if self._is_integer(name)}
        self._combination = np.empty(n_rows, np.int32)
        self._combinations: dict[str, int] = {}
        self._n_rows, self._filled = n_rows, 0

    @property
    def is_full(self) -> bool:
        return self._filled == self._n_rows

    def append(self, chunk: pd.DataFrame) -> None:
        """Raises ``_NotPlain`` if a cell is not plain, or there are more rows than the file had lines."""
        end = self._filled + len(chunk)
        if end > self._n_rows or not chunk["plain"].all():
            raise _NotPlain
        rows = slice(self._filled, end)
        for name, values in self._values.items():
            values[rows] = chunk[name]
        for name, blank in self._blank.items():
            blank[rows] = chunk[f"{name} is blank"]
        codes, distinct = pd.factorize(chunk["texts"].to_numpy(dtype=object))
        known = [self._combinations.setdefault(texts, len(self._combinations)) for texts in distinct]
        self._combination[rows] = np.array(known, np.int32)[codes]
        self._filled = end

    def frame(self) -> pd.DataFrame:
        texts = self._categoricals()
        columns = {
            name: self._column(name) if name in self._values else texts[name]
            for name in COLUMNS
            if name in self._values or name in texts
        }
        frame: pd.DataFrame = pd.DataFrame(columns, index=pd.RangeIndex(self._n_rows), copy=False)
        return frame

    def _is_integer(self, name: str) -> bool:
        return self._kinds[name] == "integer"

    def _dtype(self, name: str) -> Any:
        return np.int64 if self._kinds[name] in ("integer", "timestamp") else np.float64

    def _column(self, name: str) -> Any:
        values = self._values[name]
        if self._is_integer(name):
            return pd.arrays.IntegerArray(values, self._blank[name])
        if self._kinds[name] == "timestamp":
            return pd.Series(values.view("datetime64[us]"), copy=False).dt.tz_localize("UTC")
        return values

    def _categoricals(self) -> dict[str, pd.Categorical]:
        """One for each column of text, its categories in ascending order."""
        split = [texts.split(_BETWEEN_TEXTS) for texts in self._combinations]
        if not self.texts:
            return {}
        if any(len(cells) != len(self.texts) for cells in split):
            raise _NotPlain
        columns = list(zip(*split, strict=True)) or [()] * len(self.texts)
        return {
            name: _categorical([unescaped(cell) for cell in cells], self._combination)
            for name, cells in zip(self.texts, columns, strict=True)
        }


def _categorical(texts: Sequence[str], row: npt.NDArray[np.int32]) -> pd.Categorical:
    """``texts[row[i]]`` in each row ``i``."""
    categories = sorted(set(texts))
    code = {text: i for i, text in enumerate(categories)}
    code_of_text = np.array([code[text] for text in texts], np.min_scalar_type(-len(categories) - 1))
    return pd.Categorical.from_codes(code_of_text[row], pd.Index(categories, dtype="str"))

"""Read a plain timing file into chunks of columns with DuckDB's parser on all cores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from timing_logger.reading.chunks import Chunk, NotPlain, plain_header
from timing_logger.record import FIELDS, Field, Kind

_BLOCK_BYTES = 2**17  # stays in a core's cache
_VECTORS_PER_CHUNK = 64  # of 2048 rows
_BETWEEN_TEXTS = "\x1f"  # a control character: in the cells it is escaped

# DuckDB does not count these spaces as a part of the cell, other parsers do.
_SPACED_QUOTES = re.compile(rb'(?:^|,)[ \t]+"|"[ \t]+(?:,|$)', re.MULTILINE)
_LONGEST_LOOK_BACK = 8  # from one block into the one before

# DuckDB ignores one extra blank cell at the end of a line. In a plain file the last cell may be blank, but
# not the one before it: so two blanks at the end are one too many, and so is one if DuckDB's last cell is not
# blank.
_BLANK_AT_THE_END = b",\n"
_BLANKS_AT_THE_END = b",,\n"

# DuckDB would read more than this as a number or an instant (it reads ``1e3`` as an integer).
_PLAIN_CELLS: dict[Kind, str] = {
    "integer": "-?[0-9]{0,18}",
    "milliseconds": r"(?:[0-9]+\.[0-9]+)?",
    "seconds": r"(?:[0-9]+\.[0-9]+)?",
    "timestamp": r"[12][0-9]{3}-[01][0-9]-[0-3][0-9]T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}",
}


def scan_by_duckdb(path: Path, fields: Sequence[Field]) -> Iterator[Chunk]:
    """Yield the chunks of a file, with those of the columns ``fields`` that it has.

    Args:
        path: the file.
        fields: the wanted columns.

    Raises:
        NotPlain: the file is not plain, or changes meanwhile; discard the chunks that came before.
    """
    names, header_bytes = plain_header(path)
    fields = [field for field in fields if field.name in names]
    n_rows, n_blank_ends = _whole_lines(path, header_bytes)
    try:
        with duckdb.connect() as database:
            database.execute("SET enable_progress_bar = false")  # it would draw on stderr
            for rows in _query(database, path, names, fields):
                n_rows -= len(rows)
                n_blank_ends -= int(rows["blank at the end"].sum())
                yield _chunk(rows, fields)
    except duckdb.Error:
        raise NotPlain from None
    if n_rows or n_blank_ends:
        raise NotPlain


def _whole_lines(path: Path, header_bytes: int) -> tuple[int, int]:
    """Count the lines after the header, and those of them that end in a blank cell.

    Raises:
        NotPlain: DuckDB would read some of the file's bytes in its own way.
    """
    n_lines, n_blank_ends, block = 0, 0, b"\n"
    with path.open("rb") as file:
        file.seek(header_bytes)
        while more := file.read(_BLOCK_BYTES):
            before = block[-_LONGEST_LOOK_BACK:]
            block = before + more
            if b"\0" in block or b"\r" in block or (b'"' in block and _SPACED_QUOTES.search(block)):
                raise NotPlain
            if _BLANKS_AT_THE_END in block:
                raise NotPlain
            n_lines += more.count(b"\n")
            n_blank_ends += block.count(_BLANK_AT_THE_END) - before.count(_BLANK_AT_THE_END)
    if not block.endswith(b"\n"):
        raise NotPlain
    return n_lines, n_blank_ends


# -- the query -------------------------------------------------------------------------------------


def _query(
    database: duckdb.DuckDBPyConnection, path: Path, names: Sequence[str], fields: Sequence[Field]
) -> Iterator[pd.DataFrame]:
    cells = "{" + ", ".join(f"'{name}': 'VARCHAR'" for name in names) + "}"
    found = database.execute(
        f"""SELECT {", ".join(_selected(fields))}, "{names[-1]}" IS NULL AS "blank at the end"
        FROM read_csv(?, columns = {cells}, header = true, auto_detect = false, delim = ',', quote = '"',
                      escape = '"', new_line = '\\n', strict_mode = true, nullstr = '',
                      allow_quoted_nulls = false)""",
        [_without_wildcards(path)],
    )
    while len(rows := found.fetch_df_chunk(_VECTORS_PER_CHUNK)):
        yield rows


def _without_wildcards(path: Path) -> str:
    return re.sub(r"([*?\[])", r"[\1]", str(path.resolve()))


def _selected(fields: Sequence[Field]) -> Iterator[str]:
    """Yield the expressions to select.

    They are numbers with 0 or NaN where blank, texts joined into one, and whether all cells are plain.
    """
    for name, kind, _ in fields:
        if kind == "integer":
            yield f'coalesce(CAST("{name}" AS BIGINT), 0) AS "{name}"'
            yield f'"{name}" IS NULL AS "{name} is blank"'
        elif kind == "timestamp":
            yield f'epoch_us(CAST("{name}" AS TIMESTAMP)) AS "{name}"'
        elif kind != "text":
            yield f'coalesce(CAST("{name}" AS DOUBLE), \'nan\') AS "{name}"'
    texts = [f"coalesce(\"{field.name}\", '')" for field in fields if field.kind == "text"] or ["''"]
    yield f"concat_ws(chr({ord(_BETWEEN_TEXTS)}), {', '.join(texts)}) AS texts"
    yield f"{_is_plain()} AS plain"


def _is_plain() -> str:
    checked = [field for field in FIELDS if field.kind in _PLAIN_CELLS]
    cells = ", ',', ".join(f'"{field.name}"' for field in checked)
    pattern = ",".join(_PLAIN_CELLS[field.kind] for field in checked)
    # The pattern lets 31 February pass; the cast does not.
    return f"(regexp_full_match(concat({cells}), '{pattern}') AND CAST(timestamp AS TIMESTAMP) IS NOT NULL)"


# -- its rows --------------------------------------------------------------------------------------


def _chunk(rows: pd.DataFrame, fields: Sequence[Field]) -> Chunk:
    if not rows["plain"].all():
        raise NotPlain
    numbers = {field.name: rows[field.name].to_numpy() for field in fields if field.kind != "text"}
    blank = {
        field.name: rows[f"{field.name} is blank"].to_numpy(np.bool_)
        for field in fields
        if field.kind == "integer"
    }
    codes, distinct = pd.factorize(rows["texts"].to_numpy(dtype=object))
    names = [field.name for field in fields if field.kind == "text"]
    split = [texts.split(_BETWEEN_TEXTS) for texts in distinct]
    if names and any(len(cells) != len(names) for cells in split):
        raise NotPlain
    columns = list(zip(*split, strict=True))
    return Chunk(numbers, blank, {name: (codes, columns[i]) for i, name in enumerate(names)})

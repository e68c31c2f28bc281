"""Read a large timing file into compact columns with pyarrow, on all cores, if the file is plain.

A plain file is as the logger leaves it at its end: with the header of any version, whole lines, and in every
cell what the logger writes there. Any other file is only reported as not plain: ``csv_lines`` examines its
lines one by one.

Whatever pyarrow reads as a number or an instant, ``csv_lines`` reads alike or refuses. Other deviations that
pyarrow would accept are checked for here.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.process.shared_files import opened
from timing_logger.reading.content import Content
from timing_logger.reading.csv_lines import Parsed, unescaped
from timing_logger.reading.machine import usable_cores
from timing_logger.schema.record import COLUMNS, EARLIER_COLUMNS, FIELDS, Field, Kind

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_BLOCK_BYTES = 2**22

PLAIN_HEADERS = {f"{','.join(names)}\n".encode(): names for names in (*EARLIER_COLUMNS, COLUMNS)}
"""The headers that the logger writes, in any version, and the columns that they name."""

_HEXADECIMAL = re.compile(rb'[,"\n][ \t]*-?0[xX]')  # Arrow reads it as an integer
_FIRST_YEAR = np.datetime64("1000", "us").astype(np.int64)  # Arrow knows earlier ones, down to the year 0

_NumberT = TypeVar("_NumberT", bound=np.generic)

Indices: TypeAlias = "npt.NDArray[np.signedinteger[Any]]"

Block: TypeAlias = "dict[str, pa.Array]"
"""The columns of successive lines, by name."""


def has_pyarrow() -> bool:
    """Tell whether pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def parse_plain_file(path: Path, columns: Collection[str]) -> Parsed | None:
    """Parse a plain timing file; return None if it is not plain, or changes meanwhile.

    Args:
        path: a regular file.
        columns: the columns that the frame shall have, of ``record.COLUMNS``. Text comes as categoricals.
    """
    import pyarrow as pa

    fields = [field for field in FIELDS if field.name in columns]
    n_bytes = path.stat().st_size
    try:
        names, header_bytes = _plain_header(path)
        with ThreadPoolExecutor(usable_cores()) as workers:
            block = partial(_block, path, names, fields)
            blocks = list(workers.map(block, *_borders(path, header_bytes)))
    except NotPlain:
        return None
    if path.stat().st_size != n_bytes:
        return None
    frame = _joined_blocks(blocks, fields)
    pa.default_memory_pool().release_unused()
    return Parsed(frame, Content(len(frame), n_bytes, ""))


def parse_plain_lines(lines: bytes, header: bytes, columns: Collection[str]) -> pd.DataFrame | None:
    """Parse whole lines below a header, of one plain file or several; None if one is not plain.

    Args:
        lines: the lines, without headers.
        header: the header of all these files, of :data:`PLAIN_HEADERS`.
        columns: the columns that the frame shall have, of ``record.COLUMNS``. Text comes as categoricals.
    """
    fields = [field for field in FIELDS if field.name in columns]
    try:
        block = [_parsed_block(lines, PLAIN_HEADERS[header], fields)] if lines else []
    except NotPlain:
        return None
    return _joined_blocks(block, fields)


class NotPlain(ValueError):
    """The file holds something that the logger would not have written like this."""


# -- a file -> blocks of its columns -----------------------------------------------------------------


def _plain_header(path: Path) -> tuple[tuple[str, ...], int]:
    """Return the names of the columns, and the number of bytes of the header."""
    with opened(path) as file:
        header = file.readline(max(map(len, PLAIN_HEADERS)))
    if header not in PLAIN_HEADERS:
        raise NotPlain
    return PLAIN_HEADERS[header], len(header)


def _borders(path: Path, start: int) -> tuple[list[int], list[int]]:
    """Return the starts and ends of blocks of whole lines, from position ``start`` on."""
    with opened(path) as file:
        n_bytes = file.seek(0, 2)
        borders = [start]
        while borders[-1] < n_bytes:
            file.seek(borders[-1] + _BLOCK_BYTES)
            file.readline()
            borders.append(min(file.tell(), n_bytes))
    return borders[:-1], borders[1:]


def _block(path: Path, names: Sequence[str], fields: Sequence[Field], start: int, end: int) -> Block:
    with opened(path) as file:
        file.seek(start)
        return _parsed_block(file.read(end - start), names, fields)


def _parsed_block(block: bytes, names: Sequence[str], fields: Sequence[Field]) -> Block:
    import pyarrow as pa
    from pyarrow import csv

    _check_bytes(block)
    is_ascii = block.isascii()  # else unwanted text is read too, to check that it is UTF-8
    there = [field for field in FIELDS if field.name in names]
    read = [field for field in there if field in fields or field.kind != "text" or not is_ascii]
    reading = csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names)
    parsing = csv.ParseOptions(ignore_empty_lines=False, newlines_in_values=False)
    try:
        table = csv.read_csv(pa.BufferReader(block), reading, parsing, _conversion(read))
    except pa.ArrowInvalid:
        raise NotPlain from None
    if b'"' in block and len(table) != block.count(b"\n"):  # a line end between quotes
        raise NotPlain
    columns = {field.name: table[field.name].combine_chunks() for field in read}
    for field in read:
        _check_values(field, columns[field.name])
    return {field.name: columns[field.name] for field in fields if field in there}


def arrow_types() -> dict[Kind, pa.DataType]:
    """Return Arrow's type for each kind of column; instants are without a time zone."""
    import pyarrow as pa

    return {
        "timestamp": pa.timestamp("us"),
        "integer": pa.int64(),
        "text": pa.dictionary(pa.int32(), pa.string()),
        "milliseconds": pa.float64(),
        "seconds": pa.float64(),
        "amount": pa.float64(),
    }


def _conversion(fields: Sequence[Field]) -> object:
    from pyarrow import csv

    types = arrow_types()
    return csv.ConvertOptions(
        column_types={field.name: types[field.kind] for field in fields},
        include_columns=[field.name for field in fields],
        null_values=[""],
        strings_can_be_null=False,
        quoted_strings_can_be_null=False,
    )


def _check_bytes(block: bytes) -> None:
    """Raise ``NotPlain`` if Arrow would read some of the bytes in its own way."""
    if b"\0" in block or b"\r" in block or _has_hexadecimal(block) or not block.endswith(b"\n"):
        raise NotPlain
    if b'"' in block and b',"\n' in block:  # a quote without its partner: the rest would be its cell
        raise NotPlain


def _has_hexadecimal(block: bytes) -> bool:
    """Tell whether a cell may be a hexadecimal number.

    Single bytes are found ten times as fast as pairs, and pairs a hundred times as fast as patterns.
    """
    may_have = any(letter in block and b"0" + letter in block for letter in (b"x", b"X"))
    return may_have and _HEXADECIMAL.search(block) is not None


def _check_values(field: Field, column: pa.Array) -> None:
    """Raise ``NotPlain`` for an instant or a duration that the logger does not write."""
    is_plain = True
    if field.kind == "timestamp":
        is_plain = not column.null_count and _microseconds(column).min(initial=_FIRST_YEAR) >= _FIRST_YEAR
    elif field.kind in ("milliseconds", "seconds", "amount"):
        known = np.isfinite(_floats(column))
        is_plain = int(np.count_nonzero(known)) + column.null_count == len(column)
    if not is_plain:
        raise NotPlain


# -- blocks -> one table -----------------------------------------------------------------------------


def _joined_blocks(blocks: list[Block], fields: Sequence[Field]) -> pd.DataFrame:
    """Join blocks into one table of the columns ``fields``, with text as categoricals.

    This empties the blocks, so that only one column at a time is held twice. What the file lacks, because it
    is older than the column, is blank.
    """
    there = [field for field in fields if all(field.name in block for block in blocks)]
    columns = {field.name: _joined(field, [block.pop(field.name) for block in blocks]) for field in there}
    frame: pd.DataFrame = pd.DataFrame(columns, copy=False)
    for field in fields:
        if field not in there:
            frame[field.name] = blanks(field, len(frame))
    return frame


def blanks(field: Field, length: int) -> Any:
    """Return a column of which a file has no value; text as a categorical."""
    if field.kind == "text":
        return _categorical([(np.zeros(length, np.int8), [""])])
    if field.kind == "integer":
        return pd.arrays.IntegerArray(np.zeros(length, np.int64), np.ones(length, np.bool_))
    return np.full(length, np.nan)


def _joined(
    field: Field, pieces: list[pa.Array]
) -> pd.Categorical | pd.arrays.IntegerArray | pd.Series[pd.Timestamp] | npt.NDArray[np.float64]:
    if field.kind == "text":
        return _categorical([(piece.indices.to_numpy(), piece.dictionary.to_pylist()) for piece in pieces])
    if field.kind == "integer":
        blank = _concatenated([piece.is_null().to_numpy(zero_copy_only=False) for piece in pieces], np.bool_)
        return pd.arrays.IntegerArray(
            _concatenated([piece.fill_null(0).to_numpy() for piece in pieces], np.int64), blank
        )
    if field.kind == "timestamp":
        instants = _concatenated([_microseconds(piece) for piece in pieces], np.int64)
        in_utc: pd.Series[pd.Timestamp] = pd.Series(instants.view("datetime64[us]")).dt.tz_localize("UTC")
        return in_utc
    return _concatenated([_floats(piece) for piece in pieces], np.float64)


def _microseconds(column: pa.Array) -> npt.NDArray[np.int64]:
    import pyarrow as pa

    instants: npt.NDArray[np.int64] = column.view(pa.int64()).to_numpy()
    return instants


def _floats(column: pa.Array) -> npt.NDArray[np.float64]:
    values: npt.NDArray[np.float64] = column.fill_null(np.nan).to_numpy()
    return values


def _concatenated(pieces: Sequence[npt.NDArray[_NumberT]], kind: type[_NumberT]) -> npt.NDArray[_NumberT]:
    return np.concatenate([np.empty(0, kind), *pieces])


def _categorical(pieces: Sequence[tuple[Indices, Sequence[str]]]) -> pd.Categorical:
    """Join pieces of a text column into a categorical with its categories in ascending order.

    Args:
        pieces: for each line an index into the cells, and the cells, as they stand in the file but without
            quotes; a cell may occur twice.
    """
    text_of = {cell: unescaped(cell) for _, cells in pieces for cell in cells}
    categories = sorted(set(text_of.values()))
    place = {text: i for i, text in enumerate(categories)}
    code_of = {cell: place[text] for cell, text in text_of.items()}
    kind = np.min_scalar_type(-len(categories) - 1)
    codes = [np.array([code_of[cell] for cell in cells], kind)[indices] for indices, cells in pieces]
    whole = np.concatenate([np.empty(0, kind), *codes])
    return pd.Categorical.from_codes(whole, pd.Index(categories, dtype="str"))

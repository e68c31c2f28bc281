"""Join chunks of a timing file, whose columns are already parsed, into one table in little memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.reading.csv_lines import unescaped
from timing_logger.record import COLUMNS, EARLIER_COLUMNS, Field

_HEADERS = {f"{','.join(names)}\n".encode(): names for names in (COLUMNS, EARLIER_COLUMNS)}

Codes: TypeAlias = npt.NDArray[np.signedinteger[Any]]

_INTEGERS = ("integer", "timestamp")


class NotPlain(ValueError):
    """The file holds something that the logger would not have written like this."""


def plain_header(path: Path) -> tuple[tuple[str, ...], int]:
    """Read the header of a file that any version of the logger wrote.

    Returns:
        The names of the columns, and the number of bytes of the header.

    Raises:
        NotPlain: the first line is no such header.
    """
    with path.open("rb") as file:
        header = file.readline(max(map(len, _HEADERS)))
    if header not in _HEADERS:
        raise NotPlain
    return _HEADERS[header], len(header)


class Chunk(NamedTuple):
    """The columns of successive lines. ``joined_chunks`` removes them from the dicts.

    Attributes:
        numbers: values by name of the column: ``int64`` with 0 where blank, or ``float64`` with NaN where
            blank; instants in us.
        blank: for columns of integers, by name, whether each line's cell is blank.
        texts: for columns of text, by name: for each line an index into the cells, and the cells, as they
            stand in the file but without quotes; a cell may occur twice.
    """

    numbers: dict[str, npt.NDArray[Any]]
    blank: dict[str, npt.NDArray[np.bool_]]
    texts: dict[str, tuple[npt.NDArray[Any], Sequence[str]]]


def joined_chunks(chunks: Sequence[Chunk], fields: Sequence[Field]) -> pd.DataFrame:
    """Join chunks into one table of the columns ``fields``, with text as categoricals.

    This empties the chunks, so that only one column at a time is held twice. Text that chunks lack, because
    the file is older than the column, is blank.
    """
    columns = {field.name: _column(chunks, field) for field in fields if _is_there(field, chunks)}
    frame: pd.DataFrame = pd.DataFrame(columns, copy=False)
    for field in fields:
        if field.name not in columns:
            frame[field.name] = _categorical([(np.zeros(len(frame), np.int8), [""])])
    return frame


def _is_there(field: Field, chunks: Sequence[Chunk]) -> bool:
    return field.kind != "text" or all(field.name in chunk.texts for chunk in chunks)


def _column(chunks: Sequence[Chunk], field: Field) -> Any:
    if field.kind == "text":
        return _categorical([chunk.texts.pop(field.name) for chunk in chunks])
    kind: Any = np.int64 if field.kind in _INTEGERS else np.float64
    values = _joined([chunk.numbers.pop(field.name) for chunk in chunks], kind)
    if field.kind == "integer":
        return pd.arrays.IntegerArray(values, _joined([c.blank.pop(field.name) for c in chunks], np.bool_))
    if field.kind == "timestamp":
        return pd.Series(values.view("datetime64[us]"), copy=False).dt.tz_localize("UTC")
    return values


def _joined(pieces: Sequence[npt.NDArray[Any]], kind: Any) -> npt.NDArray[Any]:
    return np.concatenate([np.empty(0, kind), *pieces])


def _categorical(pieces: Sequence[tuple[npt.NDArray[Any], Sequence[str]]]) -> pd.Categorical:
    """Join pieces of a text column into a categorical with its categories in ascending order."""
    text_of = {cell: unescaped(cell) for _, cells in pieces for cell in cells}
    categories = sorted(set(text_of.values()))
    place = {text: i for i, text in enumerate(categories)}
    code_of = {cell: place[text] for cell, text in text_of.items()}
    kind = np.min_scalar_type(-len(categories) - 1)
    codes = _joined([_recoded(piece, code_of, kind) for piece in pieces], kind)
    return pd.Categorical.from_codes(codes, pd.Index(categories, dtype="str"))


def _recoded(
    piece: tuple[npt.NDArray[Any], Sequence[str]], code_of: Mapping[str, int], kind: np.dtype[Any]
) -> Codes:
    codes, cells = piece
    recoded: Codes = np.array([code_of[cell] for cell in cells], kind)[codes]
    return recoded

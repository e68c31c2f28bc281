"""Parse the bytes of one timing file into a typed table, whatever state the file is in.

Lines are taken to be one record each, as the logger writes them. All of them are parsed together;
only if that shows that some line is damaged are they examined one by one. A damaged line is
counted and left out; a last line without its newline is cut off, since ``12.3`` may be a torn
``12.345``.

Files that went through another program are read too. Integers may stand there as ``3.0``, and what is
missing as ``NaN`` or another of :data:`_MISSING`. Where a number or an instant of a file does, that word is
no name in the file, but a name that is missing, too; the logger itself leaves blank what is missing, so in
its files each word is a name. If the names in the header have blanks around them, so have the cells, and
they are no part of them; else blanks belong to a name, as it was recorded.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.reading.content import Content
from timing_logger.schema.record import COLUMNS, FIELDS, HOST_CLOCK, OK, Kind, unescape_text

BARE_COLUMNS = COLUMNS[:10]
"""The columns that every timing file has; a file with only these, in any order, is read too."""

MAX_EXAMPLES = 3
MAX_EXAMPLE_CHARS = 200

_RENAMED = {"thread_name": "thread"}
_DEFAULTS = {"clock": HOST_CLOCK, "status": OK}
_KNOWN = {*COLUMNS, *_RENAMED}
_BOM = b"\xef\xbb\xbf"
_BLOCK_BYTES = 2**23
_END = "|"  # stands in a column of its own after the last one, to show that a line has all of them

_MISSING = frozenset({"nan", "<na>", "na", "n/a", "nat", "none", "null"})
"""What other programs write for a value that is missing, in lower case."""

_Cells: TypeAlias = npt.NDArray[np.object_]  # of str
_Valid: TypeAlias = npt.NDArray[np.bool_]  # for each row, whether its cell could be read
_Converter: TypeAlias = Callable[[_Cells], tuple[Any, _Valid]]


class _Form(NamedTuple):
    """What the header tells of the lines: the columns, and whether cells have blanks around them."""

    names: list[str]
    spaced: bool
    header: bytes


class _Lines(NamedTuple):
    """Some lines of a file.

    Attributes:
        frame: the rows.
        bad: the damaged lines.
        missing: the words that stand for what is missing.
        headers: the number of rows before each line that is a header.
    """

    frame: pd.DataFrame
    bad: list[bytes]
    missing: set[str]
    headers: list[int]


class Parsed(NamedTuple):
    """A timing file: its rows in their order in the file, with ``record.COLUMNS``, and what else was read."""

    frame: pd.DataFrame
    content: Content


class UnknownHeader(ValueError):
    """The first line of a file is not that of a timing file; ``args[0]`` is the line, shortened."""

    def of(self, path: Path) -> str:
        """State in words what is wrong with the file."""
        return (
            f"{str(path)!r} is not a timing file. Looked for a first line that names at "
            f"least the columns {', '.join(BARE_COLUMNS)}; found {self.args[0]!r}."
        )


def parse_timings(data: bytes) -> Parsed:
    """Parse the content of a timing file, or any part of one that starts at its beginning.

    Raises:
        UnknownHeader: the first line does not name the columns of a timing file.
    """
    data_end = data.rfind(b"\n") + 1
    cut = data[data_end:].decode(errors="backslashreplace")
    if data_end == 0:
        return Parsed(_no_rows(), Content(0, len(data), _torn_header(cut)))
    header_end = data.index(b"\n") + 1
    form = _form(data[:header_end])
    blocks = [_parse_lines(block, form) for block in _blocks(data, header_end, data_end)]
    bad = [line for block in blocks for line in block.bad]
    frames = [block.frame for block in blocks] or [_no_rows()]
    frame = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    frame = _without_words(frame, set().union(*(block.missing for block in blocks)))
    before = np.cumsum([0, *map(len, frames)]).tolist()
    headers = [first + row for first, block in zip(before, blocks, strict=False) for row in block.headers]
    examples = [shortened(line) for line in bad[:MAX_EXAMPLES]]
    return Parsed(frame, Content(len(frame), len(data), cut, len(bad), examples, headers=headers))


def parse_sound_lines(lines: bytes, header: bytes) -> pd.DataFrame | None:
    """Parse whole lines below a header, of one file or several; None unless each would be a row of its file.

    Nor may a word stand for what is missing: in other files it is a name.

    Raises:
        UnknownHeader: the header does not name the columns of a timing file.
    """
    form = _form(header)
    if not lines:
        return _no_rows()
    cells = _cells(lines, form)
    if cells is None:
        return None
    frame, valid = _typed(cells, escaped="status" in form.names)
    return frame if valid.all() and not _words_for_missing(cells, frame) else None


def _blocks(data: bytes, start: int, end: int) -> Iterator[bytes]:
    """Yield whole lines, some megabytes at a time: text takes ten times the memory of its table."""
    while start < end:
        line_end = data.find(b"\n", min(start + _BLOCK_BYTES, end) - 1) + 1
        yield data[start:line_end].replace(b"\r\n", b"\n")
        start = line_end


def _no_rows() -> pd.DataFrame:
    return _typed(pd.DataFrame(), escaped=True)[0]


def shortened(line: bytes) -> str:
    """Return the beginning of a damaged line as text."""
    return line[:MAX_EXAMPLE_CHARS].decode(errors="backslashreplace")


# -- the header --------------------------------------------------------------------------------


def _form(header: bytes) -> _Form:
    text = header.removeprefix(_BOM).decode(errors="backslashreplace").rstrip("\r\n")
    stated = text.split(",")
    names = [name.strip(" \t").strip('"').strip(" \t") for name in stated]
    spaced = names != [name.strip('"') for name in stated]
    names = [_RENAMED.get(name, name) for name in names]
    if not set(BARE_COLUMNS) <= set(names) or len(set(names)) < len(names):
        raise UnknownHeader(shortened(header))
    return _Form(names, spaced, header.removeprefix(_BOM).strip())


def _torn_header(text: str) -> str:
    """Return ``text`` if more bytes could make it the header of a timing file, else raise."""
    *names, last = text.rstrip("\r\0").split(",")
    if _KNOWN.issuperset(names) and any(name.startswith(last) for name in _KNOWN):
        return text
    raise UnknownHeader(text[:MAX_EXAMPLE_CHARS])


# -- lines -> cells ------------------------------------------------------------------------------


def _parse_lines(body: bytes, form: _Form) -> _Lines:
    """Return the rows, and the damaged lines: first those of the wrong form, then those of wrong values."""
    malformed: list[bytes] = []
    cells = _cells(body, form)
    if cells is None:
        body, malformed = _sorted_by_form(body, form)
        cells = _cells(body, form)
        assert cells is not None, "lines that are sound one by one are sound together"
    frame, valid = _typed(cells, escaped="status" in form.names)
    missing = _words_for_missing(cells, frame)
    if valid.all():
        return _Lines(frame, malformed, missing, [])
    lines = body.split(b"\n")
    damaged = np.flatnonzero(~valid)
    bad = malformed + [lines[i] for i in damaged]
    headers = [int(valid[:i].sum()) for i in damaged if lines[i].strip() == form.header]
    return _Lines(frame[valid].reset_index(drop=True), bad, missing, headers)


def _cells(body: bytes, form: _Form) -> pd.DataFrame | None:
    """Return all cells as text; None if some line is damaged.

    A quote without its partner makes the parser swallow the lines after it, which shows in their number.
    """
    if b"\0" in body or b"\r" in body:
        return None
    try:
        cells: pd.DataFrame = pd.read_csv(
            BytesIO(body.replace(b"\n", f",{_END}\n".encode())),
            names=[*form.names, _END], header=None, dtype=object, na_filter=False,
            lineterminator="\n", skip_blank_lines=False, skipinitialspace=form.spaced,
        )  # fmt: skip
    except (pd.errors.ParserError, UnicodeDecodeError):
        return None
    all_there = isinstance(cells.index, pd.RangeIndex) and len(cells) == body.count(b"\n")
    if not all_there or not bool((cells[_END] == _END).all()):
        return None
    cells = cells.drop(columns=_END)
    if form.spaced:
        cells = pd.DataFrame({name: cells[name].str.strip(" \t") for name in cells})
    return cells


def _sorted_by_form(body: bytes, form: _Form) -> tuple[bytes, list[bytes]]:
    """Return the lines that have a cell of text for each column, joined, and the other lines."""
    good: list[bytes] = []
    bad: list[bytes] = []
    for line in body.split(b"\n")[:-1]:
        (good if _is_sound(line, form) else bad).append(line)
    return b"".join([line + b"\n" for line in good]), bad


def _is_sound(line: bytes, form: _Form) -> bool:
    width = len(form.names)
    if b"\0" in line or b"\r" in line:
        return False
    try:
        text = line.decode()
        if '"' not in text:
            return text.count(",") == width - 1
        return len(next(csv.reader([text], strict=True, skipinitialspace=form.spaced))) == width
    except (UnicodeDecodeError, csv.Error):
        return False


# -- cells -> values -----------------------------------------------------------------------------


def _typed(cells: pd.DataFrame, *, escaped: bool) -> tuple[pd.DataFrame, _Valid]:
    """Return the table with all columns of the schema, and for each row whether all its cells are valid."""
    converters: dict[Kind, _Converter] = {
        "timestamp": _timestamps,
        "integer": _integers,
        "text": partial(_texts, unescape=unescaped if escaped else str),
        "milliseconds": _floats,
        "seconds": _floats,
        "amount": _floats,
    }
    columns = {}
    valid = np.ones(len(cells), dtype=bool)
    for field in FIELDS:
        columns[field.name], possible = converters[field.kind](_column(cells, field.name))
        valid &= possible
    return pd.DataFrame(columns), valid


def _column(cells: pd.DataFrame, name: str) -> _Cells:
    if name in cells:
        return cells[name].to_numpy(dtype=object)
    return np.full(len(cells), _DEFAULTS.get(name, ""), dtype=object)


def _words_for_missing(cells: pd.DataFrame, frame: pd.DataFrame) -> set[str]:
    """Return the words that stand for a missing value where no name stands."""
    found: set[str] = set()
    for field in FIELDS:
        if field.kind != "text" and field.name in cells:
            lacking = cells[field.name].to_numpy()[frame[field.name].isna().to_numpy()]
            found.update(word for word in pd.unique(lacking[lacking != ""]) if _is_missing(word))
    return found


def _without_words(frame: pd.DataFrame, words: set[str]) -> pd.DataFrame:
    """Return the table with names that are in ``words`` blank, or as they are where a file lacks them."""
    for field in FIELDS if words else ():
        if field.kind == "text":
            names = frame[field.name]
            frame[field.name] = names.where(~names.isin(words), _DEFAULTS.get(field.name, ""))
    return frame


def _is_missing(cell: str) -> bool:
    return cell == "" or cell.strip().lower() in _MISSING


def _blank(cells: _Cells) -> _Valid:
    """Tell of each cell whether it holds no value."""
    codes, distinct = pd.factorize(cells)
    return np.array([_is_missing(cell) for cell in distinct], np.bool_)[codes]


def _timestamps(cells: _Cells) -> tuple[Any, _Valid]:
    instants = pd.to_datetime(pd.Series(cells), format="ISO8601", utc=True, errors="coerce")
    known = instants.notna().to_numpy()
    return instants.dt.as_unit("us"), known if known.all() else known | _blank(cells)


def _floats(cells: _Cells) -> tuple[Any, _Valid]:
    filled = np.where(cells == "", "nan", cells)
    try:
        values = filled.astype(np.float64)  # as float() does: the nearest, to the last digit
    except ValueError:
        filled = np.where(_blank(cells), "nan", cells)
        values = np.array([_float_or_inf(cell) for cell in filled], dtype=np.float64)
    return np.where(np.isinf(values), np.nan, values), ~np.isinf(values)


def _float_or_inf(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("inf")  # stands for an invalid cell


def _integers(cells: _Cells) -> tuple[Any, _Valid]:
    blank = cells == ""
    filled = np.where(blank, "0", cells)
    try:
        numbers, known = filled.astype(np.int64), ~blank
    except (ValueError, OverflowError):
        blank = _blank(cells)
        codes, distinct = pd.factorize(cells)
        values = [_integer(cell) for cell in distinct]
        numbers = np.array([value or 0 for value in values], dtype=np.int64)[codes]
        known = np.array([value is not None for value in values], dtype=bool)[codes]
    return pd.arrays.IntegerArray(numbers, ~known), known | blank


def _integer(cell: str) -> int | None:
    """Return the integer in a cell; None if it holds no integer of 64 bits.

    Tables that were saved again by other programs may hold ``3.0`` for 3, or ``1e+16``.
    """
    try:
        value = int(cell)
    except ValueError:
        as_float = _float_or_inf(cell)
        if not as_float.is_integer():  # nor are inf and NaN
            return None
        value = int(as_float)
    return value if -(2**63) <= value < 2**63 else None


def _texts(cells: _Cells, unescape: Callable[[str], str]) -> tuple[Any, _Valid]:
    codes, distinct = pd.factorize(cells)
    texts = pd.Series(["", *map(unescape, distinct)])  # the blank gives it its type
    return texts.array.take(codes + 1), np.ones(len(cells), dtype=bool)


def unescaped(cell: str) -> str:
    """Return the text of a cell, with escapes resolved.

    Lone surrogates stay escaped: most columns of text cannot hold them, nor be grouped by them.
    """
    return unescape_text(cell).encode(errors="backslashreplace").decode()

"""Values as cells of CSV, by the kind of their column, and what becomes of a value that it cannot hold.

A cell never breaks a line and never runs as a formula. Text that could is escaped with backslashes
(:func:`escape_text`), reversibly (:func:`unescape_text`).
"""

from __future__ import annotations

import logging
import math
import numbers
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from itertools import repeat
from typing import Any

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

MAX_TEXT_CHARS = 1024
"""Longer names are cut to this length, the last character being an ellipsis."""

LARGEST = 2**53 - 1
"""The largest magnitude of an integer that analyses use: a float64 cannot tell larger ones apart."""

_MAX_INT = 2**63 - 1
_MAX_INSTANT_NS = 2**62  # 146 years after the machine booted

# -- text ------------------------------------------------------------------------------------

# Invisible characters: a name that contains some could pass for another one, and overrides of the writing
# direction reverse whatever is printed after them. These are Unicode's format characters and blank fillers.
_INVISIBLE = (
    "\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Control characters, line separators and lone surrogates would break a line or its encoding; a
# leading = + - @ is run by spreadsheets; a backslash is the escape itself.
_UNSAFE = re.compile(f"[\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_INVISIBLE}]|^[=+\\-@]")
_ESCAPED = re.compile(r"\\(?:u([0-9a-f]{4})|U(00(?:0[0-9a-f]|10)[0-9a-f]{4})|(.))", re.DOTALL)
_NEEDS_QUOTES = re.compile('[,"]')


def escape_text(text: str) -> str:
    r"""Escape ``text`` so that it fits on one line: ``\n`` becomes ``\u000a``, ``\`` doubles."""
    return _UNSAFE.sub(_escape_character, text)


def _escape_character(match: re.Match[str]) -> str:
    character = match.group()
    if character in "\\=+-@":
        return "\\" + character
    return f"\\u{ord(character):04x}" if ord(character) < 2**16 else f"\\U{ord(character):08x}"


def unescape_text(text: str) -> str:
    """Undo :func:`escape_text`."""
    return _ESCAPED.sub(lambda m: chr(int(m[1] or m[2], 16)) if m[1] or m[2] else m[3], text)


def quoted_text(text: str) -> str:
    """Return ``text``, escaped, as a cell of a line of CSV."""
    text = escape_text(text)
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text


class _Cells(dict[Any, str]):
    """A cache from values to their CSV cells: a run has few names and numbers, and millions of rows."""

    MOST = 4096

    def __init__(self, cell: Callable[[Any], str]) -> None:
        super().__init__()
        self._cell = cell

    def __missing__(self, value: Any) -> str:
        if len(self) >= self.MOST:
            self.clear()
        cell = self[value] = self._cell(value)
        return cell


class _TextColumn(_Cells):
    """The cells of names."""

    def __init__(self, normalize: Callable[[str], str] = str) -> None:
        super().__init__(lambda name: quoted_text(normalize(name)))

    def __missing__(self, value: Any) -> str:
        if type(value) is not str:
            raise TypeError("not a name")  # the careful path takes this record
        if len(value) > MAX_TEXT_CHARS:
            return self._cell(value[: MAX_TEXT_CHARS - 1] + "…")
        return super().__missing__(value)


_names = _TextColumn()
operations = _TextColumn(str.upper)


def name_cell(name: str) -> str:
    """Return the CSV cell of a text: escaped, and quoted where necessary."""
    return _names[name]


def operation_cell(operation: str) -> str:
    """Return the CSV cell of an operation's name."""
    return operations[operation]


# -- instants ---------------------------------------------------------------------------------


class _WholeSeconds(dict[str, str]):
    """A cache from Unix seconds to ``2026-02-06T14:30:45``: consecutive rows mostly share their second."""

    def __missing__(self, unix_s: str) -> str:
        self.clear()
        text = datetime.fromtimestamp(int(unix_s), timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
        self[unix_s] = text
        return text


_whole_seconds = _WholeSeconds()


def timestamps(starts: tuple[int, ...], wall_offset_ns: int) -> Iterator[str]:
    """Yield the wall clock at each start, in UTC."""
    whole_s = _whole_seconds
    for start in starts:
        unix = str(start + wall_offset_ns)
        yield f"{whole_s[unix[:-9]]}.{unix[-9:-3]}"


def interval_cells(start_ns: int, end_ns: int | None) -> str:
    """Return the cells of elapsed_ms, start_counter and end_counter; without an end only the start is filled.

    The decimal point is inserted between digits: as floats, seconds lose nanoseconds after 52 days of uptime.
    """
    start = str(start_ns) if start_ns >= NS_PER_S else str(start_ns).zfill(10)
    if end_ns is None:
        return f",{start[:-9]}.{start[-9:]},"
    if not 0 <= start_ns <= end_ns <= _MAX_INSTANT_NS:
        raise ValueError("not an interval")
    end = str(end_ns) if end_ns >= NS_PER_S else str(end_ns).zfill(10)
    elapsed = str(end_ns - start_ns).zfill(7)
    return f"{elapsed[:-6]}.{elapsed[-6:]},{start[:-9]}.{start[-9:]},{end[:-9]}.{end[-9:]}"


# -- columns of texts and numbers --------------------------------------------------------------


def texts(column: tuple[Any, ...], memo: _TextColumn = _names) -> Iterable[str]:
    """Return the cells of a column of text: without an end if all are alike."""
    first = column[0]
    if column.count(first) == len(column):
        return repeat(memo[first])
    return map(memo.__getitem__, column)


def _integer_cell(value: int | None) -> str:
    if value is None:
        return ""
    if not -_MAX_INT <= value <= _MAX_INT:
        raise ValueError("more than 64 bits")
    return str(value)


_integer_cells = _Cells(_integer_cell)


def integers(column: tuple[Any, ...]) -> Iterable[str]:
    """Return the cells of a column of integers."""
    check_types(column)
    return map(_integer_cells.__getitem__, column)


def distinct_integers(column: tuple[Any, ...]) -> Iterable[str]:
    """Return the cells of an integer column whose values seldom repeat, so that a cache would not help."""
    check_types(column)
    if None in column:
        return map(_integer_cell, column)
    if min(column) < -_MAX_INT or max(column) > _MAX_INT:
        raise ValueError("more than 64 bits")
    return map(str, column)


def check_types(column: tuple[Any, ...], known: frozenset[type] = frozenset({int, type(None)})) -> None:
    """Raise TypeError unless all values are of these types."""
    if not known.issuperset(map(type, column)):  # the cache would return the cell of 1 for True
        raise TypeError("not a number of its column")


_amount_cells = _Cells(lambda value: "" if value is None else amount_cell(value))


def amounts(column: tuple[Any, ...]) -> Iterable[str]:
    """Return the cells of a column of amounts."""
    check_types(column, frozenset({int, float, type(None)}))
    return map(_amount_cells.__getitem__, column)


def amount_cell(value: float) -> str:
    """Return the CSV cell of an amount: the fewest digits from which it comes back, and for 4096.0 ``4096``.

    The C code (``csv_real``) finds them by the same steps.

    Raises:
        ValueError: it is negative, infinite or NaN.
        OverflowError: it is an integer that no float holds.
    """
    if not 0 <= value < math.inf:
        raise ValueError("not an amount")
    if isinstance(value, int) and value <= _MAX_INT:
        return str(value)
    real = float(value)
    if real < _MAX_INT and real.is_integer():
        return str(int(real))
    written = [f"{real:.{digits}g}" for digits in (15, 16, 17)]
    return next(text for text in written if float(text) == real)


# -- what a column cannot hold -----------------------------------------------------------------


def repaired_integer(value: Any) -> int | None:
    """Return a Python or NumPy integer as an int if it fits the column; None for any other value.

    Bools and floats are not integers here.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return None
    try:
        number = int(value)
    except Exception:
        return None
    return number if -_MAX_INT <= number <= _MAX_INT else None


def repaired_amount(value: Any) -> float | None:
    """Return a Python or NumPy number as an int or float if it is an amount; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        number = int(value) if isinstance(value, numbers.Integral) else float(value)
        amount_cell(number)
    except Exception:
        return None
    return number


def repaired_text(value: Any) -> str:
    """Return a text as a plain str; of any other value the name of its type."""
    if isinstance(value, str):
        return str.__add__("", value)  # a subclass, such as an enum of strings, becomes a plain str
    return "" if value is None else f"<{type(value).__name__}>"


def repaired_interval(start_ns: Any, end_ns: Any) -> tuple[int, int | None]:
    """Return the start, or 0 if it is none, and the end, or None."""
    start, end = repaired_integer(start_ns), repaired_integer(end_ns)
    if start is None or not 0 <= start <= _MAX_INSTANT_NS:
        return 0, None
    return start, end if end is not None and start <= end <= _MAX_INSTANT_NS else None


# -- says that a program gave a value that its column cannot hold, once for each column ------------------
# The recording calls themselves never raise: a wrong value must not end a training run.


log = logging.getLogger("timing_logger")

TAKES = {
    "integer": "an integer of 64 bits at most",
    "text": "a text",
    "amount": "a finite number of at least 0",
}
"""What the columns of each kind take."""

_MOST_CHARACTERS = 40
_told: set[str] = set()


def tell(column: str, kind: str, value: object) -> None:
    """Log what was given for a column and what it takes, unless that was logged before."""
    if column in _told:
        return
    _told.add(column)
    log.warning(
        "timing logger: %s is %s, and must be %s. The cell is left blank, and the row's status is "
        "error:InvalidValue. Pass such a value, or none. (Said once for each column.)",
        column,
        _shown(value),
        TAKES[kind],
    )


def _shown(value: object) -> str:
    """Return the value, or its type: the text of any other object might wait, raise or have no end."""
    if type(value) in (bool, float, str) or (type(value) is int and value.bit_length() < 128):
        return repr(value[:_MOST_CHARACTERS] if isinstance(value, str) else value)
    return f"of type {type(value).__name__}"

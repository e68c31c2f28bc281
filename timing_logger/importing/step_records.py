"""The records of a log of step times, as JSON lines or CSV, and the values of their cells."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from timing_logger.importing.imported import LeftOut
from timing_logger.importing.source_files import MOST_LINE_BYTES, plain_name

Cells: TypeAlias = Mapping[str, Any]

_NS_PER_S = 10**9
_LONGEST_S = 1e8  # three years in one step
_LATEST_S = 2**62 / _NS_PER_S
_SEPARATORS = ",;\t|"
_UNITS_PER_S = (1e3, 1e6, 1e9)
_THIS_ERA_S = 4e9  # Unix time in 2096; in ms it is a thousand times that


class StepRecords:
    """The records of the lines of one file, which are taken one after the other, by the names of columns.

    A file whose first line begins with a brace has a JSON object in each line; others are CSV with a header.

    Args:
        path: the file, whose name may tell what separates cells.
        left_out: where lines are counted that are no records.
    """

    def __init__(self, path: Path, left_out: LeftOut) -> None:
        self._path, self._left_out = path, left_out
        self._of: Callable[[str], Cells | str] | None = None

    def of(self, line: str) -> Cells | None:
        """Return the record in the next line; None if it is a header, or counted as none."""
        if self._of is None:
            if not line.lstrip().startswith("{"):
                self._of = _CsvLines(line, self._path)
                return None
            self._of = _json_record
        record = self._of(line)
        if not isinstance(record, str):
            return record
        if record:
            self._left_out.add(record)
        return None


def _json_record(line: str) -> Cells | str:
    """Return the record in a line; if it holds none, what it is instead."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return "a line that is no JSON"
    return record if isinstance(record, dict) else "a line that is no JSON object"


class _CsvLines:
    """The records of lines of CSV, by their header. No cell goes on in another line."""

    def __init__(self, header: str, path: Path) -> None:
        is_tsv = plain_name(path.name).endswith(".tsv")
        self._separator = "\t" if is_tsv else max(_SEPARATORS, key=header.count)
        csv.field_size_limit(MOST_LINE_BYTES)
        self._names = [name.strip() for name in self._cells(header)]

    def __call__(self, line: str) -> Cells | str:
        """Return the record in a line; if it holds none, what it is instead, or "" for a further header."""
        try:
            row = self._cells(line)
        except csv.Error:
            return "a line that is no CSV"
        if len(row) != len(self._names):
            return "a line that has not as many cells as the header"
        if row == self._names:  # a logger that was restarted writes its header again
            return ""
        return dict(zip(self._names, row, strict=True))

    def _cells(self, line: str) -> list[str]:
        rows = csv.reader([line, ""], delimiter=self._separator)
        row = next(rows)
        if rows.line_num > 1:
            raise csv.Error("a quoted cell without its end")
        return row


# -- cells -------------------------------------------------------------------------------------------


class Unusable(Exception):
    """A cell does not hold what its column is to hold; says what it is instead."""


class Cell(NamedTuple):
    """A value, and the name of its column."""

    name: str
    value: Any


def cell(record: Cells, name: str) -> Cell:
    """Return the cell of a column; in JSON a name with dots may lead into objects: ``perf.step_s``.

    Raises:
        Unusable: the record has none, or it is blank.
    """
    found: Any = record.get(name)
    if found is None and "." in name:
        found = record
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
    if found is None or (isinstance(found, str) and not found.strip()):
        raise Unusable(f"a record without a value of {name!r}")
    return Cell(name, found)


def has(record: Cells, name: str) -> bool:
    """Tell whether a record has a value of a column."""
    try:
        cell(record, name)
    except Unusable:
        return False
    return True


def whole(given: Cell, most: int) -> int:
    """Return a whole number from 0 to ``most``.

    Raises:
        Unusable: it is none.
    """
    number = _number(given.value)
    if not (0 <= number <= most and number == int(number)):
        raise Unusable(f"a value of {given.name!r} that is no whole number of 0 or more, or too large")
    return int(number)


def duration_ns(given: Cell, units_per_s: float) -> int:
    """Return a duration in ns.

    Raises:
        Unusable: it is no number, negative, or more than three years.
    """
    seconds = _number(given.value) / units_per_s
    if not 0 <= seconds <= _LONGEST_S:
        raise Unusable(f"a value of {given.name!r} that is no duration of 0 or more")
    return round(seconds * _NS_PER_S)


def amount(given: Cell) -> float:
    """Return a finite number of at least 0.

    Raises:
        Unusable: it is none.
    """
    number = _number(given.value)
    if not 0 <= number < math.inf:
        raise Unusable(f"a value of {given.name!r} that is no number of 0 or more")
    return number


def unix_ns(given: Cell) -> int:
    """Return an instant as Unix time in ns.

    It is ISO 8601, in UTC where it names no zone; or a number: Unix time in s, ms, us or ns, as its size
    tells.

    Raises:
        Unusable: it is neither.
    """
    number = _number(given.value)
    if math.isnan(number):
        return _from_iso(given)
    per_s = 1.0
    for units in _UNITS_PER_S:
        if number / per_s > _THIS_ERA_S:
            per_s = units
    if not 0 <= number / per_s <= _LATEST_S:
        raise Unusable(f"a value of {given.name!r} that is no instant")
    whole_part = int(number // per_s)
    return whole_part * _NS_PER_S + round((number - whole_part * per_s) * _NS_PER_S / per_s)


def _from_iso(given: Cell) -> int:
    try:
        found = datetime.fromisoformat(str(given.value).strip().replace("Z", "+00:00"))
        aware = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
        since = aware - datetime(1970, 1, 1, tzinfo=timezone.utc)
        if not 0 <= since.total_seconds() <= _LATEST_S:
            raise ValueError("no instant that a column holds")
    except (ValueError, OverflowError):
        raise Unusable(f"a value of {given.name!r} that is no instant") from None
    return ((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) * 1000


def _number(value: Any) -> float:
    """Return a number or the number that a text is; NaN for all else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan

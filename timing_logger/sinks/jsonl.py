"""A sink of JSON lines: one object per line, for records with values that the columns of the CSV cannot hold.

A line is always one physical line of ASCII, and strict JSON, so that readers without ``NaN`` can parse it.
"""

from __future__ import annotations

import json
import numbers
import os
from collections.abc import Mapping, Sequence

from timing_logger.schema.record import NS_PER_MS, OK, RawRecord, Record
from timing_logger.schema.timing_files import run_and_part
from timing_logger.sinks._file_in_parts import FileInParts, is_taken

OWN_KEYS = ("name", "step", "rank", "duration_ms", "status")
"""The keys that the sink fills; metadata of the same name is kept as ``metadata_<key>``."""


class JsonlSink(FileInParts):
    """Appends ``{"name": ..., "step": ..., "rank": ..., "duration_ms": ..., <metadata>}`` per record.

    ``name`` is the operation as it was given, ``step`` the iteration. If the duration is not known,
    ``duration_ms`` is null. ``status`` is present only if it is not ``ok``: ``unresolved``, or
    ``error:<type>`` of a block that raised.

    Metadata values are written as JSON; NumPy's numbers as numbers, NaN and infinities as the strings
    ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, any other object as the name of its type, ``"<Tensor>"``:
    its ``str()`` might raise, or wait for a device. They are read when the row is written, so do not change
    them afterwards.

    Attributes:
        path: ``cuda_events_rank_<rank>.jsonl``, or ``cuda_events_rank_<rank>.run2.jsonl`` if that exists
            already, and so on. If the file is deleted, moved or cut from outside, rows continue in
            ``cuda_events_rank_<rank>.part2.jsonl``.
        incarnation: 1 for the first of these names, 2 for the next.
    """

    def __init__(self, directory: str | os.PathLike[str], rank: int) -> None:
        """Create the first free file of ``rank`` in ``directory``, and the folder if it is missing.

        Raises:
            LogPathError: the folder or a file name in it is taken by something other than a folder or a
                regular file, or cannot be written.
        """
        self._rank = rank
        super().__init__(
            directory,
            lambda incarnation, part: f"cuda_events_rank_{rank}{run_and_part(incarnation, part)}.jsonl",
            argument="directory",
            taken=is_taken,
        )

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        """Append a batch as lines of JSON."""
        lines = "".join([_line(self._row(Record(*record))) for record in batch])
        self.append(lines.encode(), len(batch))

    def _row(self, record: Record) -> dict[str, object]:
        row: dict[str, object] = {
            "name": record.operation,
            "step": record.iteration,
            "rank": self._rank,
            "duration_ms": None if record.end_ns is None else (record.end_ns - record.start_ns) / NS_PER_MS,
        }
        if record.status != OK:
            row["status"] = record.status
        for key, value in _metadata(record).items():
            row[_free_key(key, row)] = value
        return row


def _metadata(record: Record) -> Mapping[str, object]:
    try:
        return {} if record.metadata is None else dict(record.metadata)
    except Exception:  # the caller's own mapping type may raise anything
        return {"metadata": record.metadata}


def _free_key(key: object, row: dict[str, object]) -> str:
    """Return ``key``, or a longer name if the sink uses it itself or it is taken."""
    name = str.__add__("", key) if isinstance(key, str) else _type_name(key)
    while name in OWN_KEYS or name in row:
        name = f"metadata_{name}"
    return name


# -- rows -> lines -------------------------------------------------------------------------------

_strict = json.JSONEncoder(allow_nan=False).encode


def _line(row: dict[str, object]) -> str:
    """Return the JSON line of ``row``. Never raises, whatever the row holds."""
    try:
        line = _strict(row)
    except Exception:  # some value is not JSON: convert each on its own
        return _careful_line(row)
    return _careful_line(row) if "\\ud" in line else line + "\n"  # this may be a lone surrogate


def _careful_line(row: dict[str, object]) -> str:
    return json.dumps({_held(key): _held(value) for key, value in row.items()}) + "\n"


def _held(value: object) -> object:
    """Return ``value`` in a form that strict JSON can hold."""
    try:
        lenient = json.dumps(value, ensure_ascii=False, default=_stand_in)
        return json.loads(lenient.encode(errors="replace"), parse_constant=str)
    except Exception:  # a circular reference, or keys that are no text
        return _type_name(value)


def _stand_in(value: object) -> int | float | str:
    """Return a replacement for a value that ``json`` does not know; NumPy's numbers become plain numbers."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return _type_name(value)


def _type_name(value: object) -> str:
    return f"<{type(value).__name__}>"

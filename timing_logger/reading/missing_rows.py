"""Appends to a timing file the rows of a ring that it does not hold.

Only what the file lacks is written, so it makes no difference when the process was killed, whether an earlier
attempt was interrupted, or how often it is done.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from timing_logger.process.shared_files import opened_owned
from timing_logger.schema.record import HEADER, RawRecord, format_records, unescape_text
from timing_logger.schema.ring_file import Ring

_END_OF_TORN = b"\0\n"
_SLACK_BYTES = 2**20  # of rows among them that no slot held


def write_missing(parts: Sequence[Path], owner: int, ring: Ring) -> int:
    """Append the records of a ring that are in no part of a file to the last part.

    Args:
        parts: the parts of the file that are there as text, in order.
        owner: the uid whose files these must be.
        ring: what the process left.

    Returns:
        How many rows that were.

    Raises:
        OSError: a part is another user's, or no file, or the file system's error.
    """
    lines = _lines([*ring.records, *ring.open_calls], ring.wall_offset_ns)
    there = Counter(map(_key, _last_lines(parts, owner, sum(map(len, lines)) + _SLACK_BYTES)))
    missing = []
    for line in lines:
        key = _key(line[:-1])
        if there[key]:
            there[key] -= 1
        else:
            missing.append(line)
    if missing:
        _append(parts[-1], owner, missing)
    return len(missing)


def _lines(records: Sequence[RawRecord], wall_offset_ns: int) -> list[bytes]:
    if not records:
        return []
    return [line.encode() for line in format_records(records, wall_offset_ns).splitlines(keepends=True)]


def _last_lines(parts: Sequence[Path], owner: int, n_bytes: int) -> Iterator[bytes]:
    for path in reversed(parts):
        with opened_owned(path, owner) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - n_bytes))
            yield from file.read().split(b"\n")
        n_bytes -= size
        if n_bytes <= 0:
            return


def _key(line: bytes) -> bytes:
    """Return what tells a line from others, whoever wrote it.

    That is the line without the wall clock, which may have been another one when the process wrote it, and
    without escapes: the library for --native-mpi escapes more than this package does.
    """
    key = line.partition(b",")[2]
    if b"\\" not in key:
        return key
    return unescape_text(key.decode(errors="surrogateescape")).encode(errors="surrogatepass")


def _append(path: Path, owner: int, lines: Sequence[bytes]) -> None:
    """Append whole lines. A torn line at the end is replaced if it is one of them, else ended by a NUL."""
    with opened_owned(path, owner, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _SLACK_BYTES))
        torn = file.read().rpartition(b"\n")[2]
        is_among_them = any(line.startswith(torn) for line in lines)
        file.seek(size - len(torn) if is_among_them else size)
        head = HEADER.encode() if not size else b"" if is_among_them else _END_OF_TORN
        file.write(head + b"".join(lines))  # longer than what it is written over
        file.flush()
        os.fsync(file.fileno())

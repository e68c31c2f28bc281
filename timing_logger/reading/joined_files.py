"""Parse the lines of many files together, since a call of a parser costs as much as hundreds of lines.

What can be joined are files with the same header whose whole lines are all sound. Where some lines of a block
are not, its files are halved until those that hold them are alone, and these are read by themselves. So the
rows, and what is said of each file, are those of reading file by file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from timing_logger.process.shared_files import content_of
from timing_logger.process.sidecar_files import check_is_file
from timing_logger.reading.content import Content
from timing_logger.reading.csv_lines import UnknownHeader, parse_sound_lines
from timing_logger.reading.inflight import KEY_COLUMNS, has_inflight, without_replaced
from timing_logger.reading.plain_files import PLAIN_HEADERS, parse_plain_lines
from timing_logger.reading.sources import ParquetSource, Source, compact
from timing_logger.schema.record import COLUMNS

MOST_JOINED_BYTES = 2**23
"""The size up to which a file is joined with others: of a larger one, parsers divide the lines themselves."""


class Piece(NamedTuple):
    """Successive files that were parsed together, or one that was parsed by itself.

    Attributes:
        sources: the files.
        frame: the rows of all files, one file after the other.
        contents: what was read of each file.
    """

    sources: list[Source]
    frame: pd.DataFrame
    contents: list[Content]


def pieces_of(sources: Sequence[Source]) -> Iterator[Piece]:
    """Read files, in their order.

    Args:
        sources: files of a batch; what they have read is dropped.

    Raises:
        NotATimingFileError: a file has another header.
    """
    for header, files in groupby(map(_opened, sources), key=lambda file: file.header):
        if header:
            yield from _halved(list(files))
        else:
            yield from (_alone(file.source) for file in files)


class _Opened(NamedTuple):
    """A file whose lines may be joined with those of others.

    Attributes:
        source: the file.
        header: its first line; empty if the file must be read by itself.
        lines: its whole lines, without the header.
        cut: what follows them, without a newline.
        parts: a dict with ``path``, ``bytes`` and ``rows`` for each part.
    """

    source: Source
    header: bytes = b""
    lines: bytes = b""
    cut: str = ""
    parts: Sequence[dict[str, Any]] = ()


def _opened(source: Source) -> _Opened:
    if isinstance(source, ParquetSource) or "parsed" in vars(source):
        return _Opened(source)
    for path in source.paths:
        check_is_file("paths", path)
    if source.n_bytes > MOST_JOINED_BYTES:
        return _Opened(source)
    contents = [content_of(path) for path in source.paths]
    header, *others = {data[: data.find(b"\n") + 1] for data in contents}
    ends = [data.rfind(b"\n") + 1 for data in contents]
    bodies = [data[len(header) : end] for data, end in zip(contents, ends, strict=True)]
    if others or any(b"\0" in body or b"\r" in body for body in bodies):
        return _Opened(source)
    parts = [
        {"path": str(path), "bytes": len(data), "rows": body.count(b"\n")}
        for path, data, body in zip(source.paths, contents, bodies, strict=True)
    ]
    cuts = [data[end:].decode(errors="backslashreplace") for data, end in zip(contents, ends, strict=True)]
    return _Opened(source, header, b"".join(bodies), "\n".join(filter(None, cuts)), parts)


def _alone(source: Source) -> Piece:
    parsed = source.parsed
    source.forget_rows()
    return Piece([source], parsed.frame, [parsed.content])


def _halved(files: list[_Opened]) -> Iterator[Piece]:
    """Yield the files as one piece, or, if some line is damaged, each half of them likewise."""
    if piece := _together(files):
        yield piece
    elif len(files) == 1:
        yield _alone(files[0].source)
    else:
        middle = len(files) // 2
        yield from _halved(files[:middle])
        yield from _halved(files[middle:])


def _together(files: list[_Opened]) -> Piece | None:
    source = files[0].source
    n_rows = [sum(part["rows"] for part in file.parts) for file in files]
    wanted = {*source.read_columns, "status"}
    frame = _parsed(files, [name for name in COLUMNS if name in wanted])
    if frame is None or len(frame) != sum(n_rows):
        return None
    n_replaced = [0] * len(files)
    if has_inflight(frame):
        frame = _parsed(files, [name for name in COLUMNS if name in wanted.union(KEY_COLUMNS)])
        assert frame is not None, "its lines are sound"
        frame, n_left = _without_replaced(frame, n_rows)
        n_replaced, n_rows = (np.array(n_rows) - n_left).tolist(), n_left
    contents = [
        Content(n, sum(part["bytes"] for part in file.parts), file.cut, replaced=replaced, parts=file.parts)
        for file, n, replaced in zip(files, n_rows, n_replaced, strict=True)
    ]
    return Piece([file.source for file in files], frame[source.read_columns], contents)


def _parsed(files: Sequence[_Opened], columns: list[str]) -> pd.DataFrame | None:
    """Return the rows of all files; None if some line is not sound, or they are of no timing files."""
    lines, header = b"".join([file.lines for file in files]), files[0].header
    by_pyarrow = files[0].source.engine == "pyarrow"
    if by_pyarrow and header in PLAIN_HEADERS:
        return parse_plain_lines(lines, header, columns)
    try:
        frame = parse_sound_lines(lines, header)
    except UnknownHeader:
        return None  # told when the file is read by itself
    if frame is None:
        return None
    return compact(frame[columns]) if by_pyarrow else frame[columns]


def _without_replaced(frame: pd.DataFrame, n_rows: Sequence[int]) -> tuple[pd.DataFrame, list[int]]:
    """Remove in each file the rows of open calls that ended later; return how many rows each has left."""
    ends = np.cumsum(n_rows).tolist()
    kept = [
        without_replaced(frame.iloc[end - n : end].reset_index(drop=True))
        for end, n in zip(ends, n_rows, strict=True)
    ]
    return pd.concat(kept, ignore_index=True), [len(rows) for rows in kept]

"""Read files in batches: their rows in one table, on one time axis, and what is known of each file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.process.shared_files import content_of
from timing_logger.process.sidecar_files import check_is_file
from timing_logger.reading import second_runs
from timing_logger.reading.alignment import Alignment
from timing_logger.reading.content import KEY_COLUMNS, Content, RowsOfFiles, has_inflight, without_replaced
from timing_logger.reading.csv_lines import UnknownHeader, parse_sound_lines
from timing_logger.reading.plain_files import PLAIN_HEADERS, parse_plain_lines
from timing_logger.reading.second_runs import have_recurring_numbers, second_run
from timing_logger.reading.sources import ParquetSource, Source, compact, joined
from timing_logger.schema.record import COLUMNS, FIELDS, LARGEST

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
        content: what else was read of it.
    """

    source: Source
    header: bytes = b""
    lines: bytes = b""
    content: Content = Content(0, 0, "")


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
    n_rows = [body.count(b"\n") for body in bodies]
    parts = [
        {"path": str(path), "bytes": len(data), "rows": rows}
        for path, data, rows in zip(source.paths, contents, n_rows, strict=True)
    ]
    cuts = [data[end:].decode(errors="backslashreplace") for data, end in zip(contents, ends, strict=True)]
    content = Content(sum(n_rows), sum(map(len, contents)), "\n".join(filter(None, cuts)), parts=parts)
    return _Opened(source, header, b"".join(bodies), content)


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
    contents = [file.content for file in files]
    n_rows = [content.n_rows for content in contents]
    wanted = {*source.read_columns, "status"}
    frame = _parsed(files, [name for name in COLUMNS if name in wanted])
    if frame is None or len(frame) != sum(n_rows):
        return None
    if has_inflight(frame):
        frame = _parsed(files, [name for name in COLUMNS if name in wanted.union(KEY_COLUMNS)])
        assert frame is not None, "its lines are sound"
        frame, n_left = _without_replaced(frame, n_rows)
        contents = [
            content._replace(n_rows=n, replaced=content.n_rows - n)
            for content, n in zip(contents, n_left, strict=True)
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


BATCH_BYTES = 2**25
"""The size of a batch: in smaller ones, what analyses do once for each would take longer than the rows."""

File: TypeAlias = "tuple[Source, Alignment]"
"""A file, and how its instants are mapped to the common axis."""


class Batch(NamedTuple):
    """The rows of successive files.

    Attributes:
        columns: the wanted columns by name, one file after the other.
        files: the entry of each file in ``attrs["files"]``, see ``read_timings``.
    """

    columns: dict[str, Any]
    files: list[dict[str, Any]]


def batches_of(files: Sequence[File], n_bytes: int = BATCH_BYTES) -> list[list[File]]:
    """Divide files into batches of ``n_bytes`` at most; a larger file is a batch by itself."""
    batches: list[list[File]] = []
    room = 0
    for file in files:
        its_bytes = file[0].n_bytes
        if its_bytes > room or not batches:
            batches.append([])
            room = n_bytes
        batches[-1].append(file)
        room -= its_bytes
    return batches


def read_batch(files: Sequence[File]) -> Batch:
    """Read the wanted columns of files, one after the other; what they had read is dropped.

    Raises:
        NotATimingFileError: a file has another header.
    """
    columns, clocks = files[0][0].columns, iter([clock for _, clock in files])
    read = [_read(piece, clocks, columns) for piece in pieces_of([source for source, _ in files])]
    if len(read) == 1:
        return read[0]
    table = joined([batch.columns for batch in read], columns)
    return Batch({str(name): table[name] for name in table}, [file for one in read for file in one.files])


def _read(piece: Piece, clocks: Iterator[Alignment], columns: Sequence[str]) -> Batch:
    rows = RowsOfFiles([content.n_rows for content in piece.contents])
    files = list(zip(piece.sources, [next(clocks) for _ in piece.sources], strict=True))
    described = _descriptions(piece, rows, files)
    return Batch({name: _column(piece.frame, name, rows, files) for name in columns}, described)


def _column(frame: pd.DataFrame, name: str, rows: RowsOfFiles, files: Sequence[File]) -> Any:
    if name in ("rank", "incarnation"):
        return pd.Series(rows.repeated([getattr(source.name, name) for source, _ in files]))
    if name not in ("start_s", "end_s", "clock_uncertainty_s"):
        return frame[name]
    starts_s, ends_s = frame["start_counter"].to_numpy(), frame["end_counter"].to_numpy()
    values = np.empty(len(frame))
    for its, (_, clock) in zip(rows.slices, files, strict=True):
        values[its] = _on_the_axis(name, clock, starts_s[its], ends_s[its])
    return pd.Series(values)


def _on_the_axis(
    name: str, clock: Alignment, starts_s: npt.NDArray[np.float64], ends_s: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    if name == "start_s":
        return clock.on_the_axis(starts_s)
    if name == "end_s":
        return clock.on_the_axis(ends_s)
    return np.fmax(clock.uncertainty_at(starts_s), clock.uncertainty_at(ends_s))


def _descriptions(piece: Piece, rows: RowsOfFiles, files: Sequence[File]) -> list[dict[str, Any]]:
    frame, recur = piece.frame, have_recurring_numbers(piece.frame, rows)
    of_each = zip(
        files, piece.contents, rows.slices, recur.tolist(), first_and_last_us(frame, rows),
        first_and_last_s(frame, rows), inexact_numbers(frame, rows), clocks_and_numbers(frame, rows),
        strict=True,
    )  # fmt: skip
    found = []
    for (source, clock), content, its, recurs, ends_us, ends_s, inexact, numbers in of_each:
        may_be_two = recurs or content.headers
        source.second_run = second_run(frame.iloc[its], source.sidecar, content.headers) if may_be_two else ""
        found.append({
            **source.description(content),
            "inexact": inexact,
            "span_unix_ns": source.lifetime_with(ends_us),
            "second_run": source.second_run,
            **numbers,
            "clock": clock.description(*ends_s),
        })  # fmt: skip
    return found


# -- what the rows of files tell of each file, for many files at once ------------------------------------


Numbers: TypeAlias = "dict[str, tuple[int, int]]"

_INTEGERS = tuple(field.name for field in FIELDS if field.kind == "integer")
_NEEDED = frozenset({"seq", "group", "operation"})


def first_and_last_us(frame: pd.DataFrame, rows: RowsOfFiles) -> list[list[int]]:
    """Return the first and the last instant of each file, in Unix microseconds; an empty list without one."""
    instants = frame["timestamp"].dt.as_unit("us").to_numpy("M8[us]")
    ends = [rows.reduced(end_of, instants, np.datetime64("NaT", "us")) for end_of in (np.fmin, np.fmax)]
    has_any = ~np.isnat(ends[0])
    both = np.stack([end.astype(np.int64) for end in ends], axis=1).tolist()
    return [of_file if known else [] for of_file, known in zip(both, has_any, strict=True)]


def first_and_last_s(frame: pd.DataFrame, rows: RowsOfFiles) -> Iterator[tuple[float, float]]:
    """Yield the first start and the last end of each file, in s on its own axis; NaN if unknown."""
    first = rows.reduced(np.fmin, frame["start_counter"].to_numpy(np.float64), np.nan)
    last = rows.reduced(np.fmax, frame["end_counter"].to_numpy(np.float64), np.nan)
    return zip(first.tolist(), last.tolist(), strict=True)


def inexact_numbers(frame: pd.DataFrame, rows: RowsOfFiles) -> list[dict[str, int]]:
    """Count in each file and column the integers too large to be told from their neighbours.

    They are those beyond ``LARGEST``. Columns without such integers are left out.
    """
    found: list[dict[str, int]] = [{} for _ in range(rows.n_files)]
    for name in _INTEGERS:
        if name in frame:
            values = frame[name].to_numpy(np.int64, na_value=0)
            beyond = (values > LARGEST) | (values < -LARGEST)
            counts = np.bincount(rows.of_row[beyond], minlength=rows.n_files) if beyond.any() else ()
            for its, count in zip(found, counts, strict=False):
                if count:
                    its[name] = int(count)
    return found


def clocks_and_numbers(frame: pd.DataFrame, rows: RowsOfFiles) -> list[dict[str, Any]]:
    """Return what tells whether files can be of one run: their clock, and which collectives they have.

    Returns:
        For each file ``wall_minus_counter_s``: the Unix time at which the counter stood at 0, None if
        unknown; and ``numbers``: for each of a few groups, by name and size, the first and last number of a
        collective that no rank leaves before all have come.
    """
    if not set(frame.columns) >= _NEEDED:
        return [{"wall_minus_counter_s": None, "numbers": {}} for _ in range(rows.n_files)]
    offset_s = second_runs.unix_s(frame) - frame["start_counter"].to_numpy(np.float64)
    medians_s = [second_runs.median_of_known(offset_s[of_file]) for of_file in rows.slices]
    return [
        {"wall_minus_counter_s": None if np.isnan(median_s) else median_s, "numbers": numbers}
        for median_s, numbers in zip(medians_s, _numbers(frame, rows), strict=True)
    ]


def _numbers(frame: pd.DataFrame, rows: RowsOfFiles) -> list[Numbers]:
    """Return the first and last number of each group in each file, in the order in which groups occur."""
    group, names = second_runs.groups_of(frame)
    code, n_codes = rows.of_row * len(names) + group, rows.n_files * len(names)
    synchronises = second_runs.of_names(
        frame["operation"], lambda name: name.startswith(second_runs.SYNCHRONISING)
    )
    row = np.flatnonzero(synchronises & frame["seq"].notna().to_numpy())
    seq = frame["seq"].to_numpy(np.int64, na_value=0)[row]
    least, most = (np.full(n_codes, end, np.int64) for end in (np.iinfo(np.int64).max, -1 << 63))
    np.minimum.at(least, code[row], seq)
    np.maximum.at(most, code[row], seq)
    has_any = np.bincount(code[row], minlength=n_codes) > 0
    found: list[Numbers] = [{} for _ in range(rows.n_files)]
    n_groups = [0] * rows.n_files
    for one in _as_they_occur(code, n_codes).tolist():
        file, its_group = divmod(one, len(names))
        n_groups[file] += 1
        if has_any[one] and n_groups[file] <= second_runs.MOST_GROUPS:
            found[file][names[its_group]] = int(least[one]), int(most[one])
    return found


def _as_they_occur(code: npt.NDArray[np.int64], n_codes: int) -> npt.NDArray[np.int64]:
    """Return the codes that occur, in the order of their first rows."""
    first = np.full(n_codes, len(code))
    first[code[::-1]] = np.arange(len(code))[::-1]  # the last assignment counts: that of the first row
    present = np.flatnonzero(first < len(code))
    return present[np.argsort(first[present])]

"""Read the counters of the hosts, which ranks wrote once a second, into one table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from timing_logger.errors import NotATimingFileError
from timing_logger.host_counters import INSTANTS, NAMES, host_file_name, parse_host_file_name
from timing_logger.reading.alignment import Alignment
from timing_logger.reading.csv_lines import MAX_EXAMPLE_CHARS, MAX_EXAMPLES
from timing_logger.reading.runs_of_job import Incarnations
from timing_logger.reading.sources import Source
from timing_logger.reading.timings import AnyPath, timing_files, troubles
from timing_logger.run_info import TimingFile, check_is_file

if TYPE_CHECKING:
    import numpy.typing as npt

_OF_NUMBERS = b"0123456789.,-+e"
COUNTED = (*INSTANTS, *NAMES)
"""The columns that a file of counters may have."""

_ADDED = ("rank", "incarnation", "timestamp", "start_s", "end_s")
_NS_PER_S = 10**9


def read_host_counters(
    paths: AnyPath | Sequence[AnyPath], *, incarnations: Incarnations = "latest", world: str = ""
) -> pd.DataFrame:
    """Read what hosts, processes and devices counted during a run, beside its timings.

    Args:
        paths, incarnations, world: of which timing files, as for :func:`read_timings`. The counters are in
            the files ``host-rank*.csv`` beside these.

    Returns:
        One row for each second that a rank recorded, by rank and incarnation, then as in the file. ``rank``
        and ``incarnation`` (int64) are those of the timings. ``start_counter`` and ``end_counter`` (float64)
        are the interval of the row, in s on the process's own axis, and ``start_s`` and ``end_s`` the same on
        the axis of :func:`read_timings`. ``timestamp`` is the wall clock at the start (``datetime64[us,
        UTC]``, NaT without a sidecar). Then comes a float64 column for each of
        ``timing_logger.host_counters.COUNTERS``, which has their meanings and units: by how much a counter of
        the kind "difference" grew in the interval, or what one of the kind "level" was at its end; NaN where
        it is not known. Ranks without such a file have no rows.

        ``attrs["files"]`` has a dict for each file read: ``path``, ``rank``, ``incarnation``, ``parts`` (a
        dict with ``path`` for each part), ``rows``, ``cut`` (the unterminated last line, which is no row),
        ``bad_lines`` and ``bad_examples`` (damaged lines, which are skipped) and ``unseen`` (counters that
        the process could not see, and why: a list of dicts ``counters`` and ``why``).

    Warns:
        UserWarning: as :func:`read_timings`, of timing files that lack; and once, if lines were cut or
            skipped.

    Raises:
        NoTimingFilesError: a path does not exist, or a folder holds no timing file.
        NotATimingFileError: a file has another header.
        ConfigurationError: as :func:`read_timings`.
        OSError: a file cannot be opened.
    """
    found = timing_files(paths, incarnations=incarnations, world=world)
    read = list(_read_each(found.aligned, _read))
    table = (
        pd.concat([rows for rows, _ in read], ignore_index=True) if read else _of_rank(_no_rows(), None, None)
    )
    files = [described for _, described in read]
    table.attrs["files"] = files
    said = troubles({"files": files, "left_out": found.left_out, "about": found.about})
    if said:
        warnings.warn(said, UserWarning, stacklevel=2)
    return table


def host_counters_of_each(files: Iterable[tuple[Source, Alignment]]) -> Iterator[pd.DataFrame]:
    """Yield what :func:`read_host_counters` returns for each timing file that has some, one at a time.

    All of them together need much memory where ranks are many. The files are read while this is iterated.
    Lines that are damaged, and files that cannot be read, are skipped without a word.
    """
    return (rows for rows, _ in _read_each(files, partial(_unless_foreign, is_said=False)))


def host_counters_beside(
    paths: AnyPath | Sequence[AnyPath], *, incarnations: Incarnations = "latest", world: str = ""
) -> pd.DataFrame:
    """Return what :func:`read_host_counters` does, for an answer that can do without a file of counters.

    Warns:
        UserWarning: for each file that cannot be read, which is left out; of nothing else.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # whoever reads the timings says what these lack
        aligned = timing_files(paths, incarnations=incarnations, world=world).aligned
    pieces = [rows for rows, _ in _read_each(aligned, partial(_unless_foreign, is_said=True))]
    return pd.concat(pieces, ignore_index=True) if pieces else _of_rank(_no_rows(), None, None)


def _read_each(
    files: Iterable[tuple[Source, Alignment]], read_file: Callable[[Path], _Read]
) -> Iterator[tuple[pd.DataFrame, dict[str, Any]]]:
    for source, clock in files:
        if host_files := _files_of(source):
            read = [read_file(path) for path in host_files]
            rows = _of_rank(pd.concat([one.rows for one in read], ignore_index=True), source, clock)
            yield rows, _described(source, host_files, read)


def _files_of(source: Source) -> list[Path]:
    """Return the files of counters beside a timing file, in the order of their parts."""
    stated = TimingFile.parse(Path(source.stated()["parts"][0]["path"]).name)
    if stated is None:
        return []
    pattern = host_file_name(stated.first).replace(".csv", "*.csv")
    names = ((parse_host_file_name(path.name), path) for path in source.path.parent.glob(pattern))
    return [
        path
        for name, path in sorted((name, path) for name, path in names if name)
        if name.first == stated.first
    ]


class _Read(NamedTuple):
    """One file: its rows, the unterminated last line, how many lines are damaged, and a few of these."""

    rows: pd.DataFrame
    cut: str
    bad: list[bytes]


def _read(path: Path) -> _Read:
    check_is_file("paths", path)
    return _lines_of(path, path.read_bytes())


def counters_in(path: Path, data: bytes) -> npt.NDArray[np.float64]:
    """Return the rows that are in some lines of a file of counters, in the columns ``COUNTED``.

    Damaged lines are skipped.

    Args:
        path: of the file.
        data: its first line, and whole lines of it.

    Raises:
        NotATimingFileError: it has another header.
    """
    rows: npt.NDArray[np.float64] = _lines_of(path, data).rows[list(COUNTED)].to_numpy(np.float64)
    return rows


def _lines_of(path: Path, data: bytes) -> _Read:
    header, *lines = data.replace(b"\r\n", b"\n").split(b"\n")
    cut = lines.pop() if lines else header
    names = header.decode(errors="replace").split(",")
    if not lines:
        return _Read(_no_rows(), cut.decode(errors="backslashreplace"), [])
    if tuple(names[:2]) != INSTANTS:
        raise NotATimingFileError(
            f"paths: {str(path)!r} holds no counters of a host. Looked for a first line that begins with "
            f"{','.join(INSTANTS)!r}; found {header[:MAX_EXAMPLE_CHARS].decode(errors='replace')!r}."
        )
    sound = [_is_sound(line, len(names)) for line in lines]
    rows = _parsed([line for line, is_sound in zip(lines, sound, strict=True) if is_sound], names)
    bad = [line for line, is_sound in zip(lines, sound, strict=True) if not is_sound]
    return _Read(rows, cut.decode(errors="backslashreplace"), bad)


def _unless_foreign(path: Path, *, is_said: bool) -> _Read:
    try:
        return _read(path)
    except (NotATimingFileError, OSError) as error:
        if is_said:
            warnings.warn(f"{error} Its counters are left out.", UserWarning, stacklevel=2)
        return _Read(_no_rows(), "", [])


def _is_sound(line: bytes, n_cells: int) -> bool:
    """Tell whether each cell of a line is a number or blank, and the interval is known."""
    cells = line.split(b",")
    if len(cells) != n_cells or line.translate(None, _OF_NUMBERS):
        return False
    try:
        for cell in cells:
            float(cell or 0)
    except ValueError:
        return False
    return bool(cells[0] and cells[1])


def _parsed(lines: list[bytes], names: list[str]) -> pd.DataFrame:
    if not lines:
        return _no_rows()
    rows: pd.DataFrame = pd.read_csv(BytesIO(b"\n".join(lines)), header=None, names=names, dtype="float64")
    known: pd.DataFrame = rows.reindex(columns=[*INSTANTS, *NAMES])
    return known


def _no_rows() -> pd.DataFrame:
    empty: pd.DataFrame = pd.DataFrame({name: np.empty(0) for name in (*INSTANTS, *NAMES)})
    return empty


def _of_rank(rows: pd.DataFrame, source: Source | None, clock: Alignment | None) -> pd.DataFrame:
    """Add what the timing file tells of its rows: whose they are, and when they were for all ranks."""
    starts_s, ends_s = (rows[name].to_numpy() for name in INSTANTS)
    added = {
        "rank": np.full(len(rows), 0 if source is None else source.name.rank),
        "incarnation": np.full(len(rows), 0 if source is None else source.name.incarnation),
        "timestamp": _timestamps(starts_s, (source.sidecar if source else None) or {}),
        "start_s": starts_s if clock is None else clock.on_the_axis(starts_s),
        "end_s": ends_s if clock is None else clock.on_the_axis(ends_s),
    }
    whole: pd.DataFrame = pd.concat([pd.DataFrame(added), rows], axis=1)
    return whole


def _timestamps(starts_s: npt.NDArray[np.float64], sidecar: dict[str, Any]) -> pd.Series[pd.Timestamp]:
    """Return instants on the wall clock, as the last anchor of the process's clock before each tells."""
    instants = np.full(len(starts_s), np.datetime64("NaT"), "M8[us]")
    if anchors := sidecar.get("clock_anchors"):
        counters_ns = np.array([anchor["perf_counter_ns"] for anchor in anchors])
        offsets_ns = np.array([anchor["unix_ns"] for anchor in anchors]) - counters_ns
        starts_ns = (starts_s * _NS_PER_S).astype(np.int64)
        at = np.searchsorted(counters_ns, starts_ns, side="right").clip(1) - 1
        instants = ((starts_ns + offsets_ns[at]) // 1000).view("M8[us]")
    in_utc: pd.Series[pd.Timestamp] = pd.Series(instants).dt.tz_localize("UTC")
    return in_utc


def _described(source: Source, paths: list[Path], read: list[_Read]) -> dict[str, Any]:
    bad = [line for one in read for line in one.bad]
    stated = (source.sidecar or {}).get("host_counters") or {}
    return {
        "path": str(paths[0]),
        "rank": source.name.rank,
        "incarnation": source.name.incarnation,
        "parts": [{"path": str(path)} for path in paths],
        "rows": sum(len(one.rows) for one in read),
        "cut": "\n".join(one.cut for one in read if one.cut),
        "bad_lines": len(bad),
        "bad_examples": [
            line[:MAX_EXAMPLE_CHARS].decode(errors="backslashreplace") for line in bad[:MAX_EXAMPLES]
        ],
        "unseen": stated.get("unseen", []),
    }

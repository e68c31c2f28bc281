"""Read the files that stand beside timing files, each kind into one table."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from timing_logger.errors import NotATimingFileError
from timing_logger.process.shared_files import content_of, matching
from timing_logger.process.sidecar_files import check_is_file
from timing_logger.reading.alignment import Alignment
from timing_logger.reading.csv_lines import MAX_EXAMPLE_CHARS, MAX_EXAMPLES, shortened
from timing_logger.reading.runs_of_job import Incarnations
from timing_logger.reading.sources import Source
from timing_logger.reading.timings import AnyPath, timing_files, troubles
from timing_logger.schema.cells import unescape_text
from timing_logger.schema.timing_files import COLUMNS, STACKS, FilesBeside, StackSample, TimingFile

if TYPE_CHECKING:
    import numpy.typing as npt

_NS_PER_S = 10**9


class Read(NamedTuple):
    """One file: its rows, the unterminated last line, and the lines that are damaged."""

    rows: pd.DataFrame
    cut: str
    bad: list[bytes]


class KindOfTable(NamedTuple):
    """How files of one kind become a table.

    Attributes:
        files: their names.
        what: what they hold, for messages.
        begins: the names with which their first lines begin.
        parsed: maps sound lines, in the columns of a header, to rows.
        is_sound: tells whether a line is one of so many columns.
        instants: the columns with instants on the process's own axis, in s, by the names that the same
            instants have on the axis of all ranks.
        described: what ``attrs["files"]`` tells of a file beyond what it tells of all kinds, from the
            sidecar.
    """

    files: FilesBeside
    what: str
    begins: tuple[str, ...]
    parsed: Callable[[list[bytes], list[str]], pd.DataFrame]
    is_sound: Callable[[bytes, int], bool]
    instants: Mapping[str, str]
    described: Callable[[Mapping[str, Any]], dict[str, Any]]

    def read(
        self, paths: AnyPath | Sequence[AnyPath], incarnations: Incarnations, world: str, stacklevel: int
    ) -> pd.DataFrame:
        """Return the rows of all files beside timing files, and warn of what lacks.

        Args:
            paths, incarnations, world: of which timing files, as for ``read_timings``.
            stacklevel: as for ``warnings.warn``, seen from the caller.
        """
        found = timing_files(paths, incarnations=incarnations, world=world)
        read = list(self._each(found.aligned, self._file))
        table = self._joined([rows for rows, _ in read])
        files = [described for _, described in read]
        table.attrs["files"] = files
        said = troubles({"files": files, "left_out": found.left_out, "about": found.about})
        if said:
            warnings.warn(said, UserWarning, stacklevel=stacklevel + 1)
        return table

    def of_each(self, files: Iterable[tuple[Source, Alignment]]) -> Iterator[pd.DataFrame]:
        """Yield the rows beside each timing file that has some, one at a time, without a word of what lacks.

        All of them together need much memory where ranks are many. The files are read while this is iterated.
        """
        return (rows for rows, _ in self._each(files, partial(self._unless_foreign, is_said=False)))

    def of_files(self, files: Iterable[tuple[Source, Alignment]]) -> pd.DataFrame:
        """Return the rows beside timing files, for an answer that can do without a file of the kind.

        Warns:
            UserWarning: for each file that cannot be read, which is left out; of nothing else.
        """
        return self._joined([
            rows for rows, _ in self._each(files, partial(self._unless_foreign, is_said=True))
        ])  # fmt: skip

    def lines(self, path: Path, data: bytes) -> Read:
        """Read a file, or its first line and some whole lines of it.

        Raises:
            NotATimingFileError: it has another header.
        """
        header, *lines = data.replace(b"\r\n", b"\n").split(b"\n")
        cut = lines.pop() if lines else header
        names = header.decode(errors="replace").split(",")
        if not lines:
            return Read(self.parsed([], names), cut.decode(errors="backslashreplace"), [])
        if tuple(names[: len(self.begins)]) != self.begins:
            raise NotATimingFileError(
                f"paths: {str(path)!r} holds no {self.what}. Looked for a first line that begins with "
                f"{','.join(self.begins)!r}; found {header[:MAX_EXAMPLE_CHARS].decode(errors='replace')!r}."
            )
        sound = [self.is_sound(line, len(names)) for line in lines]
        rows = self.parsed([line for line, is_sound in zip(lines, sound, strict=True) if is_sound], names)
        bad = [line for line, is_sound in zip(lines, sound, strict=True) if not is_sound]
        return Read(rows, cut.decode(errors="backslashreplace"), bad)

    # -- parts ----------------------------------------------------------------------------------

    def _each(
        self, files: Iterable[tuple[Source, Alignment]], read_file: Callable[[Path], Read]
    ) -> Iterator[tuple[pd.DataFrame, dict[str, Any]]]:
        beside = _Beside(self.files)
        for source, clock in files:
            if paths := beside.of(source):
                read = [read_file(path) for path in paths]
                rows = self._of_rank(pd.concat([one.rows for one in read], ignore_index=True), source, clock)
                yield rows, self._told(source, paths, read)

    def _file(self, path: Path) -> Read:
        check_is_file("paths", path)
        return self.lines(path, content_of(path))

    def _unless_foreign(self, path: Path, *, is_said: bool) -> Read:
        try:
            return self._file(path)
        except (NotATimingFileError, OSError) as error:
            if is_said:
                warnings.warn(f"{error} Its lines are left out.", UserWarning, stacklevel=2)
            return Read(self.parsed([], []), "", [])

    def _joined(self, tables: list[pd.DataFrame]) -> pd.DataFrame:
        if not tables:
            return self._of_rank(self.parsed([], []), None, None)
        joined: pd.DataFrame = pd.concat(tables, ignore_index=True)
        return joined

    def _of_rank(self, rows: pd.DataFrame, source: Source | None, clock: Alignment | None) -> pd.DataFrame:
        """Add what the timing file tells of its rows: whose they are, and when they were for all ranks."""
        own = {name: rows[column].to_numpy() for name, column in self.instants.items()}
        added = {
            "rank": np.full(len(rows), 0 if source is None else source.name.rank),
            "incarnation": np.full(len(rows), 0 if source is None else source.name.incarnation),
            "timestamp": _timestamps(next(iter(own.values())), (source.sidecar if source else None) or {}),
            **{name: at if clock is None else clock.on_the_axis(at) for name, at in own.items()},
        }
        whole: pd.DataFrame = pd.concat([pd.DataFrame(added), rows], axis=1)
        return whole

    def _told(self, source: Source, paths: list[Path], read: list[Read]) -> dict[str, Any]:
        bad = [line for one in read for line in one.bad]
        return {
            "path": str(paths[0]),
            "rank": source.name.rank,
            "incarnation": source.name.incarnation,
            "parts": [{"path": str(path)} for path in paths],
            "rows": sum(len(one.rows) for one in read),
            "cut": "\n".join(one.cut for one in read if one.cut),
            "bad_lines": len(bad),
            "bad_examples": [shortened(line) for line in bad[:MAX_EXAMPLES]],
            **self.described(source.sidecar or {}),
        }


class _Beside:
    """The files of a kind beside timing files. A folder is listed once: it may have those of 10,000 ranks."""

    def __init__(self, files: FilesBeside) -> None:
        self._files = files
        self._of_folder: dict[Path, dict[TimingFile, list[Path]]] = {}

    def of(self, source: Source) -> list[Path]:
        """Return the files beside a timing file, in the order of their parts."""
        stated = TimingFile.parse(Path(source.stated()["parts"][0]["path"]).name)
        folder = source.path.parent
        if folder not in self._of_folder:
            self._of_folder[folder] = self._listed(folder)
        return self._of_folder[folder].get(stated.first, []) if stated else []

    def _listed(self, folder: Path) -> dict[TimingFile, list[Path]]:
        paths = matching(folder, f"{self._files.kind}-rank*.csv")
        named = ((self._files.parse(path.name), path) for path in paths)
        found: dict[TimingFile, list[Path]] = {}
        for name, path in sorted((name, path) for name, path in named if name):
            found.setdefault(name.first, []).append(path)
        return found


def _timestamps(starts_s: npt.NDArray[np.float64], sidecar: Mapping[str, Any]) -> pd.Series[pd.Timestamp]:
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


def read_stack_samples(
    paths: AnyPath | Sequence[AnyPath], *, incarnations: Incarnations = "latest", world: str = ""
) -> pd.DataFrame:
    """Read in which lines of the program's code the main threads of ranks were, beside their timings.

    Args:
        paths, incarnations, world: of which timing files, as for :func:`read_timings`. The samples are in the
            files ``stacks-rank*.csv`` beside these.

    Returns:
        One row for each sample, by rank and incarnation, then by time. ``rank`` and ``incarnation`` (int64)
        are those of the timings; ``timestamp`` is the wall clock (``datetime64[us, UTC]``, NaT without a
        sidecar); ``at_s`` (float64) is the instant in s on the axis of :func:`read_timings`. Then come the
        columns of the file, ``counter``, ``function``, ``file``, ``line`` and ``library_call``:
        :class:`timing_logger.schema.timing_files.StackSample` says what they are. Ranks without such a file
        have no rows.

        ``attrs["files"]`` has a dict for each file read: ``path``, ``rank``, ``incarnation``, ``parts`` (a
        dict with ``path`` for each part), ``rows``, ``cut`` (the unterminated last line, which is no row),
        ``bad_lines`` and ``bad_examples`` (damaged lines, which are skipped) and ``lost`` (samples that could
        not be written; None if the sidecar does not say).

    Warns:
        UserWarning: as :func:`read_timings`, of timing files that lack; and once, if lines were cut or
            skipped.

    Raises:
        NoTimingFilesError: a path does not exist, or a folder holds no timing file.
        NotATimingFileError: a file has another header.
        ConfigurationError: as :func:`read_timings`.
        OSError: a file cannot be opened.
    """
    return _STACK_ROWS.read(paths, incarnations, world, stacklevel=2)


def stack_samples_of(files: Iterable[tuple[Source, Alignment]]) -> pd.DataFrame:
    """Return what :func:`read_stack_samples` does, for an answer that can do without a file of samples.

    Args:
        files: the timing files.

    Warns:
        UserWarning: for each file that cannot be read, which is left out; of nothing else.
    """
    return _STACK_ROWS.of_files(files)


def _cells(line: bytes) -> list[str]:
    return next(csv.reader([line.decode(errors="replace")]), [])


def _is_sound(line: bytes, n_cells: int) -> bool:
    """Tell whether a line has all its cells, and numbers where they belong."""
    cells = _cells(line)
    if len(cells) != n_cells:
        return False
    try:
        float(cells[0])
        int(cells[3])
    except ValueError:
        return False
    return True


def _parsed(lines: list[bytes], names: list[str]) -> pd.DataFrame:
    cells = [_cells(line)[: len(COLUMNS)] for line in lines]
    samples = [
        StackSample(float(at), unescape_text(function), unescape_text(file), int(line), unescape_text(call))
        for at, function, file, line, call in cells
    ]
    table: pd.DataFrame = pd.DataFrame(samples, columns=list(COLUMNS))
    typed: pd.DataFrame = table.astype({"counter": np.float64, "line": np.int64})
    return typed


def _described(sidecar: Mapping[str, Any]) -> dict[str, Any]:
    return {"lost": (sidecar.get("stack_samples") or {}).get("lost")}


_STACK_ROWS = KindOfTable(
    STACKS, "stack samples", COLUMNS, _parsed, _is_sound, {"at_s": "counter"}, _described
)

"""Timing files -> one table: which files, from which processes, and what was wrong with them.

Nothing here writes: reading the same files twice gives the same table, also while they grow.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import pandas as pd

from timing_logger._alignment import Alignment, alignments
from timing_logger._parquet import SUFFIX as PARQUET
from timing_logger._parquet import NotConverted, Part, is_parquet_name, parts_of
from timing_logger._parsing import BARE_COLUMNS, Parsed, UnknownHeader, parse_timings
from timing_logger.errors import ConfigurationError, NotATimingFileError, NoTimingFilesError
from timing_logger.run_info import TimingFile, sidecar_path

PATTERN = "timing-rank*.csv"
"""What a timing file is called; ``run_info.TimingFile`` says it exactly."""

AnyPath: TypeAlias = "str | os.PathLike[str]"

_MAX_NAMED = 5


def read_timings(
    paths: AnyPath | Sequence[AnyPath], *, incarnations: Literal["latest", "all"] = "latest"
) -> pd.DataFrame:
    """Read the timings of all ranks into one table.

    Also reads what ``convert`` made of such files: Parquet, whose rows are by rank, incarnation and start,
    and whose descriptions are those of the files that it was made from.

    Also reads files without a sidecar, and ones with only the first ten columns: text that they
    lack is "", ``clock`` is then "host" and ``status`` "ok". Times without a zone count as UTC.

    Args:
        paths: a folder that holds ``timing-rank*.csv`` (or, without these, ``timing-rank*.parquet``), one
            such file, one Parquet file of several ranks, or several of any of these.
        incarnations: a restart into the same folder, or a second process with the same rank,
            writes a file of its own (``timing-rank0.run2.csv``). "latest" reads the newest file
            of each rank, without those that an earlier job left behind; "all" reads everything,
            told apart by the column ``incarnation``.

    Returns:
        One row for each record, by rank and incarnation, then as in the file. Columns are those of
        ``record.COLUMNS`` (units there), then ``rank`` and ``incarnation`` (int64), ``start_s``,
        ``end_s`` and ``clock_uncertainty_s``. ``timestamp``
        is ``datetime64[us, UTC]``; integers are ``Int64`` with NA where blank; ``elapsed_ms``,
        ``start_counter`` and ``end_counter`` are ``float64`` with NaN where blank; text is ""
        where blank, and as it was recorded save for lone surrogates, which stay escaped.

        ``start_s`` and ``end_s`` are ``start_counter`` and ``end_counter`` on one axis for all ranks, the
        ``perf_counter`` of the reference rank, in s (``float64``, NaN where blank): that which
        ``synchronise_clocks`` was given, else the first rank whose sidecar names its clock.
        ``clock_uncertainty_s`` (``float64``) is how far off, at most, they may be from the reference's
        clock: 0 on its host (same host name and boot id); where offsets were measured, their half width,
        interpolated, and growing by ``_alignment.DRIFT_BOUND`` before the first measurement and after the
        last. It is NaN for ranks that are **not aligned**: on another host without measurements, where
        the wall clocks of both sidecars map the instants, ms off or worse; or without a sidecar that says
        which clock it was, where they stay as recorded. See docs/clocks.md.

        ``attrs["files"]`` has a dict for each file read: ``path``, ``rank``, ``incarnation``,
        ``bytes``, ``rows``, ``cut`` (the unterminated last line, which is no row; "" if none),
        ``bad_lines`` (how many damaged lines were skipped), ``bad_examples`` (a few of them),
        ``sidecar`` (the dict, or None) and ``clock``: a dict with ``alignment`` ("same host", "measured"
        or "unaligned"), ``reference_rank``, ``measurements`` (how many), ``offset_s`` (the latest; None
        if the instants stay as recorded) and ``uncertainty_s`` (the largest at a measurement, None if
        unknown). ``attrs["left_out"]`` has a dict with ``path`` and
        ``reason`` for each file that was not read.

    Warns:
        UserWarning: once, if lines were cut or skipped or files left out.

    Raises:
        NoTimingFilesError: a path does not exist, or a folder holds no timing file.
        NotATimingFileError: a file has another header or another kind of name, or is Parquet that
            ``convert`` did not write.
        ImportError: for Parquet, pyarrow is not installed.
        ConfigurationError: two files are of the same rank and incarnation, so that their rows
            could not be told apart; or ``incarnations`` is another word.
        OSError: a file cannot be opened.
    """
    if incarnations not in ("latest", "all"):
        raise ConfigurationError(f"incarnations={incarnations!r}: say 'latest' or 'all'.")
    sources = find_sources([paths] if isinstance(paths, (str, os.PathLike)) else paths)
    chosen, left_out = (sources, []) if incarnations == "all" else _newest_job(sources)
    clocks = alignments([(source.name, source.sidecar) for source in chosen])
    aligned = list(zip(chosen, clocks, strict=True))
    table = pd.concat([source.rows(clock) for source, clock in aligned], ignore_index=True)
    table.attrs["files"] = [source.description(clock) for source, clock in aligned]
    table.attrs["left_out"] = [{"path": str(path), "reason": reason} for path, reason in left_out]
    if found := troubles(table.attrs):
        warnings.warn(found, UserWarning, stacklevel=2)
    return table


class _LeftOut(NamedTuple):
    path: Path
    reason: str


# -- one file ------------------------------------------------------------------------------------


class _Span(NamedTuple):
    """From when to when a process wrote, in Unix nanoseconds, as far as its files tell."""

    start: int
    end: int


@dataclass(frozen=True)
class Source:
    """One timing file, read when it is first asked for its content."""

    path: Path
    name: TimingFile

    @cached_property
    def parsed(self) -> Parsed:
        try:
            return parse_timings(self._content())
        except UnknownHeader as error:
            raise NotATimingFileError(
                f"paths: {str(self.path)!r} is not a timing file. Looked for a first line that names at "
                f"least the columns {', '.join(BARE_COLUMNS)}; found {error.args[0]!r}."
            ) from None

    def _content(self) -> bytes:
        if not self.path.is_file():  # reading a FIFO would wait for a writer
            raise NotATimingFileError(f"paths: {str(self.path)!r} is not a regular file. Move it away.")
        return self.path.read_bytes()

    @cached_property
    def sidecar(self) -> dict[str, Any] | None:
        try:
            content = json.loads(sidecar_path(self.path).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) else None

    @cached_property
    def span(self) -> _Span | None:
        """None if neither sidecar nor rows say when. A killed process leaves its sidecar behind its rows."""
        sidecar, instants = self.sidecar or {}, self.parsed.frame["timestamp"].dropna()
        rows = [instants.min().value, instants.max().value] if len(instants) else []
        stated = [sidecar.get(key) for key in ("started_unix_ns", "updated_unix_ns")]
        known = rows + [instant for instant in stated if isinstance(instant, int)]
        start = stated[0] if isinstance(stated[0], int) else min(known, default=None)
        return None if start is None else _Span(start, max(known))

    def rows(self, clock: Alignment) -> pd.DataFrame:
        frame = self.parsed.frame
        start_s, end_s = frame["start_counter"].to_numpy(), frame["end_counter"].to_numpy()
        aligned: pd.DataFrame = frame.assign(
            rank=self.name.rank,
            incarnation=self.name.incarnation,
            start_s=clock.on_the_axis(start_s),
            end_s=clock.on_the_axis(end_s),
            clock_uncertainty_s=clock.uncertainty_at(start_s),
        )
        return aligned

    def description(self, clock: Alignment) -> dict[str, Any]:
        parsed = self.parsed
        return {
            "path": str(self.path),
            "rank": self.name.rank,
            "incarnation": self.name.incarnation,
            "bytes": parsed.n_bytes,
            "rows": len(parsed.frame),
            "cut": parsed.cut,
            "bad_lines": parsed.bad_lines,
            "bad_examples": parsed.bad_examples,
            "sidecar": self.sidecar,
            "clock": clock.description(),
        }


@dataclass(frozen=True)
class _ParquetSource(Source):
    """What a Parquet file holds of one timing file."""

    part: Part

    @cached_property
    def parsed(self) -> Parsed:
        return self.part.parsed

    @cached_property
    def sidecar(self) -> dict[str, Any] | None:
        return self.part.sidecar


# -- which files -----------------------------------------------------------------------------------


def find_sources(paths: Iterable[AnyPath]) -> list[Source]:
    """The timing files that ``paths`` name or hold, each once, by rank and incarnation."""
    files = {file.resolve(): file for path in paths for file in _files_at(Path(path))}
    if not files:
        raise NoTimingFilesError(f"paths: none given. Name a folder that holds {PATTERN}, or such files.")
    by_name: dict[TimingFile, Source] = {}
    for source in (source for path in files.values() for source in _sources_in(path)):
        other = by_name.setdefault(source.name, source)
        if other is not source:
            raise ConfigurationError(
                f"paths: {str(other.path)!r} and {str(source.path)!r} are both of rank {source.name.rank}, "
                f"incarnation {source.name.incarnation}: their rows could not be told apart. "
                "Read them one at a time."
            )
    return [by_name[name] for name in sorted(by_name)]


def _files_at(path: Path) -> list[Path]:
    if path.is_dir():
        entries = list(path.iterdir())
        files = [file for file in entries if TimingFile.parse(file.name)]
        files = files or [file for file in entries if is_parquet_name(file.name)]
        if not files:
            raise NoTimingFilesError(f"paths: no {PATTERN} in {str(path)!r}. {_what_is_in(path)}")
        return files
    if not path.exists():
        parent = next((folder for folder in path.parents if folder.is_dir()), Path())
        raise NoTimingFilesError(
            f"paths: {str(path)!r} does not exist. Looked for a folder that holds {PATTERN}, or for such "
            f"a file. {_what_is_in(parent)}"
        )
    return [path]


def _sources_in(path: Path) -> list[Source]:
    if path.suffix != PARQUET:
        return [Source(path, _stated_name(path))]
    try:
        return [_ParquetSource(path, part.name, part) for part in parts_of(path)]
    except NotConverted as error:
        raise NotATimingFileError(
            f"paths: {str(path)!r} cannot be read: {error}. Name one that 'timing-logger convert' wrote."
        ) from None


def _stated_name(path: Path) -> TimingFile:
    name = TimingFile.parse(path.name)
    if name is None:
        raise NotATimingFileError(
            f"paths: the name of {str(path)!r} states no rank. Looked for {PATTERN}, such as "
            f"{TimingFile(0).name!r} or {TimingFile(0, 2).name!r}; rename the file if it is one."
        )
    return name


def _what_is_in(folder: Path) -> str:
    """For a message: where else the reader may have meant, else what there is instead."""
    names = sorted(entry.name + "/" * entry.is_dir() for entry in folder.iterdir())
    better = sorted({str(file.parent) for file in folder.glob(f"*/{PATTERN}") if TimingFile.parse(file.name)})
    if better:
        return f"There are timing files in {_listed(map(repr, better))}."
    return f"{str(folder)!r} holds {_listed(names) if names else 'nothing'}."


def _listed(words: Iterable[str], separator: str = ", ") -> str:
    words = list(words)
    more = [f"and {len(words) - _MAX_NAMED} more"] if len(words) > _MAX_NAMED else []
    return separator.join(words[:_MAX_NAMED] + more)


# -- which incarnations ----------------------------------------------------------------------------


def _newest_job(sources: list[Source]) -> tuple[list[Source], list[_LeftOut]]:
    """The newest file of each rank, unless that rank took no part in the newest job.

    A job with fewer ranks than the one before leaves files of the ranks that it lacks. Such a file
    had ended before some other rank's present file began, and was written while the file which
    that one replaced still was.
    """
    newest = {source.name.rank: source for source in sources}  # sorted: the last one of a rank stays
    replaced = {s.name.rank: s for s in sources if s is not newest[s.name.rank]}
    kept, left_out = [], []
    for source in sources:
        present = newest[source.name.rank]
        if source is not present:
            left_out.append(_LeftOut(source.path, f"{present.path.name} of the same rank is newer"))
            continue
        successor = _successor(source, [(newest[rank], old) for rank, old in replaced.items()])
        if successor is None:
            kept.append(source)
        else:
            reason = f"of an earlier job: it had ended when {successor.path.name} began"
            left_out.append(_LeftOut(source.path, reason))
    return kept, left_out


def _successor(source: Source, restarts: list[tuple[Source, Source]]) -> Source | None:
    """The file of another rank that shows ``source`` to be of an earlier job.

    ``restarts`` pairs the newest file of a rank with the one before it.
    """
    for new, old in restarts:
        if new.name.rank != source.name.rank and source.span and new.span and old.span:
            ended_before = source.span.end < new.span.start
            in_old_time = source.span.start <= old.span.end
            if ended_before and in_old_time:
                return new
    return None


# -- what to warn of -------------------------------------------------------------------------------


def troubles(attrs: dict[Any, Any]) -> str:
    """One line for each file that is not whole or was not read; "" if all is well."""
    lines = [f"{file['path']}: the unterminated last line was cut" for file in attrs["files"] if file["cut"]]
    lines += [
        f"{file['path']}: {_damaged(file['bad_lines'])} skipped, such as {file['bad_examples'][0]!r}"
        for file in attrs["files"]
        if file["bad_lines"]
    ]
    lines += [f"{file['path']}: left out, {file['reason']}" for file in attrs["left_out"]]
    return _listed(lines, separator="\n")


def _damaged(n_lines: int) -> str:
    return "1 damaged line was" if n_lines == 1 else f"{n_lines} damaged lines were"

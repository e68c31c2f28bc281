"""Timing files -> one table: which files, from which processes, and what was wrong with them.

Nothing here writes: reading the same files twice gives the same table, also while they grow.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from timing_logger.errors import ConfigurationError, NotATimingFileError, NoTimingFilesError
from timing_logger.reading.alignment import Alignment, alignments
from timing_logger.reading.file_problems import missing_parts, parts_trouble, problems_of
from timing_logger.reading.parquet import SUFFIX as PARQUET
from timing_logger.reading.parquet import NotConverted, is_parquet_name, parts_of
from timing_logger.reading.runs_of_job import Incarnations, check_incarnations, of_run
from timing_logger.reading.sources import ADDED_COLUMNS, Engine, ParquetSource, Source, chosen_engine, joined
from timing_logger.record import COLUMNS
from timing_logger.run_info import TimingFile

if TYPE_CHECKING:
    import pandas as pd

PATTERN = "timing-rank*.csv"
"""What a timing file is called; ``run_info.TimingFile`` says it exactly."""

AnyPath: TypeAlias = "str | os.PathLike[str]"

_MAX_NAMED = 5


def read_timings(
    paths: AnyPath | Sequence[AnyPath],
    *,
    incarnations: Incarnations = "latest",
    engine: Literal["auto", "pandas", "duckdb"] = "auto",
    columns: Collection[str] | None = None,
) -> pd.DataFrame:
    """Read the timings of all ranks into one table.

    Also reads files without a sidecar, and ones with only the first ten columns: text that they
    lack is "", ``clock`` is then "host" and ``status`` "ok". Times without a zone count as UTC.

    Also reads what ``convert`` made of such files: Parquet, whose rows are by rank, incarnation and start,
    and whose descriptions are those of the files that it was made from.

    Args:
        paths: a folder that holds ``timing-rank*.csv`` (or, without these, ``timing-rank*.parquet``), one
            such file, one Parquet file of several ranks, or several of any of these. A file that was
            written in parts (``timing-rank0.part2.csv``) is one: with any part, all beside it are read.
        incarnations: a restart into the same folder, or a second process with the same rank,
            writes a file of its own (``timing-rank0.run2.csv``). "latest" reads the newest file
            of each rank, without those that an earlier job left behind; "all" reads everything,
            told apart by the column ``incarnation``. A number reads the run of that number: 1 for files
            without one in their names, 2 for ``.run2``, ...; and with it the files of ranks that took part in
            it, but not in all runs before, and so have a lower number.
        engine: what reads the files. "duckdb" uses all cores and takes a fraction of the memory: text comes
            as categoricals, all else as below. "auto" takes it for files of more than
            ``sources.LARGE_BYTES`` together, if it is installed (``pip install 'timing_logger[large]'``); of
            Parquet those count that it was made of.
        columns: only these of the columns below, which saves memory; ``rank`` and ``incarnation`` always
            come.

    Returns:
        One row for each record, by rank and incarnation, then as in the file; a call that was written while
        it was open (``inflight``) and ended later has the row of its end alone. Columns are those of
        ``record.COLUMNS`` (units there), then ``rank`` and ``incarnation`` (int64), ``start_s``,
        ``end_s`` and ``clock_uncertainty_s``. ``timestamp``
        is ``datetime64[us, UTC]``; integers are ``Int64`` with NA where blank; ``elapsed_ms``,
        ``start_counter`` and ``end_counter`` are ``float64`` with NaN where blank; text is ""
        where blank, and as it was recorded save for lone surrogates, which stay escaped.

        ``start_s`` and ``end_s`` are ``start_counter`` and ``end_counter`` on one axis for all ranks, the
        ``perf_counter`` of the reference rank, in s (``float64``, NaN where blank): that which
        ``synchronise_clocks`` was given, else the first rank whose sidecar names its clock.
        ``clock_uncertainty_s`` (``float64``) is how far off they may be from the reference's
        clock, if clocks part by no more than ``run_info.DRIFT_BOUND`` while nobody measures them: 0 on its
        host (same host name and boot id); where offsets were measured, their half width, and what drift adds
        with the time to the nearest measurement; between two that contradict that bound, the whole step
        between them; of start and end the larger. It is NaN for ranks that are **not aligned**: on another
        host without measurements, where the wall clocks of both sidecars map the instants, ms off or worse;
        or without a sidecar that says which clock it was, where they stay as recorded. See docs/clocks.md.

        ``attrs["files"]`` has a dict for each file read: ``path``, ``rank``, ``incarnation``,
        ``parts`` (for each part a dict with ``path``, ``bytes`` and ``rows``), ``bytes``, ``rows``
        (with those that later rows replaced), ``cut`` (the unterminated last line, which is no row; "" if
        none), ``bad_lines`` (how many damaged lines were skipped), ``bad_examples`` (a few of them),
        ``inexact`` (how many integers of each column lie beyond ``record.LARGEST``: analyses count them as
        blank), ``sidecar`` (the dict, with what is not of its type left out and named in a list under
        ``unusable``; or None), ``span_unix_ns`` (from when to when the process wrote, as sidecar and
        rows say; None if neither does) and ``clock``: a dict with ``alignment`` ("same host", "measured"
        or "unaligned"), ``reference_rank``, ``measurements`` (how many), ``offset_s`` (the latest; None
        if the instants stay as recorded), ``uncertainty_s`` (the largest while it was measured or had rows,
        None if unknown) and ``contradictions`` (a dict for each two neighbouring measurements that
        are farther apart than drift explains: ``after_s`` and ``before_s``, when they were made by this
        clock, ``moved_s``, how far apart, and ``explained_s``). ``attrs["left_out"]`` has a dict with
        ``path`` and ``reason`` for each file that was not read. ``attrs["engine"]`` is "pandas" or "duckdb".

    Warns:
        UserWarning: once, if lines were cut or skipped or files left out, a file has other rows than its
            sidecar says, a part of it is missing, something in a sidecar cannot be used, or measurements of a
            clock contradict each other; and once, if the files are large and DuckDB is not installed.

    Raises:
        NoTimingFilesError: a path does not exist, or a folder holds no timing file.
        NotATimingFileError: a file has another header or another kind of name, or is Parquet that
            ``convert`` did not write.
        ConfigurationError: for Parquet, pyarrow is not installed.
        ConfigurationError: two files are of the same rank and incarnation, so that their rows
            could not be told apart; there is no such run; ``incarnations`` or ``engine`` is another word;
            ``columns`` has a name that is none; or DuckDB is asked for and not installed.
        OSError: a file cannot be opened.
    """
    found = timing_files(paths, incarnations=incarnations, engine=engine, columns=columns)
    # One file after the other, so that of none more is held than what is asked for.
    read = [(source.description(clock), source.take_rows(clock)) for source, clock in found.aligned]
    files = [file for file, _ in read]
    table = joined([rows for _, rows in read], _in_order(columns))
    table.attrs.update(files=files, left_out=found.left_out, engine=found.engine)
    _warn_of(table.attrs)
    return table


def known_unread(aligned: Iterable[tuple[Source, Alignment]]) -> list[dict[str, Any]]:
    """As much of ``attrs["files"]`` as the sidecars of these files tell."""
    return [{**source.stated(), "clock": clock.description()} for source, clock in aligned]


def _warn_of(attrs: dict[Any, Any]) -> None:
    if found_wrong := troubles(attrs):
        warnings.warn(found_wrong, UserWarning, stacklevel=3)


class TimingFiles(NamedTuple):
    """Files that have been chosen, but, as far as possible, not yet read.

    Attributes:
        aligned: each file, and how its instants come onto the common axis.
        left_out: a dict with ``path`` and ``reason`` for each of the others.
        engine: what will read them.
        n_bytes: of the timing files together, as text; Parquet says how large those were that it was made of.
    """

    aligned: list[tuple[Source, Alignment]]
    left_out: list[dict[str, str]]
    engine: Engine
    n_bytes: int


def timing_files(
    paths: AnyPath | Sequence[AnyPath],
    *,
    incarnations: Incarnations = "latest",
    engine: str = "auto",
    columns: Collection[str] | None = None,
) -> TimingFiles:
    """The files that :func:`read_timings` would read, in its order, for who takes them one by one."""
    check_incarnations(incarnations)
    sources = find_sources([paths] if isinstance(paths, (str, os.PathLike)) else paths)
    n_bytes = sum(source.n_bytes for source in sources)
    read_by = chosen_engine(engine, n_bytes)
    for source in sources:
        source.engine, source.columns = read_by, _in_order(columns)
    chosen, left_out = of_run(sources, incarnations)
    clocks = alignments([(source.name, source.sidecar) for source in chosen])
    reasons = [{"path": str(path), "reason": reason} for path, reason in left_out]
    return TimingFiles(list(zip(chosen, clocks, strict=True)), reasons, read_by, n_bytes)


def _in_order(columns: Collection[str] | None) -> list[str]:
    known = [*COLUMNS, *ADDED_COLUMNS]
    if columns is None:
        return known
    if unknown := sorted(set(columns) - set(known)):
        raise ConfigurationError(f"columns: there is no {unknown[0]!r}. There are {', '.join(known)}.")
    return [name for name in known if name in columns or name in ("rank", "incarnation")]


# -- which files -----------------------------------------------------------------------------------


def find_sources(paths: Iterable[AnyPath]) -> list[Source]:
    """The timing files that ``paths`` name or hold, each once with all its parts, by rank and incarnation."""
    beside = _Neighbours()
    files = {file.resolve(): file for path in paths for file in _files_at(Path(path), beside)}
    if not files:
        raise NoTimingFilesError(f"paths: none given. Name a folder that holds {PATTERN}, or such files.")
    by_name: dict[TimingFile, Source] = {}
    for source in (source for path in files.values() for source in _sources_in(path)):
        other = by_name.setdefault(source.name, source)
        if other is not source:
            raise ConfigurationError(
                f"paths: {str(other.path)!r} and {str(source.path)!r} are both of rank {source.name.rank}, "
                f"incarnation {source.name.incarnation}{_as_part(source.name)}: their rows could not be told "
                "apart. Read them one at a time."
            )
    return _in_parts([by_name[name] for name in sorted(by_name)])


def _as_part(name: TimingFile) -> str:
    return "" if name.part == 1 else f", part {name.part}"


def _in_parts(sources: Sequence[Source]) -> list[Source]:
    """One source for all parts of a file, which come one after the other."""
    whole: list[Source] = []
    for source in sources:
        if not whole or whole[-1].name != source.name.first:
            whole.append(source)
            source.name = source.name.first
        elif whole[-1].path.parent.resolve() == source.path.parent.resolve():
            whole[-1].paths = [*whole[-1].paths, *source.paths]
        else:
            raise ConfigurationError(
                f"paths: {str(whole[-1].path)!r} and {str(source.path)!r} are parts of rank "
                f"{source.name.rank}, incarnation {source.name.incarnation}, in different folders. Put them "
                "into one folder, or read them one at a time."
            )
    return whole


class _Neighbours(dict[Path, "dict[TimingFile, list[Path]]"]):
    """For each folder that is asked for, its timing files with all their parts."""

    def __missing__(self, folder: Path) -> dict[TimingFile, list[Path]]:
        found: dict[TimingFile, list[Path]] = {}
        for file in folder.iterdir():
            if name := TimingFile.parse(file.name):
                found.setdefault(name.first, []).append(file)
        self[folder] = found
        return found


def _files_at(path: Path, beside: _Neighbours) -> list[Path]:
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
    name = TimingFile.parse(path.name)
    return beside[path.parent].get(name.first, [path]) if name else [path]


def _sources_in(path: Path) -> list[Source]:
    if path.suffix != PARQUET:
        return [Source([path], _stated_name(path))]
    try:
        return [ParquetSource([path], part.name, part=part) for part in parts_of(path)]
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


# -- what to warn of -------------------------------------------------------------------------------


def troubles(attrs: dict[Any, Any]) -> str:
    """One line for each file that is not whole, was not read or had its clock stepped; "" if all is well."""
    files = attrs["files"]
    lines = [f"{file['path']}: the unterminated last line was cut" for file in files if file.get("cut")]
    lines += [
        f"{file['path']}: {_damaged(file['bad_lines'])} skipped, such as {file['bad_examples'][0]!r}"
        for file in files
        if file.get("bad_lines")
    ]
    lines += [f"{file['path']}: {trouble}" for file in files for trouble in parts_trouble(file)]
    lines += [f"{file['path']}: {lacking}" for file in files if (lacking := _lacking(file))]
    lines += [f"{file['path']}: {flaw}" for file in files for flaw in problems_of(file)]
    lines += [f"{file['path']}: left out, {file['reason']}" for file in attrs["left_out"]]
    return _listed(lines, separator="\n")


def _lacking(file: dict[str, Any]) -> str:
    """That a file has other rows than its logger wrote, where nothing else about it says so; else "".

    While a logger goes on, and after it was killed, a sidecar is behind its file.
    """
    sidecar = file.get("sidecar") or {}
    counters = sidecar.get("counters")
    written = counters.get("written") if isinstance(counters, dict) else None
    rows = file.get("rows")
    if not isinstance(written, int) or rows is None:
        return ""
    if file.get("cut") or file.get("bad_lines") or missing_parts(file):
        return ""
    if rows == written or (rows > written and not sidecar.get("closed")):
        return ""
    return f"its logger wrote {written} rows, and {rows} are there"


def _damaged(n_lines: int) -> str:
    return "1 damaged line was" if n_lines == 1 else f"{n_lines} damaged lines were"

"""Read timing files into one table: select the files, read them, and warn of what is wrong with them.

Nothing here writes, except that rows of killed processes are added to their files first. Files may be read
while they grow.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import pandas as pd

from timing_logger.errors import ConfigurationError, NotATimingFileError, NoTimingFilesError
from timing_logger.process.shared_files import entries_in, matching, names_in
from timing_logger.reading.alignment import Alignment, alignments
from timing_logger.reading.batches import batches_of, read_batch
from timing_logger.reading.content import SharedFacts
from timing_logger.reading.file_problems import missing_parts, parts_trouble, problems_of, schema_trouble
from timing_logger.reading.named_ranks import capital, lacking, lacking_in_words
from timing_logger.reading.parquet import SUFFIX as PARQUET
from timing_logger.reading.parquet import NotConverted, is_parquet_name, parts_of
from timing_logger.reading.recovery import recovered, timing_files_at
from timing_logger.reading.runs_of_job import Incarnations, check_incarnations, of_run
from timing_logger.reading.sources import ADDED_COLUMNS, Engine, ParquetSource, Source, chosen_engine, joined
from timing_logger.schema.record import COLUMNS
from timing_logger.schema.timing_files import TimingFile, sidecar_path

PATTERN = "timing-rank*.csv"
"""The pattern of names of timing files; ``timing_files.TimingFile`` defines them exactly."""

AnyPath: TypeAlias = "str | os.PathLike[str]"

_MAX_NAMED = 5


def read_timings(
    paths: AnyPath | Sequence[AnyPath],
    *,
    incarnations: Incarnations = "latest",
    world: str = "",
    engine: Literal["auto", "pandas", "pyarrow"] = "auto",
    columns: Collection[str] | None = None,
) -> pd.DataFrame:
    """Read the timings of all ranks into one table.

    Files without a sidecar can be read too, and files with only the first ten columns: text that they
    lack is "", ``clock`` is then "host" and ``status`` "ok". Times without a zone count as UTC.

    Parquet files that ``convert`` wrote can be read too: their rows are by rank, incarnation and start,
    and their descriptions are those of the timing files that they were made from.

    Args:
        paths: a folder that holds ``timing-rank*.csv`` (or, without these, ``timing-rank*.parquet``), one
            such file, one Parquet file of several ranks, or several of any of these. A file that was
            written in parts (``timing-rank0.part2.csv``) is one: with any part, all beside it are read.
        incarnations: the runs to read. A restart into the same folder, or a second process with the same
            rank, writes a file of its own (``timing-rank0.run2.csv``). "latest" reads the newest file
            of each rank, without those that an earlier job left behind; "all" reads everything,
            told apart by the column ``incarnation``. A number reads the run of that number: 1 for files
            without one in their names, 2 for ``.run2``, and so on. That includes the files of ranks that took
            part in the run but not in all runs before, and so have a lower number. Where sidecars state a
            ``run_id``, files of different runs are never taken for one, even if they ran at the same time:
            runs are then numbered in the order in which they began, and ``incarnation`` is that number.
        world: the world of the run, if ranks were spawned (``MPI_Comm_spawn``): each world has ranks from 0.
            "" reads the one that was started first.
        engine: what reads the files. "pyarrow" uses all cores and takes a fraction of the memory: text comes
            as categoricals, all else as below. "auto" takes it for files of more than
            ``sources.LARGE_BYTES`` together, if it is installed (``pip install 'timing_logger[large]'``). A
            Parquet file counts with the size of the timing files that it was made from.
        columns: the columns to read, of those below, which saves memory; ``rank`` and ``incarnation`` are
            always included. Default: all.

    Returns:
        One row for each record, by rank and incarnation, then as in the file. A call that was written while
        it was open (``inflight``) and ended later has only the row of its end. Columns are those of
        ``record.COLUMNS`` (units there), then ``rank`` and ``incarnation`` (int64), ``start_s``,
        ``end_s`` and ``clock_uncertainty_s``. ``timestamp``
        is ``datetime64[us, UTC]``; integers are ``Int64`` with NA where blank; ``elapsed_ms``,
        ``start_counter`` and ``end_counter`` are ``float64`` with NaN where blank; text is ""
        where blank, and as it was recorded except for lone surrogates, which stay escaped.

        ``start_s`` and ``end_s`` are ``start_counter`` and ``end_counter`` on one axis for all ranks, in s
        (``float64``, NaN where blank). The axis is the ``perf_counter`` of the reference rank: the one that
        ``synchronise_clocks`` was given, else the first rank whose sidecar names its clock.
        ``clock_uncertainty_s`` (``float64``) is how far off they may be from the reference's clock, if clocks
        drift apart by no more than ``sidecar.DRIFT_BOUND`` between measurements. It is the larger value of
        start and end: 0 on the reference's host (same host name and boot id); where offsets were measured,
        their half width, and what drift adds with the time to the nearest measurement; between two
        measurements that contradict that bound, the whole step between them. It is NaN for ranks that are
        **not aligned**: on another host without measurements, where instants are mapped by the wall clocks of
        both sidecars, ms off or worse; or without a sidecar that tells which clock it was, where instants
        stay as recorded. See docs/clocks.md.

        ``attrs["files"]`` has a dict for each file read: ``path``, ``rank``, ``incarnation``,
        ``parts`` (for each part a dict with ``path``, ``bytes`` and ``rows``), ``bytes``, ``rows``
        (with those that later rows replaced), ``cut`` (the unterminated last line, which is no row; "" if
        none), ``bad_lines`` (how many damaged lines were skipped), ``bad_examples`` (a few of them),
        ``inexact`` (how many integers of each column lie beyond ``record.LARGEST``: analyses count them as
        blank), ``sidecar`` (a dict, in which values of a wrong type are left out, and their names listed
        under ``unusable``; or None), ``span_unix_ns`` (start and end of the time in which the process wrote,
        by sidecar and rows; None if neither tells) and ``clock``: a dict with ``alignment`` ("same host",
        "measured" or "unaligned"), ``reference_rank``, ``measurements`` (how many), ``offset_s`` (the latest;
        None if the instants stay as recorded), ``uncertainty_s`` (the largest while the clock was measured or
        the file had rows, None if unknown) and ``contradictions`` (a dict for each pair of neighbouring
        measurements that are farther apart than drift explains: ``after_s`` and ``before_s``, when they were
        made by this clock, ``moved_s``, how far apart they are, and ``explained_s``, how much drift and both
        uncertainties explain). ``attrs["left_out"]`` has a dict with
        ``path`` and ``reason`` for each file that was not read. ``attrs["about"]`` says which run and world
        the rows are of; it is "" if there are no others. ``attrs["engine"]`` is "pandas" or "pyarrow". Copies
        of the table share these lists, so change no entry of theirs.

    Warns:
        UserWarning: once, if ranks that the sidecars state have no file, an empty or a shortened one.
        UserWarning: once, if sidecars are of a schema version that this one does not know.
        UserWarning: once, if lines were cut or skipped, or files left out; if the number of rows of a file is
            not that in its sidecar; if a part of a file is missing; if something in a sidecar cannot be used;
            or if measurements of a clock contradict each other. And once, if the files are large and pyarrow
            is not installed.

    Raises:
        NoTimingFilesError: a path does not exist, or a folder holds no timing file.
        NotATimingFileError: a file has another header or another kind of name, or is Parquet that
            ``convert`` did not write.
        ConfigurationError: for Parquet, pyarrow is not installed.
        ConfigurationError: two files are of the same rank and incarnation, so that their rows
            could not be told apart; there is no such run or world; ``incarnations`` or ``engine`` has another
            value; ``columns`` has an unknown name; or pyarrow is asked for and not installed.
        OSError: a file cannot be opened.
    """
    found = timing_files(paths, incarnations=incarnations, world=world, engine=engine, columns=columns)
    # One batch after the other, so that only the wanted columns of each are held.
    read = [read_batch(batch) for batch in batches_of(found.aligned)]
    files = [file for batch in read for file in batch.files]
    table = joined([batch.columns for batch in read], _in_order(columns))
    table.attrs.update(
        files=SharedFacts(files), left_out=found.left_out, about=found.about, engine=found.engine
    )
    if found_wrong := troubles(table.attrs):
        warnings.warn(found_wrong, UserWarning, stacklevel=2)
    return table


class TimingFiles(NamedTuple):
    """Files that have been chosen, but, as far as possible, not yet read.

    Attributes:
        aligned: each file, and how its instants are mapped to the common axis.
        left_out: a dict with ``path`` and ``reason`` for each file that was not chosen.
        engine: what will read the files.
        n_bytes: the total size of the timing files as text, in bytes; a Parquet file counts with the size of
            the timing files that it was made from.
        about: which run and world the chosen files are of; "" if there are no others.
    """

    aligned: list[tuple[Source, Alignment]]
    left_out: list[dict[str, str]]
    engine: Engine
    n_bytes: int
    about: str = ""


def timing_files(
    paths: AnyPath | Sequence[AnyPath],
    *,
    incarnations: Incarnations = "latest",
    world: str = "",
    engine: str = "auto",
    columns: Collection[str] | None = None,
    large_bytes: int | None = None,
) -> TimingFiles:
    """Find the files that :func:`read_timings` would read, in its order, to be read one by one.

    The arguments and errors are those of :func:`read_timings`. ``large_bytes`` is the size above which the
    engine "auto" is pyarrow, as for ``sources.chosen_engine``.
    """
    check_incarnations(incarnations)
    sources = find_sources([paths] if isinstance(paths, (str, os.PathLike)) else paths)
    n_bytes = sum(source.n_bytes for source in sources)
    read_by = chosen_engine(engine, n_bytes, large_bytes)
    for source in sources:
        source.engine, source.columns = read_by, _in_order(columns)
    chosen, left_out, about = of_run(sources, incarnations, world)
    _warn_of_what_lacks(chosen)
    warn_of_schemas(chosen, stacklevel=4)
    clocks = alignments([(source.name, source.sidecar) for source in chosen])
    reasons = SharedFacts([{"path": str(path), "reason": reason} for path, reason in left_out])
    return TimingFiles(list(zip(chosen, clocks, strict=True)), reasons, read_by, n_bytes, about)


def _warn_of_what_lacks(sources: Iterable[Source]) -> None:
    lacks = lacking([{**source.stated(), "bytes": _n_bytes(source)} for source in sources])
    if said := lacking_in_words(lacks):
        warnings.warn(f"{capital(said)}. Every answer about this run lacks those rows.", stacklevel=4)


def warn_of_schemas(sources: Iterable[Source], stacklevel: int) -> None:
    """Warn once if sidecars are of versions that are not known here, before anything is made of them."""
    found = [(source.path, trouble) for source in sources if (trouble := schema_trouble(source.stated()))]
    if found:
        path, trouble = found[0]
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        warnings.warn(f"{path}{more}: {trouble}.", stacklevel=stacklevel)


def _n_bytes(source: Source) -> int | None:
    """Return the size of a timing file; None if it is no regular file, which reading refuses."""
    return source.n_bytes if all(path.is_file() for path in source.paths) else None


def _in_order(columns: Collection[str] | None) -> list[str]:
    known = [*COLUMNS, *ADDED_COLUMNS]
    if columns is None:
        return known
    if unknown := sorted(set(columns) - set(known)):
        raise ConfigurationError(f"columns: there is no {unknown[0]!r}. There are {', '.join(known)}.")
    return [name for name in known if name in columns or name in ("rank", "incarnation")]


# -- which files -----------------------------------------------------------------------------------


def find_sources(paths: Iterable[AnyPath]) -> list[Source]:
    """Find the timing files that ``paths`` name or hold, each once with all its parts.

    Returns:
        The files, by rank and incarnation.

    Raises:
        NoTimingFilesError: a path does not exist, or a folder holds no timing file.
        NotATimingFileError: a file has another kind of name, or is Parquet that ``convert`` did not write.
        ConfigurationError: two files are of the same rank and incarnation; or parts of one file are in
            different folders; or for Parquet, pyarrow is not installed.
    """
    beside = _Neighbours()
    paths = list(paths)
    final_sidecars = _recover(paths)
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
    sources = _in_parts([by_name[name] for name in sorted(by_name)])
    for source in sources:
        source.final_sidecar = final_sidecars.get(sidecar_path(source.path))
    return sources


def _recover(paths: Iterable[AnyPath]) -> dict[Path, dict[str, Any]]:
    """Write what killed processes had recorded into their files, and say so, once for each thing to say.

    Returns:
        The sidecars that are complete, by their paths.
    """
    files_by_text: dict[str, list[Path]] = {}
    final: dict[Path, dict[str, Any]] = {}
    for recovery in recovered([file for path in map(Path, paths) for file in timing_files_at(path)]):
        if recovery.sidecar is not None:
            final[sidecar_path(recovery.file)] = recovery.sidecar
        if str(recovery):
            files_by_text.setdefault(str(recovery), []).append(recovery.file)
    for text, files in files_by_text.items():
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        warnings.warn(f"{files[0]}{more}: {text}.", stacklevel=4)
    return final


def _as_part(name: TimingFile) -> str:
    return "" if name.part == 1 else f", part {name.part}"


def _in_parts(sources: Sequence[Source]) -> list[Source]:
    """Make one source of all parts of a file, which come one after the other."""
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
    """The timing files of each folder with all their parts, found when a folder is first looked up."""

    def __missing__(self, folder: Path) -> dict[TimingFile, list[Path]]:
        found: dict[TimingFile, list[Path]] = {}
        for found_name in names_in(folder):
            if name := TimingFile.parse(found_name):
                found.setdefault(name.first, []).append(folder / found_name)
        self[folder] = found
        return found


def _files_at(path: Path, beside: _Neighbours) -> list[Path]:
    if path.is_dir():
        names = names_in(path)
        files = [path / name for name in names if TimingFile.parse(name)]
        files = files or [path / name for name in names if is_parquet_name(name)]
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
        name = TimingFile.parse(path.name)
        if name is None:
            raise NotATimingFileError(
                f"paths: the name of {str(path)!r} states no rank. Looked for {PATTERN}, such as "
                f"{TimingFile(0).name!r} or {TimingFile(0, 2).name!r}; rename the file if it is one."
            )
        return [Source([path], name)]
    try:
        return [ParquetSource([path], part.name, part=part) for part in parts_of(path)]
    except NotConverted as error:
        raise NotATimingFileError(
            f"paths: {str(path)!r} cannot be read: {error}. Name one that 'timing-logger convert' wrote."
        ) from None


def _what_is_in(folder: Path) -> str:
    """State for a message which folders below hold timing files, or else what the folder holds."""
    names = sorted(entry.name + "/" * entry.is_dir() for entry in entries_in(folder))
    better = sorted(
        {str(file.parent) for file in matching(folder, f"*/{PATTERN}") if TimingFile.parse(file.name)}
    )
    if better:
        return f"There are timing files in {_listed(map(repr, better))}."
    return f"{str(folder)!r} holds {_listed(names) if names else 'nothing'}."


def _listed(words: Iterable[str], separator: str = ", ") -> str:
    words = list(words)
    more = [f"and {len(words) - _MAX_NAMED} more"] if len(words) > _MAX_NAMED else []
    return separator.join(words[:_MAX_NAMED] + more)


# -- what to warn of -------------------------------------------------------------------------------


def troubles(attrs: dict[Any, Any]) -> str:
    """Return a line for each problem with a file: it is damaged, incomplete or left out, or its clock moved.

    At most a few lines are returned, and the number of the others; "" if there is no problem.

    Args:
        attrs: the attributes of a table, with ``files`` and ``left_out``, see ``read_timings``.
    """
    files = attrs["files"]
    lines = [f"{file['path']}: the unterminated last line was cut" for file in files if file.get("cut")]
    lines += [
        f"{file['path']}: {_damaged(file['bad_lines'])} skipped, such as {file['bad_examples'][0]!r}"
        for file in files
        if file.get("bad_lines")
    ]
    lines += [f"{file['path']}: {trouble}" for file in files for trouble in parts_trouble(file)]
    lines += [f"{file['path']}: {lacking}" for file in files if (lacking := _lacking(file))]
    lines += [f"{file['path']}: {problem}" for file in files for problem in problems_of(file)]
    lines += [f"{file['path']}: left out, {file['reason']}" for file in attrs["left_out"]]
    lines[:0] = filter(None, [attrs.get("about", "")])
    return _listed(lines, separator="\n")


def _lacking(file: dict[str, Any]) -> str:
    """State that a file has another number of rows than its logger wrote; "" if not, or if that is explained.

    While a logger runs, after it was killed, and where its ring was found later, the file is ahead of it.
    """
    sidecar = file.get("sidecar") or {}
    written, rows = sidecar.get("counters", {}).get("written"), file.get("rows")
    if written is None or rows is None:
        return ""
    if file.get("cut") or file.get("bad_lines") or missing_parts(file):
        return ""
    is_behind = not sidecar.get("closed") or sidecar.get("killed")
    if rows == written or (rows > written and is_behind):
        return ""
    return f"its logger wrote {written} rows, and {rows} are there"


def _damaged(n_lines: int) -> str:
    return "1 damaged line was" if n_lines == 1 else f"{n_lines} damaged lines were"

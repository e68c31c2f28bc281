"""Convert timing files to other formats, one file at a time, since a run may be larger than memory."""

from __future__ import annotations

import json
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pandas as pd

from timing_logger.errors import ConfigurationError, LogPathError
from timing_logger.process.shared_files import created, write
from timing_logger.reading.atomic_files import drafts_of, made_folder
from timing_logger.reading.parquet import SUFFIX as PARQUET
from timing_logger.reading.parquet import Facts, parquet_name, write_parquet
from timing_logger.reading.sources import Source, chosen_engine
from timing_logger.reading.timings import AnyPath, find_sources, troubles, warn_of_schemas
from timing_logger.schema.cells import amount_cell
from timing_logger.schema.record import COLUMNS, FIELDS, Field, escape_text
from timing_logger.schema.timing_files import TimingFile

Format: TypeAlias = Literal["parquet", "csv", "jsonl"]
Progress: TypeAlias = Callable[[int, int], None]

_COLUMNS = (*COLUMNS, "rank", "incarnation")
_ROWS_AT_A_TIME = 2**16
_DECIMALS = {"milliseconds": 6, "seconds": 9}  # as in the timing files


class Converted(NamedTuple):
    """The result of ``convert``.

    Attributes:
        files: paths of the files that were written, without those of ``.meta.json``.
        rows: number of rows in all of them.
        bytes: size of all of them in bytes.
    """

    files: list[Path]
    rows: int
    bytes: int


def convert(
    paths: AnyPath | Sequence[AnyPath],
    to: Format,
    output: AnyPath,
    *,
    progress: Progress | None = None,
) -> Converted:
    """Write timing files in another format: all incarnations, by rank, incarnation and start.

    ``parquet`` has the columns of the schema, ``rank`` and ``incarnation``, with the types of
    ``read_timings``, which also reads it. If ``output`` ends in ``.parquet`` it is one file, with row groups
    of one timing file each; else a folder with a ``timing-rank*.parquet`` for each. Sidecars, and what was
    wrong with a file, are in the metadata.

    ``csv`` is one file of the same columns: a record is a line, in which text is escaped as in timing files.
    ``jsonl`` is one file with an object for each record, null where a number or an instant is blank.
    Sidecars, and what was wrong with a file, are in ``<output>.meta.json``.

    Args:
        paths: as for ``read_timings``.
        to: "parquet", "csv" or "jsonl".
        output: the file to write, or for Parquet the folder.
        progress: called after each timing file with the number of files done, and of all files.

    Warns:
        UserWarning: once, if lines of the input were cut or skipped.
        UserWarning: once, if sidecars are of a schema version that this one does not know.

    Raises:
        ConfigurationError: ``to`` is none of these; or for Parquet, pyarrow is not installed.
        LogPathError: an output exists already, or cannot be made. Nothing is ever overwritten, and if
            anything fails, no output is left behind.
        NoTimingFilesError, NotATimingFileError, OSError: as ``read_timings``.
    """
    if to not in get_args(Format):
        raise ConfigurationError(f"to={to!r}: say one of {', '.join(map(repr, get_args(Format)))}.")
    sources = find_sources([paths] if isinstance(paths, (str, os.PathLike)) else paths)
    targets = _targets(to, Path(output), [source.name for source in sources])
    _refuse_existing(targets)
    engine = chosen_engine("auto", sum(source.n_bytes for source in sources))
    for source in sources:
        source.engine = engine
    warn_of_schemas(sources, stacklevel=3)
    facts = _write(to, targets, _inputs(deque(sources), progress))
    if found := troubles({"files": facts, "left_out": []}):
        warnings.warn(found, UserWarning, stacklevel=2)
    sizes = [target.stat().st_size for target in targets]
    return Converted(targets, sum(file["rows"] - file["replaced"] for file in facts), sum(sizes))


# -- what is read ----------------------------------------------------------------------------------


_Input: TypeAlias = "tuple[pd.DataFrame, Facts]"
"""The rows of one timing file, sorted by start, and its description."""


def _inputs(sources: deque[Source], progress: Progress | None) -> Iterator[_Input]:
    """Yield the rows of one timing file after the other.

    A source keeps what it has read, so its reference is dropped first.
    """
    n_files = len(sources)
    while sources:
        yield _input(sources.popleft())
        if progress is not None:
            progress(n_files - len(sources), n_files)


def _input(source: Source) -> _Input:
    parsed, name = source.parsed, source.name
    rows = parsed.frame.sort_values("start_counter", kind="stable", ignore_index=True)
    facts = {**source.description(parsed.content), "replaced": parsed.content.replaced}
    return rows.assign(rank=name.rank, incarnation=name.incarnation), facts


# -- where it is written ---------------------------------------------------------------------------


def _targets(to: Format, output: Path, names: Sequence[TimingFile]) -> list[Path]:
    if to == "parquet" and output.suffix != PARQUET:
        return [output / parquet_name(name) for name in names]
    return [output]


def _refuse_existing(targets: Sequence[Path]) -> None:
    for path in (name for target in targets for name in (target, _description_path(target))):
        if os.path.lexists(path):
            raise LogPathError(f"output: {str(path)!r} exists already. Name another one, or move it away.")


def _description_path(target: Path) -> Path:
    return target.with_name(target.name + ".meta.json")


def _write(to: Format, targets: Sequence[Path], inputs: Iterator[_Input]) -> list[Facts]:
    with made_folder(targets[0].parent):
        if to == "csv":
            return _write_text(targets[0], ",".join(_COLUMNS) + "\n", _csv_lines, inputs)
        if to == "jsonl":
            return _write_text(targets[0], "", _json_lines, inputs)
        with drafts_of(targets) as drafts:
            if len(drafts) == 1:
                return write_parquet(drafts[0], inputs)
            return [write_parquet(draft, [one])[0] for one, draft in zip(inputs, drafts, strict=True)]


def _write_text(
    target: Path, head: str, lines: Callable[[pd.DataFrame], str], inputs: Iterator[_Input]
) -> list[Facts]:
    described = []
    with drafts_of([target, _description_path(target)]) as (draft, description):
        with created(draft) as file:
            file.write(head.encode())
            for rows, facts in inputs:
                for start in range(0, len(rows), _ROWS_AT_A_TIME):
                    file.write(lines(rows.iloc[start : start + _ROWS_AT_A_TIME]).encode())
                described.append(facts)
        write(description, f"{json.dumps({'files': described}, indent=1)}\n".encode())
    return described


# -- rows -> lines ---------------------------------------------------------------------------------


def _csv_lines(rows: pd.DataFrame) -> str:
    cells = rows.assign(**{field.name: _cells(field, rows[field.name]) for field in FIELDS})
    text: str = cells.to_csv(index=False, header=False, lineterminator="\n")
    return text


def _cells(field: Field, column: pd.Series[Any]) -> Any:
    """Return the values of a column as the cells of a timing file, without quotes."""
    if field.kind == "text":
        codes, distinct = pd.factorize(column)
        return np.array([escape_text(text) for text in distinct], dtype=object)[codes]
    if field.kind == "timestamp":
        return _iso(column, blank="")
    if field.kind == "integer":
        return column
    if field.kind == "amount":
        codes, distinct = pd.factorize(column)
        return np.array([*map(amount_cell, distinct.tolist()), ""], dtype=object)[codes]  # -1 for a blank
    texts = np.char.mod(f"%.{_DECIMALS[field.kind]}f", column.to_numpy())
    return np.where(column.isna(), "", texts)


def _iso(column: pd.Series[Any], *, blank: str | None) -> Any:
    texts = np.datetime_as_string(column.dt.tz_localize(None).to_numpy(), unit="us")
    return np.where(column.isna(), blank, texts.astype(object))


def _json_lines(rows: pd.DataFrame) -> str:
    plain = rows.assign(timestamp=_iso(rows["timestamp"], blank=None)).astype(object)
    records = zip(*(plain[name].where(plain[name].notna(), None).tolist() for name in _COLUMNS), strict=True)
    return "".join([json.dumps(dict(zip(_COLUMNS, record, strict=True))) + "\n" for record in records])

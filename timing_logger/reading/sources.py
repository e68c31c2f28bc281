"""Read one timing file in all its parts, with its sidecar, and map its instants to the common axis."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from timing_logger.errors import ConfigurationError, NotATimingFileError
from timing_logger.process.shared_files import content_of
from timing_logger.process.sidecar_files import check_is_file, read_sidecar
from timing_logger.reading.content import KEY_COLUMNS, Content, has_inflight, without_replaced
from timing_logger.reading.csv_lines import MAX_EXAMPLES, Parsed, UnknownHeader, parse_timings
from timing_logger.reading.living import as_it_stands
from timing_logger.reading.machine import give_back_freed_memory
from timing_logger.reading.parquet import Part
from timing_logger.reading.plain_files import has_pyarrow, parse_plain_file
from timing_logger.schema.record import COLUMNS, FIELDS
from timing_logger.schema.sidecar import usable_sidecar
from timing_logger.schema.timing_files import TimingFile

Engine = Literal["pandas", "pyarrow"]

ADDED_COLUMNS = ("rank", "incarnation", "start_s", "end_s", "clock_uncertainty_s")
"""The columns that a table has beside those of its files."""

LARGE_BYTES = 2**26
"""The total size of files above which they are read by pyarrow, where it is installed."""

LARGE_FOR_COMMANDS_BYTES = 2**23
"""The same for commands, of which nobody sees whether texts are categoricals: from it on that is faster."""

_EXTRA = "pip install 'timing_logger[large]'"
_TEXTS = frozenset(column.name for column in FIELDS if column.kind == "text")


class Lifetime(NamedTuple):
    """The time in which a process wrote, in Unix nanoseconds, as far as its files tell."""

    start: int
    end: int


@dataclass(eq=False)
class Source:
    """A timing file, which is read when its content is first needed.

    Attributes:
        paths: the parts of the file, in order; callers treat them as one file.
        name: rank and incarnation of the file.
        engine: what reads the file. With "pyarrow", files that are not plain are read line by line.
        columns: the columns that the table shall have.
        second_run: why the rows look as if they were of two processes, once they were described; else "".
        final_sidecar: the sidecar, if it was read before, of a process that has closed its logger.
    """

    paths: Sequence[Path]
    name: TimingFile
    engine: Engine = "pandas"
    columns: Sequence[str] = (*COLUMNS, *ADDED_COLUMNS)
    second_run: str = field(default="", kw_only=True)
    final_sidecar: dict[str, Any] | None = field(default=None, kw_only=True)

    @property
    def path(self) -> Path:
        """The path of the first part."""
        return self.paths[0]

    @property
    def n_bytes(self) -> int:
        """The size of the timing file as text, in bytes."""
        return sum(path.stat().st_size for path in self.paths)

    @cached_property
    def parsed(self) -> Parsed:
        """The content of the file, kept until :meth:`forget_rows`.

        Raises:
            NotATimingFileError: the file has another header.
        """
        columns = [name for name in COLUMNS if name in {*self.read_columns, "status"}]
        parts = [self._parsed_part(path, columns) for path in self.paths]
        if any(has_inflight(part.frame) for part in parts):  # rare: read again with the columns to match rows
            columns = [name for name in COLUMNS if name in {*self.read_columns, *KEY_COLUMNS}]
            parts = [self._parsed_part(path, columns) for path in self.paths]
        return self._as_needed(_as_one(self.paths, parts, columns))

    def _parsed_part(self, path: Path, columns: list[str]) -> Parsed:
        check_is_file("paths", path)
        if self.engine == "pyarrow" and (plain := parse_plain_file(path, columns)):
            return plain
        try:
            parsed = parse_timings(content_of(path))
        except UnknownHeader as error:
            raise NotATimingFileError(f"paths: {error.of(path)}") from None
        frame = parsed.frame[columns]
        return parsed._replace(frame=compact(frame) if self.engine == "pyarrow" else frame)

    @property
    def read_columns(self) -> list[str]:
        """The needed columns of the file, with the instants that other columns are made of."""
        needed = {*self.columns, "timestamp", "start_counter", "end_counter"}
        return [name for name in COLUMNS if name in needed]

    def _as_needed(self, parsed: Parsed) -> Parsed:
        """Remove the rows of open calls that ended later, and columns that are not needed.

        Every way to read a file ends here.
        """
        frame = without_replaced(parsed.frame)
        replaced = parsed.content.replaced + len(parsed.frame) - len(frame)
        frame = frame[self.read_columns]
        frame = compact(frame) if self.engine == "pyarrow" else frame  # of Parquet
        return Parsed(frame, parsed.content._replace(n_rows=len(frame), replaced=replaced))

    @cached_property
    def sidecar(self) -> dict[str, Any] | None:
        """The content of the sidecar, with where the process stands if it runs here.

        None if there is no sidecar that can be used.
        """
        return self.final_sidecar or as_it_stands(read_sidecar(self.path), self.path)

    @cached_property
    def lifetime(self) -> Lifetime | None:
        """The time in which the process wrote, by sidecar and rows; None if neither tells."""
        instants = self.parsed.frame["timestamp"].dropna().dt.as_unit("us").to_numpy("M8[us]")
        ends = [instants.min(), instants.max()] if len(instants) else []
        return self.lifetime_with([int(end.astype(np.int64)) for end in ends])

    def lifetime_with(self, instants_us: Sequence[int]) -> Lifetime | None:
        """Return the time in which the process wrote, by the sidecar and the first and last instant of rows.

        The sidecar of a killed process ends before its rows.

        Args:
            instants_us: in Unix microseconds; none if no row has one. A damaged file may state any year.
        """
        sidecar, rows = self.sidecar or {}, [1000 * instant for instant in instants_us]
        stated = [sidecar.get(key) for key in ("started_unix_ns", "updated_unix_ns")]
        known = rows + [instant for instant in stated if isinstance(instant, int)]
        start = stated[0] if isinstance(stated[0], int) else min(known, default=None)
        return None if start is None else Lifetime(start, max(known))

    def forget_rows(self) -> None:
        """Drop the rows that were read; they are read again when they are needed. ``lifetime`` is kept."""
        self.__dict__.pop("parsed", None)

    def stated(self) -> dict[str, Any]:
        """Return the part of the description that needs no rows."""
        return {
            "path": str(self.path),
            "rank": self.name.rank,
            "incarnation": self.name.incarnation,
            "parts": self._stated_parts(),
            "sidecar": self.sidecar,
        }

    def _stated_parts(self) -> Sequence[dict[str, Any]]:
        return [{"path": str(path)} for path in self.paths]

    def description(self, content: Content) -> dict[str, Any]:
        """Return the part of the description that tells what was read."""
        return {
            **self.stated(),
            "parts": content.parts,
            "bytes": content.n_bytes,
            "rows": content.n_rows + content.replaced,
            "cut": content.cut,
            "bad_lines": content.bad_lines,
            "bad_examples": list(content.bad_examples),
        }


@dataclass(eq=False)
class ParquetSource(Source):
    """A timing file whose rows are in a Parquet file.

    Attributes:
        part: the part of the Parquet file that holds the timing file.
    """

    part: Part = field(kw_only=True)

    @property
    def n_bytes(self) -> int:
        """The size of the timing file that the rows came from."""
        return int(self.part.facts["bytes"])

    @cached_property
    def parsed(self) -> Parsed:
        """The rows of the part, read when they are first asked for."""
        frame, content = self._as_needed(self.part.read())
        return Parsed(frame, content._replace(parts=self._stated_parts()))

    @cached_property
    def sidecar(self) -> dict[str, Any] | None:
        """The usable values of the timing file's sidecar; None if it had none."""
        return usable_sidecar(self.part.facts["sidecar"])

    def _stated_parts(self) -> Sequence[dict[str, Any]]:
        facts = self.part.facts
        whole = {"path": facts["path"], "bytes": facts["bytes"], "rows": facts["rows"]}
        return list(facts.get("parts") or [whole])


def _as_one(paths: Sequence[Path], parts: list[Parsed], columns: Sequence[str]) -> Parsed:
    """Join the content of all parts, one after the other. This empties ``parts``."""
    facts = [
        {"path": str(path), "bytes": part.content.n_bytes, "rows": part.content.n_rows}
        for path, part in zip(paths, parts, strict=True)
    ]
    if len(parts) == 1:
        frame, content = parts.pop()
        return Parsed(frame, content._replace(parts=facts))
    contents = [part.content for part in parts]
    n_bytes, bad_lines = sum(one.n_bytes for one in contents), sum(one.bad_lines for one in contents)
    cut = "\n".join(one.cut for one in contents if one.cut)
    bad_examples = [line for one in contents for line in one.bad_examples][:MAX_EXAMPLES]
    before = np.cumsum([0, *(one.n_rows for one in contents)]).tolist()
    headers = [first + row for first, one in zip(before, contents, strict=False) for row in one.headers]
    tables = [{str(name): part.frame[name] for name in columns} for part in parts]
    parts.clear()
    rows = joined(tables, columns)
    content = Content(len(rows), n_bytes, cut, bad_lines, bad_examples, parts=facts, headers=headers)
    return Parsed(rows, content)


def compact(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert columns of text to categoricals, as the frame of a plain file has them."""
    small: pd.DataFrame = frame.astype({name: "category" for name in frame.columns if name in _TEXTS})
    return small


# -- all files ---------------------------------------------------------------------------------------


def chosen_engine(stated: str, n_bytes: int, large_bytes: int | None = None) -> Engine:
    """Choose what reads the files.

    Args:
        stated: "auto", "pandas" or "pyarrow".
        n_bytes: total size of the files in bytes.
        large_bytes: the size above which pyarrow reads them; None for :data:`LARGE_BYTES`.

    Warns:
        UserWarning: pyarrow is not installed, and the files are large.

    Raises:
        ConfigurationError: ``stated`` is another word, or pyarrow is not installed.
    """
    if stated not in ("auto", "pandas", "pyarrow"):
        raise ConfigurationError(f"engine={stated!r}: say 'auto', 'pandas' or 'pyarrow'.")
    is_small = n_bytes <= (LARGE_BYTES if large_bytes is None else large_bytes)
    if stated == "pandas" or (stated == "auto" and is_small):
        return "pandas"
    if has_pyarrow():
        return "pyarrow"
    if stated == "pyarrow":
        raise ConfigurationError(f"engine='pyarrow': pyarrow is not installed. Get it with {_EXTRA}.")
    if n_bytes > LARGE_BYTES:
        warnings.warn(
            f"{n_bytes / 1e6:.0f} MB are read by pandas, which takes long and much memory: {_EXTRA} "
            "brings pyarrow, which reads large files.",
            UserWarning,
            stacklevel=4,
        )
    return "pandas"


def joined(files: Sequence[dict[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Join the rows of files column by column, one file after the other.

    This empties ``files``, so that only one column at a time is held twice.

    Args:
        files: the columns of each file by name, all of which are in ``columns``.
        columns: the names of the columns, in the order of the table.
    """
    table = {}
    for name in columns:
        table[name] = _joined_column([file.pop(name) for file in files])
        if len(files) > 1:
            give_back_freed_memory()
    rows: pd.DataFrame = pd.DataFrame(table, copy=False)
    return rows


def _joined_column(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0].dtype, pd.CategoricalDtype):
        return pd.api.types.union_categoricals(parts, sort_categories=True)
    return pd.concat(parts, ignore_index=True)

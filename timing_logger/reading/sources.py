"""One timing file in all its parts, with its sidecar: read by the chosen engine, and brought onto the common
axis."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from timing_logger.errors import ConfigurationError, NotATimingFileError
from timing_logger.reading.alignment import Alignment
from timing_logger.reading.csv_lines import MAX_EXAMPLES, Parsed, UnknownHeader, parse_timings
from timing_logger.reading.file_problems import inexact_numbers
from timing_logger.reading.inflight import KEY_COLUMNS, has_inflight, without_replaced
from timing_logger.reading.machine import give_back_freed_memory
from timing_logger.reading.parquet import Part
from timing_logger.record import COLUMNS, FIELDS
from timing_logger.run_info import TimingFile, check_is_file, read_sidecar

Engine = Literal["pandas", "duckdb"]

ADDED_COLUMNS = ("rank", "incarnation", "start_s", "end_s", "clock_uncertainty_s")
"""What a table has beside the columns of its files."""

LARGE_BYTES = 2**26
"""Files that are larger than this together are read by DuckDB, where it is installed."""

_EXTRA = "pip install 'timing_logger[large]'"
_TEXTS = frozenset(column.name for column in FIELDS if column.kind == "text")


class Lifetime(NamedTuple):
    """From when to when a process wrote, in Unix nanoseconds, as far as its files tell."""

    start: int
    end: int


@dataclass(eq=False)
class Source:
    """One timing file, read when it is first asked for its content.

    Attributes:
        paths: its parts, which are one file to everybody above, in their order.
        engine: what reads it. DuckDB leaves to the parser what is not plain.
        columns: those that the table shall have.
    """

    paths: Sequence[Path]
    name: TimingFile
    engine: Engine = "pandas"
    columns: Sequence[str] = (*COLUMNS, *ADDED_COLUMNS)

    @property
    def path(self) -> Path:
        """Of the first part."""
        return self.paths[0]

    @property
    def n_bytes(self) -> int:
        """Of the timing file, as text."""
        return sum(path.stat().st_size for path in self.paths)

    @cached_property
    def parsed(self) -> Parsed:
        columns = [name for name in COLUMNS if name in {*self._read_columns, "status"}]
        parts = [self._parsed_part(path, columns) for path in self.paths]
        if any(has_inflight(part.frame) for part in parts):  # rarely: then with what tells more
            columns = [name for name in COLUMNS if name in {*self._read_columns, *KEY_COLUMNS}]
            parts = [self._parsed_part(path, columns) for path in self.paths]
        return self._as_asked(_as_one(self.paths, parts, columns))

    def _parsed_part(self, path: Path, columns: list[str]) -> Parsed:
        check_is_file("paths", path)
        if self.engine == "duckdb":
            from timing_logger.reading.csv_columns import parse_plain_file

            if plain := parse_plain_file(path, columns):
                return plain
        parsed = _parsed_by_lines(path)
        frame = parsed.frame[columns]
        return parsed._replace(frame=compact(frame) if self.engine == "duckdb" else frame)

    @property
    def _read_columns(self) -> list[str]:
        """Those of the file that are needed: also the instants that others are made of."""
        needed = {*self.columns, "timestamp", "start_counter", "end_counter"}
        return [name for name in COLUMNS if name in needed]

    def _as_asked(self, parsed: Parsed) -> Parsed:
        """Without the rows of open calls that ended later: whatever reads a file comes by here."""
        frame = without_replaced(parsed.frame)
        n_replaced = len(parsed.frame) - len(frame)
        frame = frame[self._read_columns]
        frame = compact(frame) if self.engine == "duckdb" else frame  # of Parquet
        return parsed._replace(frame=frame, replaced=parsed.replaced + n_replaced)

    @cached_property
    def sidecar(self) -> dict[str, Any] | None:
        return read_sidecar(self.path)

    @cached_property
    def lifetime(self) -> Lifetime | None:
        """None if neither sidecar nor rows say when. A killed process leaves its sidecar behind its rows."""
        sidecar, instants = self.sidecar or {}, self.parsed.frame["timestamp"].dropna()
        # Whatever stands in a damaged file: pandas has no nanoseconds for years far from this one.
        rows = [
            1000 * int(end.asm8.astype("M8[us]").astype(int))
            for end in (instants.min(), instants.max())
            if end == end
        ]
        stated = [sidecar.get(key) for key in ("started_unix_ns", "updated_unix_ns")]
        known = rows + [instant for instant in stated if isinstance(instant, int)]
        start = stated[0] if isinstance(stated[0], int) else min(known, default=None)
        return None if start is None else Lifetime(start, max(known))

    def forget_rows(self) -> None:
        """Let go of what was read, of which the span stays known; whoever asks for it reads it again."""
        self.__dict__.pop("parsed", None)

    def take_rows(self, clock: Alignment) -> dict[str, Any]:
        """The columns that were asked for; what was read is let go, so that nobody holds it twice."""
        frame = self.parsed.frame
        del self.parsed
        return {name: self._column(frame, name, clock) for name in self.columns}

    def _column(self, frame: pd.DataFrame, name: str, clock: Alignment) -> Any:
        starts_s, ends_s = frame["start_counter"].to_numpy(), frame["end_counter"].to_numpy()
        if name == "start_s":
            return pd.Series(clock.on_the_axis(starts_s))
        if name == "end_s":
            return pd.Series(clock.on_the_axis(ends_s))
        if name == "clock_uncertainty_s":
            return pd.Series(np.fmax(clock.uncertainty_at(starts_s), clock.uncertainty_at(ends_s)))
        if name in ("rank", "incarnation"):
            return pd.Series(np.full(len(frame), getattr(self.name, name), np.int64))
        return frame[name]

    def stated(self) -> dict[str, Any]:
        """As much of the description as needs no rows."""
        return {
            "path": str(self.path),
            "rank": self.name.rank,
            "incarnation": self.name.incarnation,
            "parts": self._stated_parts(),
            "sidecar": self.sidecar,
        }

    def _stated_parts(self) -> Sequence[dict[str, Any]]:
        return [{"path": str(path)} for path in self.paths]

    def description(self, clock: Alignment) -> dict[str, Any]:
        parsed = self.parsed
        first_s, last_s = parsed.frame["start_counter"].min(), parsed.frame["end_counter"].max()
        return {
            **self.stated(),
            "parts": parsed.parts,
            "bytes": parsed.n_bytes,
            "rows": len(parsed.frame) + parsed.replaced,
            "cut": parsed.cut,
            "bad_lines": parsed.bad_lines,
            "bad_examples": parsed.bad_examples,
            "inexact": inexact_numbers(parsed.frame),
            "span_unix_ns": self.lifetime,
            "clock": clock.description(first_s, last_s),
        }


@dataclass(eq=False)
class ParquetSource(Source):
    """What a Parquet file holds of one timing file."""

    part: Part = field(kw_only=True)

    @property
    def n_bytes(self) -> int:
        return int(self.part.facts["bytes"])

    @cached_property
    def parsed(self) -> Parsed:
        return self._as_asked(self.part.read())._replace(parts=self._stated_parts())

    @cached_property
    def sidecar(self) -> dict[str, Any] | None:
        return self.part.sidecar

    def _stated_parts(self) -> Sequence[dict[str, Any]]:
        facts = self.part.facts
        whole = {"path": facts["path"], "bytes": facts["bytes"], "rows": facts["rows"]}
        return list(facts.get("parts") or [whole])


def _parsed_by_lines(path: Path) -> Parsed:
    try:
        return parse_timings(path.read_bytes())
    except UnknownHeader as error:
        raise NotATimingFileError(f"paths: {error.of(path)}") from None


def _as_one(paths: Sequence[Path], parts: list[Parsed], columns: Sequence[str]) -> Parsed:
    """What is in all parts, one after the other. Empties ``parts``."""
    facts = [
        {"path": str(path), "bytes": part.n_bytes, "rows": len(part.frame)}
        for path, part in zip(paths, parts, strict=True)
    ]
    if len(parts) == 1:
        return parts.pop()._replace(parts=facts)
    n_bytes, bad_lines = sum(part.n_bytes for part in parts), sum(part.bad_lines for part in parts)
    cut = "\n".join(part.cut for part in parts if part.cut)
    bad_examples = [line for part in parts for line in part.bad_examples][:MAX_EXAMPLES]
    tables = [{str(name): part.frame[name] for name in columns} for part in parts]
    parts.clear()
    return Parsed(n_bytes, joined(tables, columns), cut, bad_lines, bad_examples, parts=facts)


def compact(frame: pd.DataFrame) -> pd.DataFrame:
    """Text as categoricals, as the frame of a plain file has it."""
    small: pd.DataFrame = frame.astype({name: "category" for name in frame.columns if name in _TEXTS})
    return small


# -- all files ---------------------------------------------------------------------------------------


def chosen_engine(stated: str, n_bytes: int) -> Engine:
    """What reads files of so many bytes together.

    Warns:
        UserWarning: DuckDB is not installed, and the files are large.

    Raises:
        ConfigurationError: ``stated`` is another word, or DuckDB is not installed.
    """
    if stated not in ("auto", "pandas", "duckdb"):
        raise ConfigurationError(f"engine={stated!r}: say 'auto', 'pandas' or 'duckdb'.")
    has_duckdb = importlib.util.find_spec("duckdb") is not None
    if stated == "duckdb" and not has_duckdb:
        raise ConfigurationError(f"engine='duckdb': DuckDB is not installed. Get it with {_EXTRA}.")
    if stated == "auto" and n_bytes > LARGE_BYTES and not has_duckdb:
        warnings.warn(
            f"{n_bytes / 1e6:.0f} MB are read by pandas, which takes long and much memory: {_EXTRA} "
            "brings what reads large files.",
            UserWarning,
            stacklevel=4,
        )
    is_large = stated == "auto" and n_bytes > LARGE_BYTES
    return "duckdb" if has_duckdb and (stated == "duckdb" or is_large) else "pandas"


def joined(files: Sequence[dict[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """The rows of all files, one file after the other. Empties ``files``: only one column is held twice."""
    table = {}
    for name in columns:
        table[name] = _joined_column([file.pop(name) for file in files])
        if len(files) > 1:
            give_back_freed_memory()
    rows: pd.DataFrame = pd.DataFrame(table, copy=False)
    return rows


def _joined_column(parts: list[Any]) -> Any:
    if isinstance(parts[0].dtype, pd.CategoricalDtype):
        return pd.api.types.union_categoricals(parts, sort_categories=True)
    return pd.concat(parts, ignore_index=True)

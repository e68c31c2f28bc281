"""Write and read timings as Parquet: the same rows in a tenth of the space, with all facts on their files.

The rows of one timing file are together, by start, in row groups of their own. The description of the file
for ``read_timings``, with its sidecar, is in the metadata of the Parquet file. Everything has checksums,
so that a damaged file is refused instead of read with wrong values.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from timing_logger.errors import ConfigurationError, NotATimingFileError
from timing_logger.process.shared_files import created, opened
from timing_logger.reading.content import Content
from timing_logger.reading.csv_lines import Parsed
from timing_logger.reading.plain_files import arrow_types, blanks
from timing_logger.schema.record import FIELDS, Field
from timing_logger.schema.timing_files import TimingFile

SUFFIX = ".parquet"
ROWS_PER_GROUP = 2**20

Facts: TypeAlias = "dict[str, Any]"

_KEY = b"timing_logger"
_CHECKSUM = "crc32"
_PROCESS = ("rank", "incarnation")

# Timestamps and sequence numbers differ little from row to row. Durations recur as whole values, even where
# there are too many of them for a dictionary. In the other columns a few values recur often.
_ENCODINGS = {
    **dict.fromkeys(("timestamp", "seq"), "DELTA_BINARY_PACKED"),
    **{field.name: "BYTE_STREAM_SPLIT" for field in FIELDS if field.kind == "seconds"},
    **{field.name: "PLAIN" for field in FIELDS if field.kind == "milliseconds"},
}
_ZSTD_LEVEL = 12  # the next one takes three times as long for a hundredth less
_DICTIONARIES = [name for name in (*(field.name for field in FIELDS), *_PROCESS) if name not in _ENCODINGS]


def parquet_name(name: TimingFile) -> str:
    """Return the name of a Parquet file, as ``timing-rank0.run2.parquet`` for ``timing-rank0.run2.csv``."""
    return Path(name.name).with_suffix(SUFFIX).name


def is_parquet_name(name: str) -> bool:
    """Tell whether a file of this name in a folder holds the rows of one timing file."""
    path = Path(name)
    return path.suffix == SUFFIX and TimingFile.parse(path.with_suffix(".csv").name) is not None


def pyarrow_parquet() -> tuple[ModuleType, ModuleType]:
    """Import and return the modules ``pyarrow`` and ``pyarrow.parquet``.

    Raises:
        ConfigurationError: they are not installed.
    """
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise ConfigurationError("Parquet needs pyarrow: pip install 'timing_logger[parquet]'.") from error


# -- writing -------------------------------------------------------------------------------------


def write_parquet(path: Path, files: Iterable[tuple[pd.DataFrame, Facts]]) -> list[Facts]:
    """Write a Parquet file, one timing file after the other, and return what its metadata state of each.

    Args:
        path: of the Parquet file.
        files: of each timing file the rows, with the columns of the schema, ``rank`` and ``incarnation``, and
            its description.

    Raises:
        ConfigurationError: pyarrow is not installed.
    """
    pyarrow, parquet = pyarrow_parquet()
    schema, stated = _schema(pyarrow), []
    with created(path) as stored, parquet.ParquetWriter(
        stored, schema, compression="zstd", compression_level=_ZSTD_LEVEL,
        use_dictionary=_DICTIONARIES, column_encoding=_ENCODINGS, write_page_checksum=True,
    ) as writer:  # fmt: skip
        for frame, facts in files:
            starts = range(0, len(frame), ROWS_PER_GROUP)
            for start in starts:
                rows = frame.iloc[start : start + ROWS_PER_GROUP]
                table = pyarrow.Table.from_pandas(rows, schema, preserve_index=False)
                writer.write_table(table, row_group_size=ROWS_PER_GROUP)
            stated.append({**facts, "row_groups": len(starts), "columns": schema.names})
        writer.add_key_value_metadata({_KEY: json.dumps({"files": stated, _CHECKSUM: _crc32(stated)})})
    return stated


def _schema(pyarrow: ModuleType) -> Any:
    types = {**arrow_types(), "timestamp": pyarrow.timestamp("us", tz="UTC")}
    columns = [(field.name, types[field.kind]) for field in FIELDS]
    return pyarrow.schema(columns + [(name, pyarrow.int64()) for name in _PROCESS])


# Exceptions that pyarrow raises for bytes that are no Parquet, or that come up on the way to a table.
# pyarrow's own exceptions derive from these.
_DAMAGE = (OSError, ValueError, TypeError, LookupError, NotImplementedError, MemoryError, OverflowError)


# -- reading -------------------------------------------------------------------------------------


class NotConverted(ValueError):
    """The file is no Parquet file, or not one that ``convert`` wrote."""


@dataclass(frozen=True)
class Part:
    """The rows of one timing file in a Parquet file.

    Attributes:
        path: path of the Parquet file.
        facts: the description of the timing file; see :class:`Content` for its entries.
        row_groups: the row groups of the timing file.
    """

    path: Path
    facts: Facts
    row_groups: Sequence[int]

    @property
    def name(self) -> TimingFile:
        """The rank and incarnation of the timing file."""
        return TimingFile(self.facts["rank"], self.facts["incarnation"])

    def read(self) -> Parsed:
        """Read all rows from the file; nothing is kept between calls.

        Raises:
            NotATimingFileError: the file was damaged since it was written.
        """
        facts = self.facts
        try:
            frame = self._frame()
        except _DAMAGE as error:
            _raise_if_of_the_system(error)
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise NotATimingFileError(
                f"paths: {str(self.path)!r} was damaged since it was written ({reason}). Convert the "
                "timing files of the run again."
            ) from None
        damage = facts["cut"], facts["bad_lines"], facts["bad_examples"]
        return Parsed(frame, Content(len(frame), facts["bytes"], *damage, facts.get("replaced", 0)))

    def _frame(self) -> pd.DataFrame:
        pyarrow, parquet = pyarrow_parquet()
        facts = self.facts
        with (
            opened(self.path) as stored,
            parquet.ParquetFile(stored, page_checksum_verification=True) as file,
        ):
            table = file.read_row_groups(list(self.row_groups), [field.name for field in FIELDS])
        n_rows = facts["rows"] - facts.get("replaced", 0)
        if len(table) != n_rows:
            raise ValueError(f"it holds {len(table)} rows instead of {n_rows}")
        expected, stated = _schema(pyarrow), facts.get("columns", table.column_names)
        if [field.name for field in FIELDS if field.name in stated] != table.column_names:
            raise ValueError("it lacks columns")
        if any(field.type != expected.field(field.name).type for field in table.schema):
            raise ValueError("its columns are of other types")
        frame: pd.DataFrame = pd.DataFrame({field.name: _column(field, table) for field in FIELDS})
        return frame


def parts_of(path: Path) -> list[Part]:
    """Return the timing files that the Parquet file ``path`` was made from.

    Raises:
        NotConverted: ``path`` is another kind of file, or was damaged.
        OSError: the file cannot be opened.
        ConfigurationError: pyarrow is not installed.
    """
    _, parquet = pyarrow_parquet()
    try:
        with opened(path) as stored:
            metadata = parquet.read_metadata(stored).metadata or {}
    except _DAMAGE as error:
        _raise_if_of_the_system(error)
        raise NotConverted("it is not a Parquet file, or was damaged") from None
    if _KEY not in metadata:
        raise NotConverted("its metadata name no timing files")
    parts, first = [], 0
    for facts in _stated_facts(metadata[_KEY]):
        last = first + facts["row_groups"]
        parts.append(Part(path, facts, range(first, last)))
        first = last
    return parts


def _raise_if_of_the_system(error: Exception) -> None:
    """Raise an error of the system again: a file that is missing or cannot be opened is not damaged.

    pyarrow's own errors have no error number.
    """
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def _stated_facts(content: bytes) -> list[Facts]:
    """Return the description of each timing file; earlier versions wrote no checksum."""
    try:
        stated = json.loads(content)
        sound = set(stated) == {"files"} or stated[_CHECKSUM] == _crc32(stated["files"])
    except (ValueError, TypeError, KeyError):
        sound = False
    if not sound:
        raise NotConverted("its metadata were damaged since they were written")
    facts: list[Facts] = stated["files"]
    return facts


def _crc32(facts: list[Facts]) -> int:
    return zlib.crc32(json.dumps(facts).encode())


def _column(field: Field, table: Any) -> Any:
    """Convert a column as ``csv_lines`` would make it of text; blank if the file is older than the column."""
    if field.name not in table.column_names:
        if field.kind == "text":
            return pd.Series([""]).array.take(np.zeros(len(table), np.intp))
        return blanks(field, len(table))
    values = table[field.name]
    if field.kind == "text":
        array = values.unify_dictionaries().combine_chunks()
        texts = pd.Series(["", *array.dictionary.to_pylist()])
        return texts.array.take(array.indices.to_numpy() + 1)
    if field.kind == "integer":
        return pd.arrays.IntegerArray(values.fill_null(0).to_numpy(), values.is_null().to_numpy())
    if field.kind == "timestamp":
        return values.to_pandas().dt.as_unit("us")
    return values.to_numpy()

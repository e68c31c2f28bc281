"""Read a large timing file into compact columns, on all cores, if the file is plain.

A plain file is as the logger leaves it at its end: with the header of any version, whole lines, and in every
cell what the logger writes there. Any other file is only reported as not plain: ``csv_lines`` examines its
lines one by one.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from timing_logger.reading.chunks import Chunk, NotPlain, joined_chunks
from timing_logger.reading.csv_lines import Parsed
from timing_logger.reading.machine import usable_cores
from timing_logger.record import FIELDS, Field


def parse_plain_file(path: Path, columns: Collection[str]) -> Parsed | None:
    """Parse a plain timing file; return None if it is not plain, or changes meanwhile.

    It is parsed by pyarrow where that is installed, else by DuckDB.

    Args:
        path: a regular file.
        columns: the columns that the frame shall have, of ``record.COLUMNS``. Text comes as categoricals.
    """
    fields = [field for field in FIELDS if field.name in columns]
    n_bytes = path.stat().st_size
    try:
        chunks = list(_chunks(path, fields))
    except NotPlain:
        return None
    if path.stat().st_size != n_bytes:
        return None
    return Parsed(n_bytes, joined_chunks(chunks, fields), "", 0, [])


def _chunks(path: Path, fields: Sequence[Field]) -> Iterator[Chunk]:
    if has_pyarrow():
        from timing_logger.reading.arrow_scan import scan_by_arrow

        return scan_by_arrow(path, fields, usable_cores())
    from timing_logger.reading.duckdb_scan import scan_by_duckdb

    return scan_by_duckdb(path, fields)


def has_pyarrow() -> bool:
    """Tell whether pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None

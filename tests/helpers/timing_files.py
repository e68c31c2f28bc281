"""Makes timing files and their sidecars as a logger would write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from timing_logger.process.this_process import of_this_process
from timing_logger.recording.sidecar_writer import replace_sidecar
from timing_logger.schema.record import (
    COLUMNS,
    EARLIER_COLUMNS,
    HEADER,
    NS_PER_MS,
    NS_PER_S,
    Record,
    format_records,
)
from timing_logger.schema.sidecar import Counters, RunInfo
from timing_logger.schema.timing_files import TimingFile, sidecar_path

EPOCH_S = 1_770_388_245
"""Unix time of ``perf_counter() == 0`` in these files: 2026-02-06T14:30:45 UTC."""


def record(
    operation: str = "ALLREDUCE", start_s: float = 1.0, elapsed_ms: float | None = 1.0, **fields: Any
) -> Record:
    """Return one record; with ``elapsed_ms=None`` its duration was invalid.

    ``fields`` are other fields of the record.
    """
    start_ns = round(start_s * NS_PER_S)
    plain = Record(
        iteration=0, epoch=0, layer_name="layer1", operation=operation, phase="dense",
        message_size_bytes=4096, start_ns=start_ns,
        end_ns=None if elapsed_ms is None else start_ns + round(elapsed_ms * NS_PER_MS),
        clock="host", group="world", group_size=4, seq=None, peer=None, thread="MainThread",
        status="ok" if elapsed_ms is not None else "error:InvalidValue",
    )  # fmt: skip
    return plain._replace(**fields)


def content(records: Sequence[Record]) -> bytes:
    """Return the content of a timing file with these records."""
    return (HEADER + format_records(records, EPOCH_S * NS_PER_S)).encode()


def earlier_content(records: Sequence[Record], columns: Sequence[str] = EARLIER_COLUMNS[0]) -> bytes:
    """Return the content of a timing file as an earlier version wrote it, without later columns."""
    later = COLUMNS[len(columns) :]
    blank = {name: Record._field_defaults[name] for name in later}
    lines = content([plain._replace(**blank) for plain in records]).decode().splitlines()
    return "".join([line.rsplit(",", len(later))[0] + "\n" for line in lines]).encode()


def write_timing_file(folder: Path, rank: int, records: Sequence[Record], *, incarnation: int = 1) -> Path:
    """Write the timing file of ``rank`` into ``folder``, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / TimingFile(rank, incarnation).name
    path.write_bytes(content(records))
    return path


def write_sidecar(
    timing_file: Path,
    *,
    start_s: float = 0.0,
    end_s: float = 60.0,
    counters: Counters | None = None,
    closed: bool = True,
    world_size: int | None = None,
    run_id: str = "",
    world: str = "",
) -> Path:
    """Write the sidecar of a process that ran from ``start_s`` to ``end_s`` on the perf_counter axis.

    Args:
        timing_file: the timing file to which the sidecar belongs.
        start_s: when the process began, in s.
        end_s: when the sidecar was last updated, in s.
        counters: the logger's counters. Default: all rows of the file were accepted and written.
        closed: whether the logger was closed.
        world_size: the number of ranks that the logger was told.
        run_id, world: the run and the world that the sidecar states.

    Returns:
        The path of the sidecar.
    """
    name = TimingFile.parse(timing_file.name)
    assert name is not None
    n_rows = timing_file.read_bytes().count(b"\n") - 1
    info = RunInfo(
        file=timing_file.name, rank=name.rank, incarnation=name.incarnation, world_size=world_size, labels={},
        options={}, started_unix_ns=round((EPOCH_S + start_s) * NS_PER_S),
        updated_unix_ns=round((EPOCH_S + end_s) * NS_PER_S),
        closed=closed, counters=counters or Counters(n_rows, n_rows, 0, 0),
        **{**of_this_process(), "run_id": run_id, "world": world},
    )  # fmt: skip
    path = sidecar_path(timing_file)
    replace_sidecar(path, info.to_json())
    return path


def write_table(folder: Path, table: pd.DataFrame, *, closed: bool = True) -> Path:
    """Write the files and sidecars of all ranks of ``table``, which ``read_timings`` might return.

    Returns:
        The folder.
    """
    for rank, rows in table.groupby("rank"):
        path = write_timing_file(folder, int(str(rank)), [_record_of(row) for row in _plain(rows)])
        write_sidecar(path, world_size=table["rank"].nunique(), closed=closed)
    return folder


def _plain(rows: pd.DataFrame) -> list[dict[str, Any]]:
    plain = rows.astype(object).where(rows.notna(), None)
    return [{str(name): value for name, value in row.items()} for row in plain.to_dict("records")]


def _record_of(row: dict[str, Any]) -> Record:
    kept = {name: row[name] for name in Record._fields if name in row}
    start_ns = round(row["start_counter"] * NS_PER_S)
    end_ns = start_ns + round(row["elapsed_ms"] * NS_PER_MS)
    return Record(**{**kept, "start_ns": start_ns, "end_ns": end_ns, "metadata": None})

"""Write the timing files of a simulated run as far as they were written at each moment of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.schema.record import HEADER, NS_PER_S, Record, format_records
from timing_logger.schema.timing_files import TimingFile, sidecar_path

BEGAN_UNIX_S = 1_770_388_245
FLUSHED_EVERY_S = 1.0

Floats = npt.NDArray[np.float64]


class GrowingFile(NamedTuple):
    """A timing file that grows.

    Attributes:
        path: the file.
        lines: its lines without the header, in the order in which they are written.
        ends_s: when each of the rows ended, in s since the run began.
    """

    path: Path
    lines: list[str]
    ends_s: Floats

    def grow(self, since_s: float, until_s: float) -> None:
        """Append what was flushed in a time: once a second."""
        first, last = np.searchsorted(self.ends_s, [_flushed_s(since_s), _flushed_s(until_s)]).tolist()
        with self.path.open("a") as file:
            file.writelines(self.lines[first:last])


def _flushed_s(at_s: float) -> float:
    return at_s // FLUSHED_EVERY_S * FLUSHED_EVERY_S


def begin_file(
    folder: Path, rows: pd.DataFrame, sidecar: Mapping[str, Any], run_began_s: float
) -> GrowingFile:
    """Write the header of a rank's file, and its sidecar.

    Args:
        folder: where.
        rows: all rows of the rank.
        sidecar: what the sidecar says.
        run_began_s: what the clock of the rank showed when the run began.
    """
    rank = int(rows["rank"].iloc[0])
    path = folder / TimingFile(rank).name
    folder.mkdir(exist_ok=True)
    path.write_text(HEADER)
    anchor = {"perf_counter_ns": round(run_began_s * NS_PER_S), "unix_ns": BEGAN_UNIX_S * NS_PER_S}
    stated = {
        **sidecar,
        "started_unix_ns": anchor["unix_ns"],
        "clock_anchors": [{**anchor, "uncertainty_ns": 170}],
    }
    sidecar_path(path).write_text(json.dumps(stated))
    ordered = rows.sort_values("end_counter", kind="stable")
    unix_ns = round((BEGAN_UNIX_S - run_began_s) * NS_PER_S)
    lines = format_records(_records(ordered), unix_ns).splitlines(keepends=True)
    return GrowingFile(path, lines, ordered["end_counter"].to_numpy() - run_began_s)


def _records(rows: pd.DataFrame) -> list[Record]:
    names = [name for name in Record._fields if name in rows]
    columns = {name: rows[name].astype(object).where(rows[name].notna(), None).tolist() for name in names}
    starts_ns = np.rint(rows["start_counter"].to_numpy() * NS_PER_S).astype(np.int64)
    ends_ns = starts_ns + np.rint(rows["elapsed_ms"].to_numpy() * 1e6).astype(np.int64)
    columns |= {"start_ns": starts_ns.tolist(), "end_ns": ends_ns.tolist()}
    plain = {**Record._field_defaults, "metadata": None}
    return [
        Record(**{**plain, **dict(zip(columns, row, strict=True))})
        for row in zip(*columns.values(), strict=True)
    ]

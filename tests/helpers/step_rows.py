"""Rows in steps of processes, as the times by step are computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.operations import is_collective, is_communication
from timing_logger.analysis.step_times.work_rows import WorkRows


class StepRow(NamedTuple):
    """A row: its operation, from when to when it lasted, in seconds, and where it was."""

    operation: str
    start_s: float
    end_s: float
    entry: int = 0
    process: int = 0
    lane: int = 0
    work: float = float("nan")
    size_bytes: float = float("nan")
    on_device: bool = False
    group: int = 0
    number: float = float("nan")


def work_rows(rows: Sequence[StepRow]) -> WorkRows:
    """Return the columns of these rows: communication blocks, and no two processes have one lane."""
    names = sorted({row.operation for row in rows})
    column = {name: np.array([getattr(row, name) for row in rows]) for name in StepRow._fields}
    return WorkRows(
        operations=names,
        operation=np.array([names.index(row.operation) for row in rows], np.int64),
        elapsed_ms=1e3 * (column["end_s"] - column["start_s"]),
        blocks=np.array([is_communication(row.operation) for row in rows], np.bool_),
        lane=10 * column["process"] + column["lane"],
        number=np.where([is_collective(row.operation) for row in rows], column["number"], np.nan),
        **{name: column[name] for name in _AS_THEY_ARE},
    )


_AS_THEY_ARE = ("process", "entry", "work", "size_bytes", "start_s", "end_s", "on_device", "group")

"""Select the last rows of each process: open calls, failures, and its progress in each group.

A few hundred of the millions of rows of a file are left, so that the end of a run of any size can be examined
for all ranks at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrame

from timing_logger.analysis.collectives.matching import earlier_in_step
from timing_logger.analysis.rows.analysis import COLUMNS_OF, EARLIER_IN_STEP
from timing_logger.analysis.rows.arrays import (
    Array,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    numbers,
    processes_of,
)
from timing_logger.analysis.rows.group_members import communicators
from timing_logger.analysis.rows.grouping import rows_of_each
from timing_logger.analysis.rows.operations import is_collective, is_communication
from timing_logger.analysis.rows.tables import opened, taken
from timing_logger.schema.record import INCONSISTENT_COUNTERS, INFLIGHT, INVALID_VALUE

ROWS_OF_GROUP = 64
"""The number of last rows that are kept of each process and group, of collectives and of messages each."""

INTERRUPTED = frozenset({"error:KeyboardInterrupt", "error:SystemExit"})
"""The statuses of calls that did not fail, but were broken off."""

_ROWS_OF_PROCESS = 16
_TEXTS = ("thread", "operation", "layer_name", "group", "status", "clock")
_NUMBERS = (
    "iteration", "epoch", "group_size", "seq", "peer", "message_size_bytes", "start_counter", "end_counter",
)  # fmt: skip
_NOT_FAILED = frozenset({INVALID_VALUE, INCONSISTENT_COUNTERS})


def last_rows(timings: IntoDataFrame) -> pd.DataFrame:
    """Select the rows that tell how each process ended.

    Args:
        timings: all rows of whole processes.

    Returns:
        A table of pandas, whatever ``timings`` is, by process and then as they came: ``rank``,
        ``incarnation`` and ``EARLIER_IN_STEP`` (int64), texts, and numbers as float64, NaN where unknown.
    """
    frame = opened(timings, COLUMNS_OF["hang"])
    kept = _kept(frame)
    small = taken(frame, ["rank", "incarnation", *_TEXTS, *_NUMBERS], kept)
    columns: dict[str, Array | pd.Series[str]] = {
        name: small[name].to_numpy() for name in ("rank", "incarnation")
    }
    for name in _TEXTS:
        codes, texts = coded_text(small, name)
        columns[name] = pd.Series(np.array([*texts, ""], dtype=object)[codes], dtype=object)
    columns |= {name: numbers(small, name) for name in _NUMBERS}
    columns[EARLIER_IN_STEP] = _earlier(frame)[kept]
    found: pd.DataFrame = pd.DataFrame(columns)
    return found


def only_last_rows(timings: pd.DataFrame) -> pd.DataFrame:
    """Select the same rows as :func:`last_rows`, with all their columns.

    A reader of a growing file keeps only these of the rows before.
    """
    kept: pd.DataFrame = timings.iloc[_kept(opened(timings, COLUMNS_OF["hang"]))].reset_index(drop=True)
    return kept


def has_failed(status: str) -> bool:
    """Tell whether the status is that of an operation that raised."""
    return status.startswith("error:") and status not in _NOT_FAILED


def _kept(frame: Frame) -> Ints:
    process = processes_of(frame)
    operation, status = coded_text(frame, "operation"), coded_text(frame, "status")
    communicates = each_text(operation, is_communication)
    everything = np.arange(len(process))
    inflight = np.flatnonzero(each_text(status, INFLIGHT.__eq__))
    failed = np.flatnonzero(each_text(status, has_failed) & communicates)
    shared = np.flatnonzero(communicates)
    of_group = dense_codes(
        process[shared], communicators(frame, shared), each_text(operation, is_collective)[shared]
    )
    pieces = [
        inflight,
        *_last_of_each(process[failed], failed, ROWS_OF_GROUP),
        *_last_of_each(of_group, shared, ROWS_OF_GROUP),
        *_last_of_each(process, everything, _ROWS_OF_PROCESS),
    ]
    return np.unique(np.concatenate(pieces))


def _last_of_each(group: Ints, rows: Ints, most: int) -> Sequence[Ints]:
    return [rows[chosen][-most:] for chosen in rows_of_each(group)]


def _earlier(frame: Frame) -> Ints:
    """Return ``earlier_in_step`` of collectives without a number; 0 in other rows."""
    found = np.zeros(len(frame), np.int64)
    are_collective = each_text(coded_text(frame, "operation"), is_collective)
    row = np.flatnonzero(np.isnan(numbers(frame, "seq")) & are_collective)
    if len(row):
        found[row] = earlier_in_step(frame, row)
    return found

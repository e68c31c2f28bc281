"""Makes tables of timings as ``read_timings`` returns them, without files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from timing_files import EPOCH_S, content, record

from timing_logger.reading.csv_lines import parse_timings
from timing_logger.schema.record import COLUMNS, NS_PER_MS, NS_PER_S, NUMBERS, TEXTS, Record


def table(*ranks: Sequence[Record], incarnations: Sequence[int] | None = None) -> pd.DataFrame:
    """Return the table of a run with one list of records for each rank.

    All are parsed as one file, since a file takes as long as a thousand rows.
    """
    every = [record for records in ranks for record in records]
    frame = parse_timings(content(every)).frame
    assert len(frame) == len(every), "each record is a row"
    lengths = [len(records) for records in ranks]
    return frame.assign(
        rank=np.repeat(np.arange(len(ranks)), lengths),
        incarnation=np.repeat(np.array(incarnations or [1] * len(ranks)), lengths),
    )


def quick_table(*ranks: Sequence[Record], incarnations: Sequence[int] | None = None) -> pd.DataFrame:
    """Return what ``table`` does, of records that every column can hold, in an eighth of the time.

    Nothing is written and read again; ``test_rank_tables.py`` holds that the two are the same.
    """
    every = [record for records in ranks for record in records]
    values = {name: [getattr(record, name) for record in every] for name in Record._fields}
    values["operation"] = [name.upper() for name in values["operation"]]
    starts = np.array(values["start_ns"], np.int64)
    durations_ns = [
        math.nan if end is None else end - start
        for start, end in zip(values["start_ns"], values["end_ns"], strict=True)
    ]
    ends_ns = [math.nan if end is None else end for end in values["end_ns"]]
    instants = ((starts + EPOCH_S * NS_PER_S) // 1000).view("M8[us]")
    columns = {
        "timestamp": pd.DatetimeIndex(instants).tz_localize("UTC").array,
        "elapsed_ms": np.array([ns / NS_PER_MS for ns in durations_ns], np.float64),
        "start_counter": np.array([ns / NS_PER_S for ns in values["start_ns"]], np.float64),
        "end_counter": np.array([ns / NS_PER_S for ns in ends_ns], np.float64),
        "work": np.array([math.nan if work is None else work for work in values["work"]], np.float64),
        **{name: pd.array(values[name], dtype="str") for name in TEXTS},
        **{name: _integers(values[name]) for name in NUMBERS if name != "work"},
    }
    lengths = [len(records) for records in ranks]
    whose = {
        "rank": np.repeat(np.arange(len(ranks)), lengths),
        "incarnation": np.repeat(np.array(incarnations or [1] * len(ranks)), lengths),
    }
    return pd.DataFrame({**{name: columns[name] for name in COLUMNS}, **whose})


def _integers(values: Sequence[int | None]) -> Any:
    unknown = np.array([value is None for value in values], np.bool_)
    return pd.arrays.IntegerArray(np.array([value or 0 for value in values], np.int64), unknown)


def aligned(timings: pd.DataFrame, uncertainty_s: float = 0.0) -> pd.DataFrame:
    """Return the table with its counters on a common axis of all ranks, known to within ``uncertainty_s``."""
    return timings.assign(
        start_s=timings["start_counter"],
        end_s=timings["end_counter"],
        clock_uncertainty_s=uncertainty_s,
    )


def collective(arrivals_ms: Sequence[float], leave_ms: float, **fields: Any) -> list[list[Record]]:
    """Return each rank's row of one collective, from its arrival until all ranks leave together."""
    ranks = {"group_size": len(arrivals_ms), "seq": 0, **fields}
    return [[record(start_s=1 + ms / 1e3, elapsed_ms=leave_ms - ms, **ranks)] for ms in arrivals_ms]


def as_polars(timings: pd.DataFrame) -> Any:
    """Return the table as a polars frame, with null where pandas has NaN or NA."""
    import polars

    columns = {
        name: timings[name].astype(object).where(timings[name].notna(), None).tolist() for name in timings
    }
    return polars.DataFrame(columns, infer_schema_length=None)


def only(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the only row of ``frame``."""
    assert len(frame) == 1
    return {str(name): value for name, value in frame.iloc[0].items()}

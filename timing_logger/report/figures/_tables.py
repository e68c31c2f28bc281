"""The tables that figures are drawn from, in pandas, whatever library the timings are of."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.stragglers.case import Judgement
from timing_logger.analysis.stragglers.verdict import map_judgement, reduce_judgement
from timing_logger.report.html._time_kinds import TimeKinds


def in_pandas(table: Any) -> pd.DataFrame:
    """Return the result of an analysis as a table of pandas, with the types that it has there."""
    frame = nw.from_native(table, eager_only=True)
    found: pd.DataFrame = (
        frame.to_native()
        if frame.implementation.is_pandas()
        else pd.DataFrame({name: _column(frame[name]) for name in frame.columns})
    )
    return found


def _column(column: nw.Series[Any]) -> Any:
    """Return the values of a column; those of pandas' nullable types where some are not known."""
    values = column.to_list()
    if column.dtype == nw.Boolean:
        return pd.array(values, dtype="boolean")
    if column.dtype.is_integer():
        return pd.array(values, dtype="Int64") if column.null_count() else np.array(values, np.int64)
    if column.dtype.is_float():
        return np.array(values, np.float64)
    return values


def judged(timings: IntoDataFrameT) -> Judgement:
    """Judge a run, with all that the page draws of it."""
    return reduce_judgement([map_judgement(timings, with_account=True)], with_blocked=True)


def main_lines(account: pd.DataFrame | None) -> pd.DataFrame:
    """Return the rows of an account of the lines that tell what their process did."""
    assert account is not None  # it was asked for
    found: pd.DataFrame = account[account["is_main"].astype(bool)]
    return found


def kinds_of(judgement: Judgement) -> TimeKinds:
    """Return the colours of bars of time: those of the account of the run, in all figures."""
    return TimeKinds.of(main_lines(judgement.case.times.account))

"""Rows of calls that were still open when they were written, and which of them a later row replaces.

A call that is open for long is written with the status ``inflight``, without an end. If it ends after all,
its row follows in the same file, and then the first one is no operation of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from timing_logger.record import DEVICE_CLOCK, INFLIGHT

if TYPE_CHECKING:
    import pandas as pd

KEY_COLUMNS = ("operation", "group", "start_counter", "clock", "seq", "peer", "iteration", "status")
"""What tells whether two rows are of one call."""

_ON_THE_HOST = ("operation", "group", "start_counter")
_ON_A_DEVICE = ("operation", "group", "seq", "peer", "iteration")
_MAY_BE_BLANK = ("seq", "peer")  # of a receive from any source they are known when it has ended


def has_inflight(frame: pd.DataFrame) -> bool:
    """Whether some row was written while its call was open."""
    return bool(len(frame)) and bool(_is_inflight(frame).any())


def without_replaced(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of one file, in their order, but for those of open calls that a later row tells the end of.

    Args:
        frame: with at least :data:`KEY_COLUMNS`, in the order of the file.
    """
    if not has_inflight(frame):
        return frame
    inflight = _is_inflight(frame)
    replaced = [row for row in np.flatnonzero(inflight).tolist() if _is_replaced(frame, row)]
    if not replaced:
        return frame
    kept: pd.DataFrame = frame.drop(index=frame.index[replaced]).reset_index(drop=True)
    return kept


def _is_inflight(frame: pd.DataFrame) -> Any:
    return frame["status"].isin([INFLIGHT]).to_numpy(np.bool_)


def _is_replaced(frame: pd.DataFrame, row: int) -> bool:
    """Whether a later row is of the same call; on a device its start is placed anew when it has ended."""
    later, this = frame.iloc[row + 1 :], frame.iloc[row]
    on_device = this["clock"] == DEVICE_CLOCK
    alike = np.ones(len(later), np.bool_)
    for name in _ON_A_DEVICE if on_device else _ON_THE_HOST:
        alike &= _equals(later[name], this[name], name)
    return bool(alike.any())


def _equals(column: pd.Series[Any], value: Any, name: str) -> Any:
    import pandas as pd

    if pd.isna(value):
        return np.ones(len(column), np.bool_) if name in _MAY_BE_BLANK else column.isna().to_numpy()
    return (column == value).fillna(False).to_numpy(np.bool_)

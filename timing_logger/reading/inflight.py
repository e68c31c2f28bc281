"""Remove the rows of open calls that a later row replaces.

A call that is open for long is written with the status ``inflight``, without an end. If it ends after all,
its row follows in the same file, and then the first row is no operation of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from timing_logger.schema.record import DEVICE_CLOCK, INFLIGHT

KEY_COLUMNS = ("operation", "group", "start_counter", "clock", "seq", "peer", "iteration", "status")
"""The columns that tell whether two rows are of one call."""

_ON_THE_HOST = ("operation", "group", "start_counter")
_ON_A_DEVICE = ("operation", "group", "seq", "peer", "iteration")


def has_inflight(frame: pd.DataFrame) -> bool:
    """Tell whether some row was written while its call was open."""
    return bool(len(frame)) and bool(_is_inflight(frame).any())


def without_replaced(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one file without those of open calls whose end another row tells.

    Args:
        frame: rows with at least :data:`KEY_COLUMNS`, in the order of the file.
    """
    if not has_inflight(frame):
        return frame
    inflight = _is_inflight(frame)
    on_device = frame["clock"].isin([DEVICE_CLOCK]).to_numpy(np.bool_)
    # On the host a call may end while its open row is written, so the order of the rows does not matter. On a
    # device its start is determined again when it has ended, which is later: an earlier row with the same
    # values is of another group that had the same name and numbers.
    replaced = _last_end(frame, inflight & ~on_device, ~inflight, _ON_THE_HOST) >= 0
    replaced |= _last_end(frame, inflight & on_device, ~inflight, _ON_A_DEVICE) > np.arange(len(frame))
    if not replaced.any():
        return frame
    kept: pd.DataFrame = frame[~replaced].reset_index(drop=True)
    return kept


def _is_inflight(frame: pd.DataFrame) -> Any:
    return frame["status"].isin([INFLIGHT]).to_numpy(np.bool_)


def _last_end(frame: pd.DataFrame, are_open: Any, others: Any, columns: tuple[str, ...]) -> Any:
    """Return for each row the last of ``others`` that is alike in these columns; -1 if none, or not open."""
    last = np.full(len(frame), -1)
    if not are_open.any():
        return last
    for name in columns:  # few rows are left to be compared one by one
        wanted = frame.loc[are_open, name]
        alike = frame[name].isin(wanted.dropna().unique()).to_numpy(np.bool_)
        others = others & (alike | (wanted.isna().any() and frame[name].isna().to_numpy()))
    if not others.any():
        return last
    compared = frame[list(columns)]
    ends = dict(zip(_keys(compared[others]), np.flatnonzero(others).tolist(), strict=True))
    last[np.flatnonzero(are_open)] = [ends.get(key, -1) for key in _keys(compared[are_open])]
    return last


def _keys(rows: pd.DataFrame) -> list[tuple[Any, ...]]:
    keys = rows.astype(object)
    return list(keys.where(keys.notna(), None).itertuples(index=False, name=None))

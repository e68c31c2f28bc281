"""What was read of a timing file, without its rows: these may be in a table with those of other files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
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


class Content(NamedTuple):
    """What was read of a timing file, without its rows.

    Attributes:
        n_rows: the number of rows.
        n_bytes: size of all that was parsed, in bytes.
        cut: the unterminated last line, which is not among the rows; "" if there is none.
        bad_lines: number of damaged lines, which are not among the rows.
        bad_examples: the first few of these lines, shortened.
        replaced: number of rows of open calls whose end a later row tells; they are not among the rows.
        parts: a dict with ``path``, ``bytes`` and ``rows`` for each file that this was read from.
        headers: the number of rows before each further line that is a header; these count as damaged.
    """

    n_rows: int
    n_bytes: int
    cut: str
    bad_lines: int = 0
    bad_examples: Sequence[str] = ()
    replaced: int = 0
    parts: Sequence[dict[str, Any]] = ()
    headers: Sequence[int] = ()


# -- facts on files that all copies of a table share -----------------------------------------------------


class SharedFacts(list[Any]):
    """A list in ``attrs`` of a table that is not copied with it.

    pandas copies ``attrs`` deeply with each table and each column that is taken of one. With the sidecars of
    thousands of files that takes longer than to read them. So nobody may change what is in such a list.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedFacts:
        return self


# -- which rows of a table are of which file, where the rows of several files follow each other ----------


Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class RowsOfFiles:
    """The rows of files in one table.

    Args:
        n_rows: how many rows each file has; 0 is possible.
    """

    def __init__(self, n_rows: Sequence[int]) -> None:
        self.n_files = len(n_rows)
        self._n_rows = np.array(n_rows, np.int64)
        self._ends = np.cumsum(self._n_rows)

    @cached_property
    def of_row(self) -> Ints:
        """For each row the position of its file."""
        return np.repeat(np.arange(self.n_files), self._n_rows)

    @property
    def slices(self) -> list[slice]:
        """For each file its rows."""
        return [
            slice(end - n, end) for end, n in zip(self._ends.tolist(), self._n_rows.tolist(), strict=True)
        ]

    def reduced(self, reduce: np.ufunc, values: npt.NDArray[Any], blank: Any) -> npt.NDArray[Any]:
        """Reduce the values of each file's rows to one, such as by ``np.fmin``; ``blank`` without rows."""
        found = np.full(self.n_files, blank, values.dtype)
        has_rows = self._n_rows > 0
        if has_rows.any():
            found[has_rows] = reduce.reduceat(values, (self._ends - self._n_rows)[has_rows])
        return found

    def repeated(self, value_of_file: Sequence[int]) -> Ints:
        """Return for each row the value of its file."""
        return np.repeat(np.array(value_of_file, np.int64), self._n_rows)

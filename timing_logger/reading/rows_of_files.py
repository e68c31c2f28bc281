"""Which rows of a table are of which file, where the rows of several files follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

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

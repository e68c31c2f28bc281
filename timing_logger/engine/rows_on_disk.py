"""Keep the rows of processes in the order of collectives on disk, and read ranges of them."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from timing_logger.engine.block_order import InOrder, Segment

Values: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class RowsOnDisk:
    """Rows on disk: a file for each column, and for integers another one that tells where they are missing.

    Attributes:
        folder: the folder of these files.
        dtypes: the type of each column, in the order of columns: nullable integers, categoricals, or NumPy's.
        segments: as in ``InOrder``.
    """

    folder: Path
    dtypes: dict[str, Any]
    segments: list[Segment]

    @classmethod
    def write(cls, ordered: InOrder, folder: Path) -> RowsOnDisk:
        """Write rows to a folder, which is created."""
        folder.mkdir()
        number = BytesIO()
        np.save(number, ordered.number)
        _write(folder / "number.npy", number.getbuffer())
        for name, column in ordered.rows.items():
            for what, values in _arrays(column).items():
                _write(folder / f"{name}.{what}", np.ascontiguousarray(values).data)
        dtypes = {str(name): column.dtype for name, column in ordered.rows.items()}
        return cls(folder, dtypes, ordered.segments)

    @property
    def number(self) -> Values:
        """The number by which rows are sorted within a segment, as in ``InOrder``."""
        mapped: Values = np.load(self.folder / "number.npy", mmap_mode="r")
        return mapped

    def between(self, first: int, end: int) -> pd.DataFrame:
        """Read the rows from position ``first`` to before ``end``."""
        columns = {name: self._column(name, dtype, first, end) for name, dtype in self.dtypes.items()}
        rows: pd.DataFrame = pd.DataFrame(columns, copy=False)
        return rows

    def _column(self, name: str, dtype: Any, first: int, end: int) -> Any:
        def read(what: str, kind: Any) -> Values:
            file, size = self.folder / f"{name}.{what}", np.dtype(kind).itemsize
            return np.fromfile(file, kind, count=end - first, offset=first * size)

        if isinstance(dtype, pd.CategoricalDtype):
            return pd.Categorical.from_codes(read("values", np.int32), dtype=dtype)
        if isinstance(dtype, pd.Int64Dtype):
            return pd.arrays.IntegerArray(read("values", np.int64), read("missing", np.bool_))
        return read("values", dtype)


def _write(path: Path, content: memoryview) -> None:
    """Write a file without NumPy, whose error does not tell that the disk is full."""
    with path.open("wb") as file:
        file.write(content)


def _arrays(column: pd.Series[Any]) -> dict[str, Values]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return {"values": column.cat.codes.to_numpy(np.int32)}
    if isinstance(column.dtype, pd.Int64Dtype):
        return {"values": column.to_numpy(np.int64, na_value=0), "missing": column.isna().to_numpy()}
    return {"values": column.to_numpy()}

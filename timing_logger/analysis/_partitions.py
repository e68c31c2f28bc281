"""Tables that Dask holds in partitions: the workers make a part of each, and the parts make the answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


def is_partitioned(timings: Any) -> bool:
    """Whether it is a DataFrame of Dask, which whoever has one has imported."""
    dask = sys.modules.get("dask.dataframe")
    return dask is not None and isinstance(timings, dask.DataFrame)


def parts_of_partitions(timings: Any, part: Callable[[pd.DataFrame], T]) -> list[T]:
    """``part`` of each partition, in their order, made where the partition is."""
    import dask

    return list(dask.compute(*(dask.delayed(part)(rows) for rows in timings.to_delayed())))


def collected(timings: Any) -> pd.DataFrame:
    """All partitions as one table of pandas, with the attributes of their files."""
    import pandas as pd

    tables = parts_of_partitions(timings, _itself)
    table = pd.concat(tables, ignore_index=True)
    table.attrs = {
        "files": [file for rows in tables for file in rows.attrs.get("files", [])],
        "left_out": tables[0].attrs.get("left_out", []),
        "engine": "dask",
    }
    return table


def _itself(rows: pd.DataFrame) -> pd.DataFrame:
    return rows

"""Tables that Dask holds in partitions: the workers make a part of each, and the parts make the answer."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from timing_logger.errors import ConfigurationError

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


def is_partitioned(timings: Any) -> bool:
    """Whether it is a DataFrame of Dask, which whoever has one has imported."""
    dask = sys.modules.get("dask.dataframe")
    return dask is not None and isinstance(timings, dask.DataFrame)


def parts_of_partitions(timings: Any, part: Callable[[pd.DataFrame], T]) -> list[T]:
    """``part`` of each partition, in their order, made where the partition is.

    Raises:
        ConfigurationError: the rows of a process are in several partitions.
    """
    made = _of_each(timings, partial(_part_and_processes, part))
    seen = Counter(process for _, processes in made for process in processes)
    if torn := [rank for (rank, _), times in seen.items() if times > 1]:
        raise ConfigurationError(
            f"timings: the rows of rank {torn[0]} are in several partitions. Keep those of "
            "read_timings(engine='dask'), one file in each."
        )
    return [of_one for of_one, _ in made]


def _part_and_processes(
    part: Callable[[pd.DataFrame], T], timings: pd.DataFrame
) -> tuple[T, list[tuple[int, int]]]:
    processes = timings[["rank", "incarnation"]].drop_duplicates()
    return part(timings), list(processes.itertuples(index=False, name=None))


def _of_each(timings: Any, function: Callable[[pd.DataFrame], T]) -> list[T]:
    dask = import_module("dask")
    return list(dask.compute(*(dask.delayed(function)(rows) for rows in timings.to_delayed())))


def collected(timings: Any) -> pd.DataFrame:
    """All partitions as one table of pandas, with the attributes of their files."""
    import pandas as pd

    tables = _of_each(timings, _itself)
    table = pd.concat(tables, ignore_index=True)
    table.attrs = {
        "files": [file for rows in tables for file in rows.attrs.get("files", [])],
        "left_out": tables[0].attrs.get("left_out", []),
        "engine": "dask",
    }
    return table


def _itself(rows: pd.DataFrame) -> pd.DataFrame:
    return rows

"""Timing files -> a DataFrame of Dask with one file in each partition."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from timing_logger._alignment import Alignment
from timing_logger._parsing import parse_timings
from timing_logger._sources import ADDED_COLUMNS, Source, joined
from timing_logger.errors import ConfigurationError
from timing_logger.record import HEADER

if TYPE_CHECKING:
    import pandas as pd

_INTEGERS = ("rank", "incarnation")


def imported(name: str) -> Any:
    """The module of Dask of this name.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            f"engine='dask': {error.name} is not installed. Get it with "
            "pip install 'timing_logger[cluster]', on the workers too."
        ) from None


def dask_table(
    files: Sequence[tuple[Source, Alignment]], columns: Sequence[str], left_out: list[dict[str, str]]
) -> Any:
    """The table whose partitions have the rows, types and attributes of these files' tables."""
    dataframe, config = imported("dask.dataframe"), imported("dask").config
    # Else Dask would make other strings of the text.
    with config.set({"dataframe.convert-string": False}):
        return dataframe.from_map(_rows_of, files, meta=_no_rows(columns), left_out=left_out)


def _rows_of(file: tuple[Source, Alignment], left_out: list[dict[str, str]]) -> pd.DataFrame:
    source, clock = file
    description = source.description(clock)
    rows = joined([source.take_rows(clock)], source.columns)
    rows.attrs.update(files=[description], left_out=left_out, engine="dask")
    return rows


def _no_rows(columns: Sequence[str]) -> pd.DataFrame:
    added = {name: np.zeros(0, np.int64 if name in _INTEGERS else np.float64) for name in ADDED_COLUMNS}
    none: pd.DataFrame = parse_timings(HEADER.encode()).frame.assign(**added)[list(columns)]
    return none

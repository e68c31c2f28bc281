"""Write what hosts counted in few bytes, and read it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from timing_logger.engine.live.counter_rows import CounterRows
from timing_logger.engine.live.packed_arrays import packed_arrays, unpacked_arrays
from timing_logger.reading.host_rows import COUNTED

_UNITS = 1000.0  # files of counters have no more decimals


def packed_counters(rows: CounterRows) -> tuple[dict[str, Any], bytes]:
    """Return what JSON can hold of rows, and their numbers in bytes, which are yet to be compressed."""
    known = ~np.isnan(rows.values)
    arrays = [np.diff(rows.rank, prepend=0), rows.incarnation]
    columns = np.flatnonzero(known.any(axis=0)).tolist()
    for column in columns:
        values = np.rint(rows.values[known[:, column], column] * _UNITS).astype(np.int64)
        arrays += [np.diff(values, prepend=0), np.packbits(known[:, column]).astype(np.int64)]
    sizes, data = packed_arrays(arrays)
    return {"counted": [COUNTED[column] for column in columns], "sizes": sizes}, data


def unpacked_counters(stated: Mapping[str, Any], data: bytes) -> CounterRows:
    """Return the rows that :func:`packed_counters` made this of; counters that are not known are left out.

    Raises:
        ValueError, KeyError, TypeError, IndexError: it made it of none.
    """
    counted = list(stated["counted"])
    arrays = iter(unpacked_arrays(stated["sizes"], data, 2 + 2 * len(counted)))
    rank, incarnation = np.cumsum(next(arrays)), next(arrays)
    values = np.full((len(rank), len(COUNTED)), np.nan)
    for name in counted:
        numbers, bits = next(arrays), next(arrays)
        if name in COUNTED:
            known = np.unpackbits(bits.astype(np.uint8), count=len(rank)) == 1
            values[known, COUNTED.index(name)] = np.cumsum(numbers) / _UNITS
    return CounterRows(rank, incarnation, values)

"""Write rows of timings in few bytes, and read them again: columns of small integers.

Instants and durations are in units of 100 ns: rows that follow each other or enclose each other still do so
when they are read. Numbers that grow from row to row are written as differences, and a text as its number in
a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from timing_logger.analysis.rows.arrays import Array, Floats, Ints
from timing_logger.live.digest import NUMBERS, TEXTS, WHOLE, RowArrays, Texts

_Numbers = TypeVar("_Numbers", Floats, Ints)

_UNITS_PER_S, _UNITS_PER_MS = 1e7, 1e4
_GROWING = frozenset({"iteration", "seq", "start_counter"})
_AMOUNTS = frozenset({"work"})  # which need not be whole


def packed_rows(rows: RowArrays) -> tuple[dict[str, Any], bytes]:
    """Return what JSON can hold of rows, and their numbers in bytes, which are yet to be compressed."""
    arrays: list[Array] = [rows.texts[name].codes for name in TEXTS]
    numbers = {**rows.numbers, **_times_in_units(rows)}
    for name in NUMBERS:
        values = numbers[name]
        known = values == values
        arrays += [_as_integers(name, values[known]), known[:0] if known.all() else np.packbits(known)]
    sizes, data = packed_arrays(arrays)
    return {"texts": [list(rows.texts[name].texts) for name in TEXTS], "sizes": sizes}, data


def unpacked_rows(stated: Mapping[str, Any], data: bytes) -> RowArrays:
    """Return the rows that :func:`packed_rows` made this of.

    Raises:
        ValueError, KeyError, TypeError, IndexError: it made it of none.
    """
    arrays = iter(unpacked_arrays(stated["sizes"], data, len(TEXTS) + 2 * len(NUMBERS)))
    texts = {name: _texts(next(arrays), list(of)) for name, of in zip(TEXTS, stated["texts"], strict=True)}
    n_rows = len(texts[TEXTS[0]].codes)
    numbers: dict[str, Floats] = {}
    for name in NUMBERS:
        values, known = next(arrays), next(arrays)
        numbers[name] = _spread(_as_numbers(name, values), known.astype(np.uint8), n_rows)
    numbers.update(_times_of_units(numbers))
    if any(len(column) != n_rows for column in (*numbers.values(), *(codes for codes, _ in texts.values()))):
        raise ValueError("columns of different lengths")
    whole = {name: numbers[name].astype(np.int64) for name in WHOLE}
    return RowArrays({**numbers, **whole}, texts)


def _texts(codes: Ints, texts: Sequence[str]) -> Texts:
    if len(codes) and not 0 <= codes.min() <= codes.max() < len(texts):
        raise ValueError("a text that is in no list")
    return Texts(_small(codes.astype(np.int32)), [str(text) for text in texts])


def _small(values: _Numbers) -> _Numbers:
    """Return a column that takes no memory where all is alike in it: a monitor keeps many digests."""
    return np.broadcast_to(values[:1], len(values)) if len(values) and (values == values[0]).all() else values


def _as_integers(name: str, values: Array) -> Ints:
    if name in _AMOUNTS:
        return values.astype(np.float64).view(np.int64)
    integers = values.astype(np.int64)
    return np.diff(integers, prepend=0) if name in _GROWING else integers


def _as_numbers(name: str, integers: Ints) -> Floats:
    if name in _AMOUNTS:
        return integers.astype(np.int64).view(np.float64)
    values = np.cumsum(integers) if name in _GROWING else integers
    return values.astype(np.float64)


def _spread(values: Floats, known: npt.NDArray[np.uint8], n_rows: int) -> Floats:
    """Return a column from its known values, and a bit for each row that tells which these are."""
    if not len(known):
        return _small(values)
    if not len(values):
        return np.broadcast_to(np.nan, n_rows)
    column = np.full(n_rows, np.nan)
    column[np.unpackbits(known, count=n_rows) == 1] = values
    return column


def _times_in_units(rows: RowArrays) -> dict[str, Floats]:
    """Return the columns of times as they are written: of an end what it is later than its start, and of a
    duration what it is beyond that, unless it is only rounded.
    """
    starts, ends = (np.rint(rows.numbers[name] * _UNITS_PER_S) for name in ("start_counter", "end_counter"))
    later = ends - starts
    beyond = np.rint(rows.numbers["elapsed_ms"] * _UNITS_PER_MS) - np.nan_to_num(later)
    beyond[~np.isnan(later) & (abs(beyond) <= 1)] = 0.0
    return {"start_counter": starts, "end_counter": later, "elapsed_ms": beyond}


def _times_of_units(numbers: Mapping[str, Floats]) -> dict[str, Floats]:
    starts, later, beyond = (numbers[name] for name in ("start_counter", "end_counter", "elapsed_ms"))
    return {
        "start_counter": starts / _UNITS_PER_S,
        "end_counter": (starts + later) / _UNITS_PER_S,
        "elapsed_ms": (beyond + np.nan_to_num(later)) / _UNITS_PER_MS,
    }


# -- write arrays of integers in few bytes, and read them again ------------------------------------------


_SIZES = (1, 2, 4, 8)

Sizes = list[tuple[int, int]]
"""How many integers each array has, and how many bytes each of them."""


def packed_arrays(arrays: Sequence[Array]) -> tuple[Sizes, bytes]:
    """Write integers in as few bytes as the largest of an array takes.

    The first bytes of all come together, then the second ones, and so on: most are like the one before then,
    which compression finds.
    """
    sizes: Sizes = []
    parts: list[bytes] = []
    for array in arrays:
        largest = max(int(array.max(initial=0)), -int(array.min(initial=0)) - 1)
        size = next(size for size in _SIZES if largest < 2 ** (8 * size - 1))
        sizes.append((len(array), size))
        parts.append(array.astype(f"<i{size}").view(np.uint8).reshape(-1, size).T.tobytes())
    return sizes, b"".join(parts)


def unpacked_arrays(sizes: Sequence[tuple[int, int]], data: bytes, n_arrays: int) -> list[Ints]:
    """Return the integers that :func:`packed_arrays` wrote.

    Raises:
        ValueError, TypeError: it wrote other ones, or not so many arrays.
    """
    if len(sizes) != n_arrays:
        raise ValueError("another number of arrays")
    arrays, begin = [], 0
    for n, size in sizes:
        places = np.frombuffer(data, np.uint8, n * size, begin).reshape(size, n)
        arrays.append(np.ascontiguousarray(places.T).view(f"<i{size}").reshape(n).astype(np.int64))
        begin += n * size
    return arrays

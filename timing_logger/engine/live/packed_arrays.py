"""Write arrays of integers in few bytes, and read them again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from timing_logger.analysis.table_types import Array, Ints

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

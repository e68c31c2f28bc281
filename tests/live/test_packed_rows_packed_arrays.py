"""Integers come back as they were packed, and what is not that many arrays is refused."""

from __future__ import annotations

import numpy as np
import pytest

from timing_logger.live.packed_rows import packed_arrays, unpacked_arrays


@pytest.mark.parametrize(
    ("largest", "n_bytes"), [(2**7, 1), (2**15, 2), (2**31, 4), (2**63, 8)], ids=["1", "2", "4", "8"]
)
def test_an_array_takes_as_many_bytes_as_its_largest_integer_and_comes_back(
    largest: int, n_bytes: int
) -> None:
    array = np.array([0, largest - 1, -largest, 1])
    sizes, data = packed_arrays([array])
    assert (sizes, len(data)) == ([(4, n_bytes)], 4 * n_bytes)
    assert unpacked_arrays(sizes, data, 1)[0].tolist() == array.tolist()


@pytest.mark.parametrize("beyond", [2**7, -(2**7) - 1])
def test_an_integer_that_does_not_fit_into_a_byte_takes_two(beyond: int) -> None:
    assert packed_arrays([np.array([beyond])])[0] == [(1, 2)]


@pytest.mark.parametrize("n_arrays", [1, 3])
def test_another_number_of_arrays_than_was_packed_is_refused(n_arrays: int) -> None:
    sizes, data = packed_arrays([np.arange(3), np.arange(2)])
    with pytest.raises(ValueError, match="another number of arrays"):
        unpacked_arrays(sizes, data, n_arrays)

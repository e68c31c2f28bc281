"""Entries are picked by magnitude, the first of equal ones, and sparse vectors are added by index."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from allreduce_instrumentation._selection import (  # noqa: E402
    accumulation_dtype,
    at_least,
    contained,
    entries_to_keep,
    index_dtype,
    is_finite,
    largest,
    sum_by_index,
    sum_into_dense,
)

VALUES = [1.0, -3.0, 2.0, 3.0, -1.0]


@pytest.mark.parametrize(
    ("k", "positions"),
    [(0, []), (1, [1]), (2, [1, 3]), (3, [1, 2, 3]), (4, [0, 1, 2, 3]), (5, [0, 1, 2, 3, 4])],
)
def test_the_largest_are_picked_and_of_equal_ones_the_first(k: int, positions: list[int]) -> None:
    picked = largest(torch.tensor(VALUES), k)
    assert (picked.tolist(), picked.dtype) == (positions, torch.int64)


def test_of_no_entries_none_is_picked() -> None:
    assert largest(torch.tensor([]), 0).tolist() == []


@pytest.mark.parametrize(
    ("threshold", "positions"),
    [(0.0, [0, 1, 2, 3, 4]), (2.0, [1, 2, 3]), (2.1, [1, 3]), (3.0, [1, 3]), (3.1, [])],
)
def test_entries_of_a_magnitude_at_the_threshold_are_picked(threshold: float, positions: list[int]) -> None:
    assert at_least(torch.tensor(VALUES), threshold).tolist() == positions


@pytest.mark.parametrize(
    ("dtype", "added_in"),
    [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
    ],
)
def test_values_are_added_in_single_precision_at_least(dtype: Any, added_in: Any) -> None:
    assert accumulation_dtype(dtype) is added_in


@pytest.mark.parametrize(
    ("length", "dtype"), [(1, torch.int32), (2**31 - 1, torch.int32), (2**31, torch.int64)]
)
def test_indices_are_wide_where_the_length_needs_it(length: int, dtype: Any) -> None:
    assert index_dtype(length) is dtype


@pytest.mark.parametrize(
    ("density", "length", "kept"), [(0.1, 10, 1), (0.1, 11, 2), (1e-12, 10, 1), (1.0, 10, 10), (1.0, 1, 1)]
)
def test_at_least_one_entry_is_kept_and_at_most_all(density: float, length: int, kept: int) -> None:
    assert entries_to_keep(density, length) == kept


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], [False, False, False]),
        ([0], [True, False, False]),
        ([3], [False, True, False]),
        ([0, 3, 9], [True, True, True]),
        ([1, 4, 8], [False, False, False]),
    ],
)
def test_an_index_beyond_all_others_is_not_among_them(others: list[int], expected: list[bool]) -> None:
    indices = torch.tensor([0, 3, 9])
    assert contained(indices, torch.tensor(others, dtype=torch.int64)).tolist() == expected


PARTS = [
    (torch.tensor([1.0, 2.0]), torch.tensor([5, 7])),
    (torch.tensor([10.0, 20.0]), torch.tensor([2, 7])),
]


def test_sparse_vectors_are_added_over_the_union_of_their_indices() -> None:
    values, indices = sum_by_index(PARTS, torch.float64)
    assert (values.tolist(), indices.tolist()) == ([10.0, 1.0, 22.0], [2, 5, 7])
    assert values.dtype is torch.float64


def test_sparse_vectors_are_added_into_a_dense_one() -> None:
    total = sum_into_dense(PARTS, 9, torch.float64)
    assert total.tolist() == [0.0, 0.0, 10.0, 0.0, 0.0, 1.0, 0.0, 22.0, 0.0]
    assert total.dtype is torch.float64


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], True),
        ([1.0, -1.0], True),
        ([1.0, math.nan], False),
        ([math.nan, 1.0], False),
        ([0.0, math.inf], False),
        ([0.0, -math.inf], False),
    ],
)
def test_one_entry_that_is_not_finite_is_enough(values: list[float], expected: bool) -> None:
    assert is_finite(torch.tensor(values)) is expected

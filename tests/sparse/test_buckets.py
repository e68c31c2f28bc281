"""Which gradients travel together, by how many bytes they have on the way."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from allreduce_instrumentation.sparse._buckets import make_buckets  # noqa: E402


def buckets(bucket_bytes: int, *parameters: torch.Tensor) -> list[list[str]]:
    """Return the names of what is in each bucket; parameters are named by their place."""
    named = [(str(place), parameter) for place, parameter in enumerate(parameters)]
    return [list(bucket.names) for bucket in make_buckets(named, bucket_bytes, lambda device: True)]


def parameter(numbers: int, dtype: torch.dtype = torch.float32, *, trained: bool = True) -> torch.Tensor:
    return torch.zeros(numbers, dtype=dtype, requires_grad=trained)


def test_what_fills_a_bucket_to_the_last_byte_is_in_one() -> None:
    assert buckets(32, parameter(4), parameter(4)) == [["1", "0"]]


def test_a_gradient_that_has_a_byte_too_many_begins_the_next() -> None:
    assert buckets(31, parameter(4), parameter(4)) == [["1"], ["0"]]


def test_a_larger_gradient_has_a_bucket_of_its_own() -> None:
    assert buckets(8, parameter(1), parameter(9), parameter(1)) == [["2"], ["1"], ["0"]]


@pytest.mark.parametrize(
    ("dtype", "n_bytes"),
    [(torch.float16, 4), (torch.float64, 8), (torch.complex64, 8), (torch.complex128, 16)],
    ids=str,
)
def test_a_number_counts_with_the_bytes_that_it_travels_with(dtype: torch.dtype, n_bytes: int) -> None:
    of_dtype = [parameter(2, dtype), parameter(2, dtype)]
    assert len(buckets(4 * n_bytes, *of_dtype)) == 1
    assert len(buckets(4 * n_bytes - 1, *of_dtype)) == 2


def test_what_is_not_trained_is_in_none() -> None:
    assert buckets(100, parameter(1), parameter(1, trained=False)) == [["0"]]

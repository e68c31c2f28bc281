"""Which tensor of a batch counts, where there are several."""

from __future__ import annotations

from collections import UserDict
from typing import Any

import pytest
import torch

from timing_logger.autologging.torch_operations import work_of


def whole(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.zeros(*shape, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8])
def test_tokens_may_be_of_any_whole_numbers(dtype: torch.dtype) -> None:
    assert work_of(whole(2, 3, dtype=dtype)) == 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool])
def test_what_is_no_whole_number_counts_by_samples(dtype: torch.dtype) -> None:
    assert work_of(whole(2, 3, dtype=dtype)) == 2


def test_whole_numbers_of_one_dimension_count_by_samples() -> None:
    assert work_of([whole(5), torch.zeros(4, 8)]) == 4


@pytest.mark.parametrize("batch", [[whole(2, 3), whole(2, 5)], [whole(2, 5), whole(2, 3)]])
def test_of_several_the_largest_whole_numbers_count(batch: Any) -> None:
    assert work_of(batch) == 10


@pytest.mark.parametrize("batch", [[torch.zeros(3, 9), torch.zeros(7)], [torch.zeros(7), torch.zeros(3, 9)]])
def test_samples_are_those_of_the_largest_tensor(batch: Any) -> None:
    assert work_of(batch) == 3


def test_of_two_equally_large_ones_the_first_has_the_samples() -> None:
    assert work_of([torch.zeros(3, 4), torch.zeros(6, 2)]) == 3


def test_tokens_count_before_a_larger_tensor_without_whole_numbers() -> None:
    assert work_of([whole(2, 3), torch.zeros(100, 100)]) == 6


def test_an_empty_tensor_is_no_work() -> None:
    assert work_of([torch.zeros(0, 4)]) is None
    assert work_of([whole(0, 4), torch.zeros(7)]) == 7


@pytest.mark.parametrize(("before", "work"), [(15, 6), (16, None)])
def test_the_sixteenth_part_is_the_last_that_is_looked_at(before: int, work: int | None) -> None:
    others: list[Any] = [None] * before
    names = {str(number): part for number, part in enumerate([*others, whole(2, 3)])}
    assert work_of([*others, whole(2, 3)]) == work
    assert work_of((*others, whole(2, 3))) == work
    assert work_of(names) == work
    assert work_of(UserDict(names)) == work


def test_parts_of_parts_are_looked_at_and_no_deeper_ones() -> None:
    assert work_of([[whole(2, 3)]]) == 6
    assert work_of([[[whole(2, 3)]]]) is None


def test_a_tensor_that_cannot_be_counted_leaves_the_work_unknown() -> None:
    class Uncountable(torch.Tensor):
        def numel(self) -> int:
            raise RuntimeError("it cannot")

    assert work_of([torch.zeros(4).as_subclass(Uncountable)]) is None

"""How much a batch is: by the shapes of its tensors."""

from __future__ import annotations

from collections import UserDict, namedtuple
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from timing_logger.autologging.torch_operations import work_of

IDS = torch.zeros(8, 512, dtype=torch.int64)
IMAGES = torch.zeros(32, 3, 8, 8)
LABELS = torch.zeros(32, dtype=torch.int64)
Pair = namedtuple("Pair", ["images", "labels"])


@pytest.mark.parametrize(
    ("batch", "work"),
    [
        (IDS, 4096),
        ({"input_ids": IDS, "attention_mask": torch.ones(8, 512), "labels": IDS}, 4096),
        (UserDict(input_ids=IDS, position=torch.zeros(1, 512, dtype=torch.int32)), 4096),
        ([IMAGES, LABELS], 32),
        (Pair(IMAGES, LABELS), 32),
        (({"image": IMAGES}, LABELS), 32),
        ({"text": {"ids": IDS}, "n": 3}, 4096),
        (LABELS, 32),
        (torch.tensor(3.0), None),
        (["a", "b"], None),
        (None, None),
        (object(), None),
        ([], None),
    ],
)
def test_it_is_the_elements_of_the_largest_whole_numbers_or_else_the_samples(batch: Any, work: Any) -> None:
    assert work_of(batch) == work


def test_of_a_batch_of_thousands_of_parts_only_the_first_are_looked_at() -> None:
    class Part(torch.Tensor):
        looked_at = 0

        def numel(self) -> int:
            Part.looked_at += 1
            return super().numel()

    work_of([torch.zeros(4).as_subclass(Part) for _ in range(10_000)])
    assert 0 < Part.looked_at < 100


def test_no_value_of_a_tensor_is_asked_for() -> None:
    assert work_of({"ids": torch.zeros(8, 512, dtype=torch.int64, device="meta")}) == 4096


class LoadsWhenAsked(dict[str, torch.Tensor]):
    """A batch as a data set may hand out: its values are loaded when they are asked for."""

    def values(self) -> Any:
        raise AssertionError("it was loaded")

    def __getitem__(self, name: str) -> Any:
        raise AssertionError("it was loaded")


class LoadsAsMapping(Mapping[str, torch.Tensor]):
    def __getitem__(self, name: str) -> Any:
        raise AssertionError("it was loaded")

    def __iter__(self) -> Any:
        raise AssertionError("it was loaded")

    def __len__(self) -> int:
        return 1


def test_what_loads_its_parts_when_asked_is_not_asked() -> None:
    assert work_of(LoadsWhenAsked(ids=IDS)) == 4096
    assert work_of(LoadsAsMapping()) is None


def test_a_tensor_without_a_shape_leaves_the_work_unknown() -> None:
    class Shapeless(torch.Tensor):
        @property
        def shape(self) -> Any:  # type: ignore[override]
            raise RuntimeError("it has none")

    assert work_of([torch.zeros(4).as_subclass(Shapeless)]) is None

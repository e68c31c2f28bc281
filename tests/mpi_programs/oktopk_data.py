"""Gradients for the tests of Ok-Topk: whole numbers, the same for the same call and rank in every process."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

CALLS = 9
PERIODS = {"THRESHOLD_PERIOD": 5, "REGION_PERIOD": 4}  # in so few calls everything is found anew a few times
LENGTH = 1200
TIMES = 2520  # a whole number times this can be divided by any number of ranks up to 10

Data = Callable[[int, int, int], Tensor]
"""From the number of a call, a rank and the number of ranks to float64."""


def generator(call: int, rank: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 * call + rank)


def whole(call: int, rank: int, limit: int, length: int = LENGTH) -> Tensor:
    return torch.randint(-limit, limit + 1, (length,), generator=generator(call, rank)).double()


def ordinary(call: int, rank: int, size: int, length: int = LENGTH, limit: int = 50) -> Tensor:
    """The first third is distributed like the rest at first, and wider after every fourth call."""
    tensor = whole(call, rank, limit, length)
    tensor[: length // 3] *= 1 + call // 4 * 5
    return tensor


def one_region(call: int, rank: int, size: int) -> Tensor:
    """All that matters lies in a small part, which moves every third call."""
    tensor = whole(call, rank, 3)
    start = call // 3 * LENGTH // 4
    tensor[start : start + LENGTH // 6] *= 1000
    return tensor


def one_spike(call: int, rank: int, size: int) -> Tensor:
    tensor = torch.ones(LENGTH, dtype=torch.float64)
    tensor[call * 97 % LENGTH] = 10**9
    return tensor


def crosswise(call: int, rank: int, size: int) -> Tensor:
    """All that a rank picks lies in one part, which is another one for each rank."""
    tensor = torch.zeros(LENGTH, dtype=torch.float64)
    place = (rank + 1) % size
    part = slice(place * LENGTH // size, (place + 1) * LENGTH // size)
    tensor[part] = whole(call, rank, 50)[part]
    return tensor


USUAL: dict[str, Data] = {
    "ordinary": ordinary,
    "fewer entries than ranks": lambda call, rank, size: ordinary(call, rank, size, max(1, size - 1)),
}
PECULIAR: dict[str, Data] = {
    "many entries": lambda call, rank, size: ordinary(call, rank, size, 20_000, 10**6),
    "one region": one_region,
    "one spike": one_spike,
    "crosswise": crosswise,
    "all equal": lambda call, rank, size: torch.full((LENGTH,), 7.0, dtype=torch.float64),
    "all zeros": lambda call, rank, size: torch.zeros(LENGTH, dtype=torch.float64),
    "the same everywhere": lambda call, rank, size: whole(call, 0, 50),
    "one entry": lambda call, rank, size: torch.full((1,), rank + 1.0, dtype=torch.float64),
}
_BY_DAY = ("many entries", "all equal", "all zeros")
DATA = {"all": USUAL | PECULIAR, "by day": USUAL | {name: PECULIAR[name] for name in _BY_DAY}}

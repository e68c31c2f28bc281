"""What the programs of the optimizer's tests share: a small model, its data, and a fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import torch
from mpi4py import MPI
from torch import Tensor, nn

torch.set_num_threads(1)

WORLD = MPI.COMM_WORLD
rank, size = WORLD.rank, WORLD.size

_generator = torch.Generator().manual_seed(0)
INPUTS = torch.randn(32, 6, generator=_generator)
TARGETS = torch.randn(32, 2, generator=_generator)
MY_INPUTS, MY_TARGETS = INPUTS[rank::size], TARGETS[rank::size]

SMALL_BUCKETS = 200


def mlp(seed: int, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = [nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 2)]
    return nn.Sequential(*layers).to(dtype)


def loss_of(model: nn.Module, inputs: Tensor = MY_INPUTS, targets: Tensor = MY_TARGETS) -> Tensor:
    return nn.functional.mse_loss(model(inputs), targets)


def fingerprint(tensors: Iterable[Tensor]) -> str:
    content = hashlib.sha256()
    for tensor in tensors:
        content.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return content.hexdigest()[:16]


def distance(model: nn.Module, other: nn.Module) -> float:
    """The largest difference between two models' parameters."""
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


def error_of(call: Any) -> list[str]:
    """Type, message and cause's type of what ``call`` raises; empty if nothing."""
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error), type(error.__cause__).__name__]
    return []

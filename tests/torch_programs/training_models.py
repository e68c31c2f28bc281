"""Small models, data that differ on every rank and in every step, and the loops that train with them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from training_ways import Run, rank

WIDTH = 24
STEPS = 4

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


def mlp(seed: int = rank, layers: int = 3) -> nn.Sequential:
    """Another start on every rank: what trains together has to make it the same."""
    torch.manual_seed(seed)
    blocks: list[nn.Module] = []
    for _ in range(layers):
        blocks += [nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    return nn.Sequential(*blocks, nn.Linear(WIDTH, 3))


def wide_mlp() -> nn.Sequential:
    """Of more than one megabyte, the least that a bucket of a compiled DDP model holds."""
    torch.manual_seed(rank)
    return nn.Sequential(
        nn.Linear(WIDTH, 600),
        nn.ReLU(),
        nn.Linear(600, 600),
        nn.ReLU(),
        nn.Linear(600, 600),
        nn.Linear(600, 3),
    )


def batch(step: int, part: int = 0, rows: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(10_000 * rank + 100 * step + part)
    return torch.randn(rows, WIDTH, generator=generator), torch.randn(rows, 3, generator=generator)


def squares(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.mse_loss(model(inputs).float(), targets)


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train(
    run: Run,
    model: nn.Module,
    *,
    steps: int = STEPS,
    parts: int = 1,
    loss_of: Loss = squares,
    optimizer: torch.optim.Optimizer | None = None,
    not_last: Callable[[], AbstractContextManager[object]] = nullcontext,
    before_step: Callable[[], object] = lambda: None,
) -> None:
    """Train for some steps, and keep what each one leaves.

    Args:
        parts: backward passes per step, whose gradients add up.
        not_last: what encloses all of these but the last.
        before_step: what is done between backward and the optimizer's step.
    """
    optimizer = momentum(model) if optimizer is None else optimizer
    for step in range(steps):
        run.begin_step()
        optimizer.zero_grad()
        for part in range(parts):
            with not_last() if part < parts - 1 else nullcontext():
                loss = loss_of(model, *batch(step, part))
                loss.backward()
        before_step()
        optimizer.step()
        run.end_step(model, loss.detach())


class Checkpointed(nn.Module):
    """Layers that compute their activations again in backward."""

    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.layers = mlp()
        self._reentrant = reentrant

    def forward(self, inputs: Tensor) -> Tensor:
        value = self.layers[0](inputs)
        for layer in self.layers[1:]:
            value = checkpoint(layer, value, use_reentrant=self._reentrant)
        return value


class Branches(nn.Module):
    """One of the branches is left out, another one on each rank and in each step."""

    def __init__(self) -> None:
        super().__init__()
        self.first = mlp()
        self.branches = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.left_out = rank

    def forward(self, inputs: Tensor) -> Tensor:
        value = self.first(inputs)
        for number, branch in enumerate(self.branches):
            if number != self.left_out % len(self.branches):
                value = value + branch(value)
        self.left_out += 1
        return value


class Normed(nn.Module):
    """With buffers that change in every forward pass."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(rank)
        self.layers = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 3), nn.BatchNorm1d(3)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs)

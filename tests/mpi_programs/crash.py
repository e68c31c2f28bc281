"""Two or more ranks: an error of the training script itself on the last rank, while the others train."""

from __future__ import annotations

from _training import WORLD, loss_of, mlp, rank, size
from torch.optim import SGD

from allreduce_instrumentation import DistributedOptimizer

model = mlp(0)
optimizer = DistributedOptimizer(SGD(model.parameters(), lr=0.1), model.named_parameters(), WORLD)
for step in range(10):
    if step == 2 and rank == size - 1:
        raise KeyError("no such column")
    loss_of(model).backward()
    optimizer.step()

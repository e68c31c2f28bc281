"""Two or more ranks: what fails on one of them, and what every rank hears of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from _ranks import report
from _training import MY_INPUTS, SMALL_BUCKETS, WORLD, error_of, loss_of, mlp, rank, size
from mpi4py import MPI
from torch import nn
from torch.optim import SGD

from allreduce_instrumentation import DistributedOptimizer

STEPS = 5
LAST = size - 1


def distributed(model: nn.Module, **options: Any) -> DistributedOptimizer:
    inner = SGD(model.parameters(), lr=0.1)
    return DistributedOptimizer(inner, model.named_parameters(), WORLD, bucket_bytes=SMALL_BUCKETS, **options)


def errors_by_step(optimizer: DistributedOptimizer, step: Callable[[int], None]) -> list[list[str]]:
    """What each step raises, up to the first that does, and what ``step()`` raises after that."""
    errors: list[list[str]] = []
    for number in range(STEPS):
        errors.append(error_of(partial(step, number)))
        if errors[-1]:
            break
    errors.append(error_of(optimizer.step))
    WORLD.Barrier()
    optimizer.stop()
    return errors


def after_breaking(part: str, place: int) -> list[list[str]]:
    """In step 2 a method of bucket ``place`` raises on the last rank, on the reducing thread."""
    model = mlp(0)
    optimizer = distributed(model)

    def broken(*_: Any) -> None:
        raise MemoryError("no room")

    def step(number: int) -> None:
        if number == 2 and rank == LAST:
            bucket = optimizer._passes._buckets[place]
            assert callable(getattr(bucket, part))  # or nothing would be broken
            setattr(bucket, part, broken)
        loss_of(model).backward()
        optimizer.step()

    return errors_by_step(optimizer, step)


def sparse_gradient() -> list[list[str]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 3, sparse=True), nn.Linear(3, 2))
    optimizer = distributed(model)

    def step(number: int) -> None:
        model(torch.tensor([1, 2])).sum().backward()
        optimizer.step()

    return errors_by_step(optimizer, step)


def changed_gradient() -> list[list[str]]:
    """Rank 0 clips without asking for the means first."""
    model = mlp(0)
    optimizer = distributed(model)

    def step(number: int) -> None:
        optimizer.zero_grad()
        loss_of(model).backward()
        if number == 1 and rank == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        optimizer.step()

    return errors_by_step(optimizer, step)


class FailsOnRank0(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, inputs: torch.Tensor) -> torch.Tensor:
        return inputs.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        if rank == 0:
            raise ArithmeticError("in backward")
        return gradient


def interrupted_backward() -> list[list[str]]:
    """Rank 0's second backward ends in the middle; rank 0 goes on to its step."""
    model = mlp(0)
    optimizer = distributed(model)

    def step(number: int) -> None:
        features = model[:3](MY_INPUTS)
        if number == 1:
            features = FailsOnRank0.apply(features)
        error_of(model[3:](features).sum().backward)
        optimizer.step()

    return errors_by_step(optimizer, step)


def mpi_error() -> list[list[str]]:
    """MPI itself fails on the last rank: it cannot tell, and the others' time runs out."""
    model = mlp(0)
    optimizer = distributed(model, timeout_s=1.0)
    comm = optimizer._ranks.comm
    loss_of(model).backward()
    optimizer.step()

    def step(number: int) -> None:
        if rank == LAST and number == 0:
            comm.Allreduce = lambda *_: (_ for _ in ()).throw(MPI.Exception(MPI.ERR_OTHER))  # type: ignore[assignment]
        loss_of(model).backward()
        optimizer.step()

    errors = [error_of(partial(step, number)) for number in range(2)]
    WORLD.Barrier()
    if rank == LAST:  # lets the others' threads go, for the job to end: their bucket, and their news of it
        for bucket in optimizer._passes._buckets[:2]:
            MPI.Intracomm(comm).Allreduce(MPI.IN_PLACE, bucket.buffer.numpy())
    optimizer.stop()
    return errors


def thread_gone() -> list[list[str]]:
    model = mlp(0)
    optimizer = distributed(model)
    optimizer._reducer._queue.put(None)
    return errors_by_step(optimizer, lambda _: optimizer.step())


def rank_missing() -> list[list[str]]:
    """Rank 0 does not take part in the first step in time, and comes later."""
    model = mlp(0)
    optimizer = distributed(model, timeout_s=0.5 if rank else 60.0)
    errors = [error_of(optimizer.step)] if rank else []
    WORLD.Barrier()
    if rank == 0:
        errors = [error_of(optimizer.step)]
    WORLD.Barrier()
    optimizer.stop()
    return errors


report(
    {
        "flags": after_breaking("set_flags", 0),
        "flags of the last bucket": after_breaking("set_flags", -1),
        "loading": after_breaking("load", 1),
        "dividing": after_breaking("settle", 0),
        "dividing the last bucket": after_breaking("settle", -1),
        "sparse gradient": sparse_gradient(),
        "changed gradient": changed_gradient(),
        "interrupted backward": interrupted_backward(),
        "MPI error": mpi_error(),
        "thread gone": thread_gone(),
        "rank missing": rank_missing(),
    }
)
model = mlp(0)
never_stopped = distributed(model)  # the job has to end all the same, in the middle of a reduction too
loss_of(model).backward()

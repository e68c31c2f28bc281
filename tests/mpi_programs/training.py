"""Any number of ranks: DistributedOptimizer beside one process that trains on the whole batch.

Arguments: the trainings, all if none is named.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from time import perf_counter_ns
from typing import Any

import torch
from _ranks import recording, report
from _training import (
    INPUTS,
    MY_INPUTS,
    MY_TARGETS,
    SMALL_BUCKETS,
    TARGETS,
    WORLD,
    distance,
    error_of,
    fingerprint,
    loss_of,
    mlp,
    rank,
    size,
)
from torch import nn
from torch.optim import LBFGS, SGD, Adam, lr_scheduler
from torch.utils.checkpoint import checkpoint

from allreduce_instrumentation import DistributedOptimizer, TimedIntracomm

Optimizer = torch.optim.Optimizer
STEPS = 4


def distributed(model: nn.Module, optimizer: Optimizer, **options: Any) -> DistributedOptimizer:
    options.setdefault("bucket_bytes", SMALL_BUCKETS)
    return DistributedOptimizer(optimizer, model.named_parameters(), WORLD, **options)


def compared(
    make: Callable[[nn.Module], Optimizer], train: Callable[[Any, nn.Module, bool], None]
) -> dict[str, Any]:
    """Train on all ranks, and on the whole batch alone from the same start (that of rank 0)."""
    model, alone = mlp(seed=rank), mlp(seed=0)
    optimizer = distributed(model, make(model))
    train(optimizer, model, True)
    optimizer.stop()
    train(make(alone), alone, False)
    return {
        "distance": distance(model, alone),
        "moved": distance(model, mlp(0)),
        "same": fingerprint(model.parameters()),
    }


def batch(mine: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return (MY_INPUTS, MY_TARGETS) if mine else (INPUTS, TARGETS)


def plain_steps(optimizer: Any, model: nn.Module, mine: bool) -> None:
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, *batch(mine)).backward()
        optimizer.step()


def accumulated(reduce_each: bool) -> Callable[[Any, nn.Module, bool], None]:
    def steps(optimizer: Any, model: nn.Module, mine: bool) -> None:
        inputs, targets = batch(mine)
        for _ in range(STEPS):
            optimizer.zero_grad(set_to_none=False)
            for part in (slice(None, None, 2), slice(1, None, 2)):
                if mine and not reduce_each:
                    with optimizer.no_sync():
                        loss_of(model, inputs[part], targets[part]).backward()
                else:
                    loss_of(model, inputs[part], targets[part]).backward()
            optimizer.step()

    return steps


def one_of_two_reduced(which: int) -> Callable[[Any, nn.Module, bool], None]:
    def steps(optimizer: Any, model: nn.Module, mine: bool) -> None:
        for _ in range(STEPS):
            optimizer.zero_grad()
            for part in (0, 1):
                with optimizer.no_sync() if mine and part != which else nullcontext():
                    loss_of(model, *batch(mine)).backward()
            optimizer.step()

    return steps


def never_zeroed(optimizer: Any, model: nn.Module, mine: bool) -> None:
    for _ in range(STEPS):
        loss_of(model, *batch(mine)).backward()
        optimizer.step()


def clipped(optimizer: Any, model: nn.Module, mine: bool) -> None:
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, *batch(mine)).backward()
        if mine:
            optimizer.synchronize()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()


def scaled(optimizer: Any, model: nn.Module, mine: bool) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, *batch(mine))).backward()
        if mine:
            optimizer.synchronize()
        scaler.step(optimizer)
        scaler.update()


def closures(optimizer: Any, model: nn.Module, mine: bool) -> None:
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, *batch(mine))
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)


def frozen_for_a_while(optimizer: Any, model: nn.Module, mine: bool) -> None:
    first = next(model.parameters())
    for step in range(STEPS):
        first.requires_grad_(step not in (1, 2))
        optimizer.zero_grad()
        loss_of(model, *batch(mine)).backward()
        optimizer.step()


def checkpointed(reentrant: bool) -> Callable[[Any, nn.Module, bool], None]:
    """Backward within backward, where checkpoints are reentrant."""

    def steps(optimizer: Any, model: nn.Module, mine: bool) -> None:
        inputs, targets = batch(mine)
        for _ in range(STEPS):
            optimizer.zero_grad()
            features = model[:2](inputs)
            for layer in (model[2:4], model[4:]):
                features = checkpoint(layer, features, use_reentrant=reentrant)
            nn.functional.mse_loss(features, targets).backward()
            optimizer.step()

    return steps


def sgd(model: nn.Module) -> Optimizer:
    return SGD(model.parameters(), lr=0.1, momentum=0.9)


def frozen_at_first(model: nn.Module) -> Optimizer:
    next(model.parameters()).requires_grad_(False)
    return sgd(model)


def group_added(optimizer: Any, model: nn.Module, mine: bool) -> None:
    optimizer.add_param_group({"params": list(model.parameters())[2:], "lr": 0.05})
    plain_steps(optimizer, model, mine)


def with_scheduler(make: Callable[[Optimizer], Any]) -> Callable[[Any, nn.Module, bool], None]:
    def steps(optimizer: Any, model: nn.Module, mine: bool) -> None:
        scheduler = make(optimizer)
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, *batch(mine)).backward()
            optimizer.step()
            scheduler.step(*([1.0] if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else []))

    return steps


def training() -> dict[str, Any]:
    schedulers = {
        "StepLR": lambda o: lr_scheduler.StepLR(o, 1, 0.5),
        "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.2, total_steps=STEPS + 1),
        "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0),
    }
    every: dict[str, Callable[[], dict[str, Any]]] = {
        "SGD": lambda: compared(sgd, plain_steps),
        "Adam": lambda: compared(lambda m: Adam(m.parameters(), lr=0.01), plain_steps),
        "fused Adam": lambda: compared(lambda m: Adam(m.parameters(), lr=0.01, fused=True), plain_steps),
        "LBFGS": lambda: compared(
            lambda m: LBFGS(m.parameters(), max_iter=4, line_search_fn="strong_wolfe"), closures
        ),
        "SGD with a closure": lambda: compared(sgd, closures),
        "accumulating, each backward reduced": lambda: compared(sgd, accumulated(True)),
        "accumulating, none reduced before the step": lambda: compared(sgd, accumulated(False)),
        "accumulating, the first backward reduced": lambda: compared(sgd, one_of_two_reduced(0)),
        "accumulating, the last backward reduced": lambda: compared(sgd, one_of_two_reduced(1)),
        "gradients never zeroed": lambda: compared(sgd, never_zeroed),
        "clipping": lambda: compared(sgd, clipped),
        "GradScaler": lambda: compared(sgd, scaled),
        "GradScaler and fused Adam": lambda: compared(
            lambda m: Adam(m.parameters(), lr=0.01, fused=True), scaled
        ),
        "checkpoints": lambda: compared(sgd, checkpointed(False)),
        "reentrant checkpoints": lambda: compared(sgd, checkpointed(True)),
        "frozen for a while": lambda: compared(sgd, frozen_for_a_while),
        "frozen at first": lambda: compared(frozen_at_first, frozen_for_a_while),
        "a group added": lambda: compared(lambda m: SGD(list(m.parameters())[:2], lr=0.1), group_added),
        **{name: partial(compared, sgd, with_scheduler(make)) for name, make in schedulers.items()},
    }
    return {name: every[name]() for name in sys.argv[1:] or every}


class Branches(nn.Module):
    """Even ranks use one branch, odd ranks the other, nobody the third."""

    def __init__(self) -> None:
        super().__init__()
        self.even, self.odd, self.idle = (nn.Linear(6, 2) for _ in range(3))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return (self.odd if rank % 2 else self.even)(inputs)  # type: ignore[no-any-return]


def unused() -> dict[str, Any]:
    torch.manual_seed(0)
    model = Branches()
    used, unused_here = (model.odd, model.even) if rank % 2 else (model.even, model.odd)
    optimizer = distributed(model, SGD(model.parameters(), lr=0.1), bucket_bytes=10_000)
    loss_of(model).backward()
    mine = used.weight.grad.clone()
    optimizer.synchronize()
    gradients = WORLD.allgather(mine)
    expected = [sum(gradients[parity::2], torch.zeros(2, 6)) / size for parity in (0, 1)]
    result = {
        "errors": [
            float((branch.weight.grad - expected[parity]).abs().max())
            for parity, branch in enumerate((model.even, model.odd))
            if size > 1 or branch is used
        ],
        "other_branch_has_gradient": unused_here.weight.grad is not None,
        "idle_gradient": model.idle.weight.grad is None,
        "idle_before": fingerprint(model.idle.parameters()),
    }
    optimizer.step()
    optimizer.stop()
    return {
        **result,
        "idle_after": fingerprint(model.idle.parameters()),
        "same": fingerprint(model.parameters()),
    }


def dtypes() -> dict[str, Any]:
    """Means of gradients that are rank + 1 everywhere."""
    result = {}
    for dtype in (
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    ):
        parameter = nn.Parameter(torch.zeros(2, 3, dtype=dtype))
        optimizer = DistributedOptimizer(SGD([parameter], lr=1.0), [("p", parameter)], WORLD)
        factor = (rank + 1) * (1j if dtype.is_complex else 1)
        parameter.grad = torch.full_like(parameter, factor)
        optimizer.step()
        optimizer.stop()
        values = parameter.detach().imag if dtype.is_complex else parameter.detach()
        result[str(dtype)] = sorted(set(values.abs().double().flatten().tolist()))
    return result


class UntilReduced(torch.autograd.Function):
    """Passes a gradient on once the first bucket of this backward was reduced, or after a minute."""

    @staticmethod
    def forward(context: Any, inputs: torch.Tensor, optimizer: DistributedOptimizer) -> torch.Tensor:
        context.optimizer = optimizer
        return inputs.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        context.optimizer._passes._launches[0].done.wait(60)
        return gradient, None


def rows() -> dict[str, Any]:
    """Rows of three iterations; in the last of them two backwards are reduced."""
    with recording() as (logger, records):
        torch.manual_seed(0)
        model = nn.Sequential(*(nn.Linear(20, 20) for _ in range(4)))
        optimizer = distributed(
            model, SGD(model.parameters(), lr=1e-3), timing_logger=logger, bucket_bytes=1700
        )
        backward_ended = []
        for iteration in range(3):
            optimizer.set_current_epoch(iteration // 2)
            optimizer.set_current_iteration(iteration)
            optimizer.zero_grad()
            for _ in range(2 if iteration == 2 else 1):
                features = UntilReduced.apply(model[:2](torch.ones(5, 20)), optimizer)
                model[2:](features).sum().backward()
                backward_ended.append(perf_counter_ns())
            optimizer.step()
        optimizer.stop()
    reduced = [r for r in records if r.operation == "ALLREDUCE"]
    return {
        "reduced": sorted([r.group, r.group_size, r.seq] for r in reduced),
        "waited": sorted([r.group, r.group_size, r.seq] for r in records if r.operation == "WAIT"),
        "ended_within_backward": sum(r.end_ns < backward_ended[0] for r in reduced if r.iteration == 0),
        "names": [r.layer_name for r in reduced if r.iteration == 0],
        "sizes": sorted({r.message_size_bytes for r in reduced}),
        "threads": sorted({(r.operation, r.thread) for r in records}),
        "others": sorted(
            {(r.operation, r.layer_name, r.peer) for r in records if r.operation in ("ALLGATHER", "BCAST")},
            key=str,
        ),
        "phases": sorted({r.phase for r in reduced}),
        "iterations": [[r.iteration, r.epoch] for r in reduced],
        "order": [r.seq for r in reduced],
    }


def logged_or_not() -> dict[str, Any]:
    """Losses and parameters with a recording logger and with none, bit for bit."""

    def train(logger: Any) -> list[str]:
        model = mlp(0)
        options = {} if logger is None else {"timing_logger": logger}
        optimizer = distributed(model, sgd(model), **options)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            losses.append(loss_of(model))
            losses[-1].backward()
            optimizer.step()
        optimizer.stop()
        return [fingerprint(losses), fingerprint(model.parameters())]

    with recording() as (logger, _):
        logged = train(logger)
    return {"logged": logged, "not_logged": train(None)}


def states() -> dict[str, Any]:
    """Rank 0 has trained before; the others start from its state."""
    model = mlp(rank)
    inner = Adam(model.parameters(), lr=0.01 * (rank + 1))
    if rank == 0:
        loss_of(model).backward()
        inner.step()
        inner.zero_grad()
    optimizer = distributed(model, inner)
    started = [optimizer.param_groups[0]["lr"], len(optimizer.state)]
    plain_steps(optimizer, model, True)
    optimizer.stop()
    plain = Adam(mlp(0).parameters())
    plain.load_state_dict(optimizer.state_dict())
    return {
        "started": started,
        "steps_in_plain_one": float(plain.state_dict()["state"][0]["step"]),
        "same": fingerprint(model.parameters()),
    }


def resumed() -> dict[str, Any]:
    """Training that was saved and loaded half way ends where training in one go does."""
    model = mlp(0)
    optimizer = distributed(model, Adam(model.parameters(), lr=0.01))
    plain_steps(optimizer, model, True)
    saved = copy.deepcopy([model.state_dict(), optimizer.state_dict()])
    plain_steps(optimizer, model, True)
    optimizer.stop()
    other = mlp(5)
    other.load_state_dict(saved[0])
    second = distributed(other, Adam(other.parameters()))
    second.load_state_dict(saved[1])
    plain_steps(second, other, True)
    second.stop()
    return {"in_one_go": fingerprint(model.parameters()), "resumed": fingerprint(other.parameters())}


def face() -> dict[str, Any]:
    """What it looks like from outside."""
    model = mlp(0)
    inner = sgd(model)
    optimizer = distributed(model, inner)
    calls: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    plain_steps(optimizer, model, True)
    result = {
        "is_optimizer": isinstance(optimizer, Optimizer),
        "shares": [getattr(optimizer, n) is getattr(inner, n) for n in ("param_groups", "state", "defaults")],
        "hooks": calls[:2],
        "repr": repr(optimizer).startswith("DistributedOptimizer(SGD ("),
        "copied": error_of(lambda: copy.deepcopy(optimizer)),
        "unknown": error_of(lambda: optimizer.nothing),
    }
    second = distributed(model, inner)
    timed = DistributedOptimizer(inner, None, TimedIntracomm(WORLD, group="mine"))
    result["groups"] = [o._ranks.group for o in (optimizer, second, timed)]
    result["unnamed"] = timed._passes._buckets[0].name
    for each in (optimizer, second, timed):
        each.stop()
        each.stop()
    result["after_stop"] = error_of(optimizer.step)
    return result


def refusals() -> dict[str, Any]:
    model = mlp(0)
    inner = sgd(model)
    return {
        "names lacking": error_of(
            lambda: DistributedOptimizer(inner, list(model.named_parameters())[:2], WORLD)
        ),
        "no optimizer": error_of(lambda: DistributedOptimizer(model, None, WORLD)),  # type: ignore[arg-type]
        "no communicator": error_of(lambda: DistributedOptimizer(inner, None, 3)),  # type: ignore[arg-type]
        "no bytes": error_of(lambda: DistributedOptimizer(inner, None, WORLD, bucket_bytes=0)),
        "no time": error_of(lambda: DistributedOptimizer(inner, None, WORLD, timeout_s=float("nan"))),
        "ranks differ": error_of(
            lambda: DistributedOptimizer(
                inner, [(f"{rank}.{n}", p) for n, p in model.named_parameters()], WORLD
            ).stop()
        ),
    }


SCENARIOS = (training, unused, dtypes, rows, logged_or_not, states, resumed, face, refusals)
report({scenario.__name__: scenario() for scenario in SCENARIOS})

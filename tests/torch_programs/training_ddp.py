"""Under torchrun: DistributedDataParallel with each of its options, trained three ways."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel as DDP
from training_models import (
    STEPS,
    WIDTH,
    Branches,
    Checkpointed,
    Normed,
    batch,
    mlp,
    momentum,
    squares,
    train,
    wide_mlp,
)
from training_ways import Run, Variant, rank, run_all, size

SMALL_BUCKETS = 0.001  # MB; a layer of these models has twice as much


def ddp(run: Run, model: nn.Module, **options: Any) -> DDP:
    made = DDP(model, **options)
    run.watch(made)
    return made


def plain(run: Run) -> None:
    train(run, ddp(run, mlp()))


def with_options(**options: Any) -> Variant:
    return lambda run: train(run, ddp(run, mlp(), bucket_cap_mb=SMALL_BUCKETS, **options))


def no_sync(run: Run) -> None:
    model = ddp(run, mlp(), bucket_cap_mb=SMALL_BUCKETS)
    train(run, model, parts=3, not_last=model.no_sync)


def unused(run: Run) -> None:
    train(run, ddp(run, Branches(), find_unused_parameters=True, bucket_cap_mb=SMALL_BUCKETS))


def unused_everywhere(run: Run) -> None:
    model = Branches()
    model.left_out = 0
    train(run, ddp(run, model, find_unused_parameters=True))


def autocast(run: Run) -> None:
    def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return squares(model, inputs, targets)

    train(run, ddp(run, mlp()), loss_of=loss_of)


def mixed_precision(run: Run) -> None:
    from torch.nn.parallel.distributed import _MixedPrecision

    precision = _MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    train(run, ddp(run, mlp(), mixed_precision=precision))


def checkpointed(run: Run) -> None:
    train(run, ddp(run, Checkpointed(reentrant=False), bucket_cap_mb=SMALL_BUCKETS))


def checkpointed_reentrant(run: Run) -> None:
    model = Checkpointed(reentrant=True)
    train(run, ddp(run, model, bucket_cap_mb=SMALL_BUCKETS, static_graph=True))


def batch_norm(run: Run) -> None:
    model = ddp(run, Normed())
    train(run, model)
    run.note("buffers", model.buffers())
    model.eval()
    run.note("evaluated", [model(batch(99)[0])])


def sync_batch_norm(run: Run) -> None:
    model = ddp(run, nn.SyncBatchNorm.convert_sync_batchnorm(Normed()))
    train(run, model)
    run.note("buffers", model.buffers())


def uneven_inputs(run: Run) -> None:
    """Rank 0 runs out of data first, and shadows the others' collectives."""
    model = ddp(run, mlp(), bucket_cap_mb=SMALL_BUCKETS)
    with model.join():
        train(run, model, steps=3 + 2 * rank)
    run.note("after join", model.parameters())


def two_models(run: Run) -> None:
    """One backward pass through both of them."""
    first, second = (ddp(run, mlp(rank + n), bucket_cap_mb=SMALL_BUCKETS) for n in (0, 10))
    both = nn.ModuleList([first, second])

    def loss_of(_: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return squares(first, inputs, targets) + squares(second, inputs, first(inputs))

    train(run, both, loss_of=loss_of)


def two_passes_at_a_time(run: Run) -> None:
    """A backward pass through one model inside that of another."""
    inner, outer = (ddp(run, mlp(rank + n)) for n in (0, 10))

    def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        hidden = outer(inputs)

        @torch.enable_grad()
        def train_inner(_: Tensor) -> None:
            squares(inner, inputs, targets).backward()

        hidden.register_hook(train_inner)
        return nn.functional.mse_loss(hidden, targets)

    train(run, nn.ModuleList([inner, outer]), loss_of=loss_of)


def gradient_of_gradient(run: Run) -> None:
    def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        inputs.requires_grad_()
        loss = squares(model, inputs, targets)
        (slope,) = torch.autograd.grad(loss, inputs, create_graph=True)
        return loss + slope.square().sum()

    train(run, ddp(run, mlp(), bucket_cap_mb=SMALL_BUCKETS), loss_of=loss_of)


def copies(run: Run) -> None:
    """A model that was copied or pickled trains on, and its state loads into another."""
    model = ddp(run, mlp())
    run.notes["attributes"] = sorted(vars(model))
    train(run, model, steps=1)
    copied = copy.deepcopy(model)
    train(run, copied, steps=2)
    train(run, pickle.loads(pickle.dumps(copied)), steps=2)
    other = mlp(99)
    other.load_state_dict(model.module.state_dict())
    run.note("state", other.parameters())
    run.notes["keys"] = sorted(model.state_dict())


def over_a_mesh(run: Run) -> None:
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))
    train(run, ddp(run, mlp(), device_mesh=mesh, bucket_cap_mb=SMALL_BUCKETS))


def over_a_new_group(run: Run) -> None:
    train(run, ddp(run, mlp(), process_group=dist.new_group(), bucket_cap_mb=SMALL_BUCKETS))


def compiled(backend: str, *, around: bool) -> Variant:
    def variant(run: Run) -> None:
        torch._dynamo.reset()
        if around:
            train(run, torch.compile(ddp(run, wide_mlp(), bucket_cap_mb=1), backend=backend))
        else:
            train(run, ddp(run, torch.compile(wide_mlp(), backend=backend), bucket_cap_mb=1))

    return variant


def overlap(run: Run) -> None:
    """The last rank holds its first bucket back until the others have computed all their gradients.

    Whoever waited for a bucket at its issue would never get there.
    """
    from time import perf_counter_ns

    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(4)]
    model = ddp(run, nn.Sequential(*layers), bucket_cap_mb=SMALL_BUCKETS)
    done = run.marks["all gradients computed"] = []

    def at_last_gradient(_: Tensor) -> None:
        done.append(perf_counter_ns())
        run.store.set(f"computed {len(done)} {rank}", "")

    def at_first_gradient(_: Tensor) -> None:
        if rank == size - 1:
            run.store.wait([f"computed {len(done) + 1} {other}" for other in range(size - 1)])

    layers[0].weight.register_hook(at_last_gradient)
    layers[-1].weight.register_hook(at_first_gradient)
    for step in range(STEPS):
        run.begin_step()
        loss = model(batch(step)[0]).square().mean()
        loss.backward()
        momentum(model).step()
        run.end_step(model, loss.detach())


BUCKETS: dict[str, Variant] = {
    "plain": plain,
    "several buckets": with_options(),
    "no_sync": no_sync,
    "static graph": with_options(static_graph=True),
    "unused parameters": unused,
    "overlap": overlap,
}
"""Those that are run on three ranks as well, where the mean is not exact."""

VARIANTS: dict[str, Variant] = {
    **BUCKETS,
    "bucket views": with_options(gradient_as_bucket_view=True),
    "unused on all ranks": unused_everywhere,
    "autocast": autocast,
    "mixed precision (DDP's)": mixed_precision,
    "checkpointed": checkpointed,
    "checkpointed, reentrant": checkpointed_reentrant,
    "batch norm": batch_norm,
    "synchronised batch norm": sync_batch_norm,
    "uneven inputs": uneven_inputs,
    "two models": two_models,
    "a pass within a pass": two_passes_at_a_time,
    "gradient of a gradient": gradient_of_gradient,
    "copies": copies,
    "over a mesh": over_a_mesh,
    "over a new group": over_a_new_group,
    "compiled, aot_eager": compiled("aot_eager", around=True),
    "compiled inside, aot_eager": compiled("aot_eager", around=False),
    "compiled, inductor": compiled("inductor", around=True),
}

if __name__ == "__main__":
    wanted = sys.argv[1:] or list(VARIANTS if size == 2 else BUCKETS)
    run_all({name: VARIANTS[name] for name in wanted})

"""Under torchrun: models sharded by FSDP2 (``fully_shard``), trained three ways."""

from __future__ import annotations

import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from training_models import Checkpointed, batch, mlp, momentum, squares, train
from training_ways import Run, Variant, rank, run_all, size


def sharded(run: Run, model: nn.Module, **options: Any) -> FSDPModule:
    """Each layer by itself, and the rest as a whole. FSDP2 takes each rank's own start as it is."""
    for module in list(model.modules()):
        if isinstance(module, nn.Linear):
            fully_shard(module, **options)
    fully_shard(model, **options)
    run.watch(model)
    assert isinstance(model, FSDPModule)
    return model


def with_options(**options: Any) -> Variant:
    return lambda run: train(run, sharded(run, mlp(0), **options))


def as_a_whole(run: Run) -> None:
    model = mlp(0)
    fully_shard(model)
    run.watch(model)
    train(run, model)


def accumulated(run: Run) -> None:
    model = sharded(run, mlp(0))
    optimizer = momentum(model)
    for step in range(3):
        run.begin_step()
        optimizer.zero_grad()
        for part in range(3):
            model.set_requires_gradient_sync(part == 2)
            model.set_is_last_backward(part == 2)
            loss = squares(model, *batch(step, part))
            loss.backward()
        optimizer.step()
        run.end_step(model, loss.detach())


def checkpointed(run: Run) -> None:
    torch.manual_seed(0)
    model = Checkpointed(reentrant=False)
    model.layers = mlp(0)
    train(run, sharded(run, model))


def prefetched(run: Run) -> None:
    model = sharded(run, mlp(0))
    layers = [layer for layer in model if isinstance(layer, FSDPModule)]
    for here, following in pairwise(layers):
        here.set_modules_to_forward_prefetch([following])
        following.set_modules_to_backward_prefetch([here])
    train(run, model)


def unsharded_in_the_background(run: Run) -> None:
    model = sharded(run, mlp(0))
    optimizer = momentum(model)
    for step in range(3):
        run.begin_step()
        optimizer.zero_grad()
        handles = [m.unshard(async_op=True) for m in model.modules() if isinstance(m, FSDPModule)]
        for handle in handles:
            handle.wait()
        loss = squares(model, *batch(step))
        loss.backward()
        optimizer.step()
        run.end_step(model, loss.detach())


def clipped(run: Run) -> None:
    model = sharded(run, mlp(0))
    norms: list[Tensor] = []

    def clip() -> None:
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        norms.append(norm.full_tensor())

    train(run, model, before_step=clip)
    run.note("norms", norms)


def compiled(backend: str) -> Variant:
    def variant(run: Run) -> None:
        torch._dynamo.reset()
        model = mlp(0)
        for layer in model:
            if isinstance(layer, nn.Linear):
                layer.compile(backend=backend)
        train(run, sharded(run, model))

    return variant


def saved_and_loaded(run: Run) -> None:
    model = sharded(run, mlp(0))
    optimizer = torch.optim.Adam(model.parameters())
    train(run, model, steps=2, optimizer=optimizer)
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    run.note("whole", whole.values())
    run.notes["keys"] = sorted(get_optimizer_state_dict(model, optimizer))
    with tempfile.TemporaryDirectory() as folder:
        folders: list[Any] = [folder]
        dist.broadcast_object_list(folders)
        dcp.save(get_model_state_dict(model), checkpoint_id=Path(folders[0]) / "state")
        other = sharded(Run("plain", run.store), mlp(99))
        state = get_model_state_dict(other)
        dcp.load(state, checkpoint_id=Path(folders[0]) / "state")
        set_model_state_dict(other, state)
        dist.barrier()
    run.note("loaded", other.parameters())
    train(run, other, steps=2)


def hybrid(run: Run) -> None:
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicas", "shards"))
    train(run, sharded(run, mlp(0), mesh=mesh))


def with_tensor_parallel(run: Run) -> None:
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("dp", "tp"))
    model = nn.Sequential(*list(mlp(0))[:3], nn.Linear(24, 3))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    train(run, sharded(run, model, mesh=mesh["dp"]))


def over_a_new_group(run: Run) -> None:
    """Two halves of the world that train apart."""
    halves = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("halves", "dp"))
    train(run, sharded(run, mlp(rank // (size // 2)), mesh=halves["dp"]))


ON_TWO: dict[str, Variant] = {
    "plain": with_options(),
    "as a whole": as_a_whole,
    "kept unsharded": with_options(reshard_after_forward=False),
    "mixed precision": with_options(
        mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    ),
    "reduced in halves": with_options(
        mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    ),
    "accumulated": accumulated,
    "checkpointed": checkpointed,
    "prefetched": prefetched,
    "unsharded in the background": unsharded_in_the_background,
    "clipped": clipped,
    "compiled, aot_eager": compiled("aot_eager"),
    "compiled, inductor": compiled("inductor"),
    "saved and loaded": saved_and_loaded,
}
ON_FOUR: dict[str, Variant] = {
    "plain": with_options(),
    "hybrid": hybrid,
    "with tensor parallel": with_tensor_parallel,
    "over two groups": over_a_new_group,
}

if __name__ == "__main__":
    variants = ON_TWO if size == 2 else ON_FOUR
    run_all({name: variants[name] for name in sys.argv[1:] or variants})

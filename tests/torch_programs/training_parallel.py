"""Under torchrun: other ways to train on several ranks, each of them over three kinds of groups."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn
from torch.distributed._composable.replicate import replicate
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.nn.functional import all_reduce as differentiable_all_reduce
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel as DDP
from training_models import STEPS, WIDTH, mlp, momentum, squares, train
from training_ways import Run, Variant, rank, run_all, size

from allreduce_instrumentation import TopK, topk_sparse_allreduce


def tensor_parallel(run: Run) -> None:
    mesh = init_device_mesh("cpu", (size,))
    model = mlp(0)
    parallelize_module(
        model, mesh,
        {"0": ColwiseParallel(), "2": RowwiseParallel(), "4": ColwiseParallel(use_local_output=True)},
    )  # fmt: skip
    model[6] = parallelize_module(model[6], mesh, RowwiseParallel())
    run.watch()
    train_on_the_same(run, model)


def sequence_parallel(run: Run) -> None:
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3))
    parallelize_module(
        model, mesh,
        {
            "0": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0)),
            "1": SequenceParallel(sequence_dim=0),
            "2": ColwiseParallel(input_layouts=Shard(0), output_layouts=Replicate()),
        },
    )  # fmt: skip
    run.watch()
    train_on_the_same(run, model)


def train_on_the_same(run: Run, model: nn.Module) -> None:
    """Data that are the same on all ranks."""
    optimizer = momentum(model)
    for step in range(STEPS):
        run.begin_step()
        optimizer.zero_grad()
        torch.manual_seed(step)
        loss = squares(model, torch.randn(6, WIDTH), torch.randn(6, 3))
        loss.backward()
        optimizer.step()
        run.end_step(model, loss.detach())


def redistributed(run: Run) -> None:
    mesh = init_device_mesh("cpu", (size,))
    run.watch()
    run.begin_step()
    torch.manual_seed(0)
    whole = torch.randn(7, 5, requires_grad=True)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    columns = rows.redistribute(placements=[Shard(1)])
    sums = columns.sum(1).redistribute(placements=[Replicate()])
    sums.to_local().square().sum().backward()
    run.note("tensors", [rows, columns, sums, columns.full_tensor(), whole.grad])


def pipeline(schedule: Any, microbatches: int) -> Variant:
    def variant(run: Run) -> None:
        layers = mlp(0)
        mine = layers[:4] if rank == 0 else layers[4:]
        stage = PipelineStage(mine, rank, size, torch.device("cpu"))
        runner = schedule(stage, microbatches, loss_fn=nn.functional.mse_loss)
        run.watch()
        optimizer = momentum(mine)
        for step in range(STEPS):
            run.begin_step()
            optimizer.zero_grad()
            torch.manual_seed(step)
            inputs, targets = torch.randn(8, WIDTH), torch.randn(8, 3)
            losses: list[Tensor] = []
            if rank == 0:
                runner.step(inputs)
            else:
                runner.step(target=targets, losses=losses)
            optimizer.step()
            run.end_step(mine, sum(float(loss) for loss in losses))

    return variant


def zero_redundancy(*, overlapped: bool) -> Variant:
    def variant(run: Run) -> None:
        model = DDP(mlp())
        run.watch(model)
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.Adam, lr=0.01, parameters_as_bucket_view=overlapped
        )
        train(run, model, optimizer=optimizer)
        optimizer.consolidate_state_dict(to=0)
        if rank == 0:
            run.notes["state"] = repr(optimizer.state_dict())

    return variant


def replicated(run: Run) -> None:
    model = replicate(mlp())
    run.watch()
    train(run, model)


def sharded_the_former_way(run: Run) -> None:
    model = FullyShardedDataParallel(mlp(0), device_id=torch.device("cpu"))
    run.watch()
    train(run, model)


def averaged_now_and_then(run: Run) -> None:
    model = mlp(0)
    run.watch()
    averager = PeriodicModelAverager(period=2)
    train(run, model, before_step=lambda: averager.average_parameters(model.parameters()))
    run.note("averaged", model.parameters())


def differentiable_collective(run: Run) -> None:
    """A collective whose gradient is a collective."""

    def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return squares(lambda x: differentiable_all_reduce(model(x)), inputs, targets)  # type: ignore

    model = mlp(0)
    run.watch()
    train(run, model, loss_of=loss_of)


def functional_collective(run: Run) -> None:
    def reduce_by_hand() -> None:
        for p in model.parameters():
            p.grad = functional.all_reduce(p.grad / size, "sum", dist.group.WORLD)

    model = mlp(0)
    run.watch()
    train(run, model, before_step=reduce_by_hand)


def compiled_collective(run: Run) -> None:
    """In a compiled function: one that torch traces, and some that break its graph."""
    torch._dynamo.reset()

    @torch.compile(backend="aot_eager")
    def mean(tensor: Tensor) -> Tensor:
        total = tensor * 1.0
        dist.all_reduce(total)
        parts = [torch.empty_like(total) for _ in range(size)]
        dist.all_gather(parts, total)
        dist.broadcast(total, 0)
        return (total + parts[-1]) / (2 * size)

    def reduce_by_hand() -> None:
        whole = mean(torch.cat([p.grad.flatten() for p in model.parameters()]))
        nn.utils.vector_to_parameters(whole, [p.grad for p in model.parameters()])

    model = mlp(0)
    run.watch()
    train(run, model, before_step=reduce_by_hand)


def reduced_by_hand(run: Run) -> None:
    """All gradients at once, with operations that are under way together."""

    def reduce_by_hand() -> None:
        works = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
        for work, p in zip(works, model.parameters(), strict=True):
            work.wait()
            p.grad /= size

    model = mlp(0)
    run.watch()
    train(run, model, before_step=reduce_by_hand)


def compressed_by_hand(run: Run) -> None:
    """The all-reducers of this package, which note their own rows."""
    compressor = TopK(0.25)
    model = mlp(0)
    run.watch()

    def reduce_by_hand() -> None:
        for name, p in model.named_parameters():
            p.grad = topk_sparse_allreduce(
                p.grad, comm=dist.group.WORLD, compressor=compressor, name=name, timing_logger=run.own_logger
            )

    train(run, model, before_step=reduce_by_hand)


VARIANTS: dict[str, Variant] = {
    "tensor parallel": tensor_parallel,
    "sequence parallel": sequence_parallel,
    "redistributed": redistributed,
    "pipeline, GPipe": pipeline(ScheduleGPipe, 4),
    "pipeline, 1F1B": pipeline(Schedule1F1B, 4),
    "zero redundancy": zero_redundancy(overlapped=False),
    "zero redundancy, bucket views": zero_redundancy(overlapped=True),
    "replicated": replicated,
    "FSDP of the first kind": sharded_the_former_way,
    "averaged now and then": averaged_now_and_then,
    "differentiable collective": differentiable_collective,
    "functional collective": functional_collective,
    "compiled collective": compiled_collective,
    "reduced by hand": reduced_by_hand,
    "compressed by hand": compressed_by_hand,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    run_all({name: VARIANTS[name] for name in sys.argv[1:] or VARIANTS})

"""Any number of ranks, at least 2: mixed calls, DDP and FSDP2, in torch's flight recorder and in rows.

Argument: ``init`` for groups of init_process_group(), ``instrument`` for groups that exist before.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

os.environ["TORCH_FR_BUFFER_SIZE"] = "5000"  # read once, when the first group is made

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from _flight import BothRecorders
from _names import LACKING, all_gather_single, reduce_scatter_single
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from allreduce_instrumentation import init_process_group, instrument

torch.set_num_threads(1)
warnings.simplefilter("ignore", FutureWarning)  # of names that older torches know
recorders = BothRecorders(int(os.environ["RANK"]))
logger = recorders.logger
from_the_beginning = sys.argv[1] == "init"
if from_the_beginning:
    init_process_group("gloo", timing_logger=logger)
else:
    dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
next_rank, previous_rank = (rank + 1) % size, (rank - 1) % size
pair = dist.new_group([0, 1], group_desc="pair")
others = dist.new_group(list(range(1, size)))  # without a description
GROUPS = [group for group in (dist.group.WORLD, pair, others) if isinstance(group, dist.ProcessGroup)]


def floats(entries: int) -> torch.Tensor:
    return torch.ones(entries)


def every_collective(group: Any) -> None:
    """Each in turn, waited for at once; sizes that tell the calls apart."""
    members = dist.get_world_size(group)
    root = dist.get_global_rank(group, members - 1)
    is_root = rank == root
    dist.all_reduce(floats(3), group=group)
    dist.all_reduce(torch.ones(5, dtype=torch.float64), group=group, op=dist.ReduceOp.MAX)
    dist.broadcast(torch.ones(7, dtype=torch.int64), root, group=group)
    dist.reduce(torch.ones(9, dtype=torch.bfloat16), root, group=group)
    dist.all_gather([floats(11) for _ in range(members)], floats(11), group=group)
    all_gather_single(floats(13 * members), floats(13), group=group)
    dist.gather(floats(15), [floats(15) for _ in range(members)] if is_root else None, root, group=group)
    dist.scatter(floats(17), [floats(17) for _ in range(members)] if is_root else None, root, group=group)
    dist.all_to_all_single(floats(2 * members), floats(2 * members), group=group)
    if "all_to_all" not in LACKING:
        pieces = [[floats(3) for _ in range(members)] for _ in ("received", "sent")]
        dist.all_to_all(*pieces, group=group)
    reduce_scatter_single(floats(19), floats(19 * members), group=group)
    with logger.label(f"pieces {members}"):
        dist.reduce_scatter(floats(21), [floats(21) for _ in range(members)], group=group)
    dist.barrier(group=group)
    with logger.label("monitored"):
        dist.monitored_barrier(group=group)
    dist.all_reduce(torch.empty(0), group=group)
    dist.all_gather_object([None] * members, {"rank": rank}, group=group)
    dist.broadcast_object_list([rank] * 2, root, group=group)


def in_the_background() -> None:
    """In flight together, in three groups, and waited for in another order."""
    works: list[Any] = []
    for number in range(3):
        for group in GROUPS:
            works.append(dist.all_reduce(floats(30 + number), group=group, async_op=True))
        works.append(reduce_scatter_single(floats(4), floats(4 * size), async_op=True))
        works.append(dist.barrier(async_op=True))
    for work in reversed(works):
        work.wait()


def messages() -> None:
    """Which the flight recorder counts, and does not list."""
    if rank < 2:
        first, second = (dist.send, dist.recv) if rank == 0 else (dist.recv, dist.send)
        first(floats(6), 1 - rank, group=pair)
        dist.all_reduce(floats(1), group=pair)
        second(floats(8), 1 - rank, group=pair)
        dist.all_reduce(floats(1), group=pair)
    alone: Any = [dist.isend(floats(4), next_rank), dist.irecv(floats(4), previous_rank)]
    both = [
        dist.P2POp(dist.isend, floats(2), next_rank), dist.P2POp(dist.irecv, floats(2), previous_rank)
    ]  # fmt: skip
    for work in (*alone, *dist.batch_isend_irecv(both)):
        work.wait()
    dist.all_reduce(floats(1))


def in_one_call() -> None:
    """What torch bundles into one call of the backend."""
    dist.all_gather_coalesced([[floats(2), floats(3)] for _ in range(size)], [floats(2), floats(3)])
    with dist._coalescing_manager():
        dist.all_reduce(floats(31))
        dist.all_reduce(floats(33))
    with dist._coalescing_manager(async_ops=True) as together:
        all_gather_single(floats(5 * size), floats(5))
        all_gather_single(floats(7 * size), floats(7))
    together.wait()


def mixed() -> None:
    for group in GROUPS:
        every_collective(group)
    in_the_background()
    messages()
    in_one_call()


def called_in_cpp() -> None:
    """Functional collectives and DTensors: torch looks the group up by its name."""
    world: Any = dist.group.WORLD
    functional.all_reduce(floats(4), "sum", world).sum()
    functional.all_gather_tensor(floats(4), 0, world).sum()
    functional.reduce_scatter_tensor(floats(4 * size), "sum", 0, world).sum()
    functional.all_to_all_single(floats(2 * size), None, None, world).sum()
    functional.broadcast(floats(6), 0, world).sum()
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))
    whole = distribute_tensor(torch.arange(4.0 * size), mesh, [Shard(0)]).redistribute(mesh, [Replicate()])
    assert whole.to_local().tolist() == list(range(4 * size))


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 16), nn.Linear(16, 4))


def train(model: nn.Module, steps: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def ddp() -> None:
    model = DistributedDataParallel(layers(), bucket_cap_mb=0.001)
    if not from_the_beginning:
        results["made in C++"] = recorders.next_part()  # the model was not known yet
        instrument(logger, model)
    train(model, 4)
    with model.no_sync():
        model(torch.randn(6, 8)).sum().backward()
    train(model, 1)


def ddp_in_the_pair() -> None:
    """Two models over other groups, with a hook and without; parameters that get no gradient."""
    hooked = DistributedDataParallel(layers())
    hooked.register_comm_hook(None, mean_by_hook)
    train(hooked, 3)
    if rank < 2:
        train(DistributedDataParallel(layers(), process_group=pair, find_unused_parameters=True), 3)


def mean_by_hook(state, bucket):  # torch compares annotations, and these here are texts
    work = dist.all_reduce(bucket.buffer(), op=dist.ReduceOp.AVG, async_op=True)
    assert work is not None
    return work.get_future().then(lambda future: future.value()[0])


def fsdp() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Linear(16, 4))
    for module in (model[0], model[2], model):
        fully_shard(module)
    train(model, 3)
    if from_the_beginning:  # its sum of the norms is a functional collective
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)


RUNS: dict[str, Callable[[], None]] = {"mixed": mixed, "ddp": ddp, "fsdp": fsdp}
if from_the_beginning or hasattr(dist.ProcessGroup, "register_pre_hook"):
    RUNS |= {"called in C++": called_in_cpp, "ddp in the pair": ddp_in_the_pair}
if not from_the_beginning:
    dist.all_reduce(floats(1))
    dist.barrier(group=pair) if rank < 2 else None
    instrument(logger)

results: dict[str, Any] = {"before": recorders.next_part()}
for name, run in RUNS.items():
    run()
    results[name] = recorders.next_part()
everyone: list[Any] = [None] * size
dist.all_gather_object(everyone, results)
if rank == 0:
    print("\nRESULTS " + json.dumps(everyone), flush=True)
dist.destroy_process_group()

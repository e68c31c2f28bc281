"""On two ranks: collectives that queue in streams, and real training over them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from _scenarios import RANK, run_on_ranks
from async_device.process_group import StreamBackend
from torch import Event, Tensor, nn
from torch.distributed.distributed_c10d import _coalescing_manager
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

device = torch.asyncdev
PEER = 1 - RANK


def _of_rank(*values: float) -> Tensor:
    """Its values multiplied by 1 on rank 0 and by 2 on rank 1."""
    return torch.tensor(values, dtype=torch.float32, device="asyncdev") * (RANK + 1)


def all_reduce_in_background() -> list[Any]:
    tensor = _of_rank(1, 2)
    gate = device.hold()
    work = dist.all_reduce(tensor, async_op=True)
    early = work.is_completed()
    gate.open()
    work.wait()
    return [early, tensor.tolist(), work.is_completed()]


def wait_holds_the_stream_only() -> list[bool]:
    tensor = _of_rank(1)
    with torch.Stream():
        gate = device.hold()
        work = dist.all_reduce(tensor, async_op=True)
    went_on = not work.is_completed()
    work.wait()  # in the stream outside
    after = Event()
    after.record(device.current_stream())
    held = not after.query()
    gate.open()
    after.synchronize()
    return [went_on, held, work.is_completed()]


def synchronous_all_reduce() -> list[Any]:
    """While the group's own stream stands still, since it waits for one that is held."""
    tensor, other = _of_rank(1), _of_rank(1)
    options = dist.AllreduceOptions()
    options.asyncOp = False
    with torch.Stream():
        gate = device.hold()
        work = dist.all_reduce(other, async_op=True)
    returned = dist.group.WORLD.allreduce([tensor], options)
    found = [returned, tensor.tolist(), work.is_completed()]
    gate.open()
    return found


def stated_duration() -> float:
    tensor = _of_rank(1)
    start, end = Event(enable_timing=True), Event(enable_timing=True)
    StreamBackend.extra_ms = 20
    start.record()
    dist.all_reduce(tensor)
    end.record()
    StreamBackend.extra_ms = 0
    end.synchronize()
    return start.elapsed_time(end)


def future_of_collective() -> list[Any]:
    tensor = _of_rank(1)
    streams: list[int] = []
    marks: list[Event] = []

    def note(_: Any) -> None:
        streams.append(device.current_stream().stream_id)
        marks.append(Event())
        marks[0].record(device.current_stream())

    gate = device.hold()
    dist.all_reduce(tensor, async_op=True).get_future().add_done_callback(note)
    early = marks[0].query()
    gate.open()
    marks[0].synchronize()
    return [early, streams[0] != device.current_stream().stream_id, tensor.tolist()]


def as_nccl2() -> dict[str, Any]:
    """A group that does as ``nccl2``: its works, their futures, and how long they say that they lasted."""
    StreamBackend.as_nccl2 = True
    group = dist.new_group()
    StreamBackend.as_nccl2 = False
    group._enable_collectives_timing()
    options = dist.AllreduceOptions()
    options.asyncOp = False
    work = group.allreduce([_of_rank(1)], options)
    after = Event()
    after.record(device.current_stream())
    after.synchronize()
    found = {"name": group._get_backend(torch.device("asyncdev")).name(), "complete": work.is_completed()}
    StreamBackend.extra_ms = 20
    work = dist.all_reduce(_of_rank(1), group=group, async_op=True)
    StreamBackend.extra_ms = 0
    work.get_future()
    after = Event()
    after.record(device.current_stream())
    found["held"] = not after.query()
    after.synchronize()
    dist.destroy_process_group(group)
    return {**found, "lasted": work._get_duration() >= 20}


def barrier_holds_the_host() -> list[bool]:
    before = Event()
    device.spin(5)
    before.record(device.current_stream())
    dist.barrier(device_ids=[RANK])
    return [before.query()]


def each_collective() -> dict[str, Any]:
    found = {}
    tensor = _of_rank(1, 2)
    for name in ("SUM", "AVG", "MAX", "MIN", "PRODUCT"):
        reduced = tensor.clone()
        dist.all_reduce(reduced, getattr(dist.ReduceOp, name))
        found[name] = reduced.tolist()
    dist.broadcast(sent := tensor.clone(), 1)
    dist.reduce(rooted := tensor.clone(), 0)
    dist.all_gather(listed := [torch.empty_like(tensor) for _ in range(2)], tensor)
    dist.all_gather_into_tensor(gathered := _of_rank(0, 0, 0, 0), tensor)
    dist.reduce_scatter_tensor(scattered := _of_rank(0), tensor)
    dist.all_to_all_single(exchanged := torch.empty_like(tensor), tensor)
    found |= {
        "broadcast": sent.tolist(),
        "reduce": rooted.tolist() if RANK == 0 else None,
        "all_gather": [one.tolist() for one in listed],
        "all_gather_into_tensor": gathered.tolist(),
        "reduce_scatter_tensor": scattered.tolist(),
        "all_to_all_single": exchanged.tolist(),
    }
    return found


def messages() -> list[Any]:
    tensor = _of_rank(1)
    got = torch.zeros_like(tensor)
    if RANK == 0:
        dist.send(tensor, PEER)
        dist.recv(got, PEER)
    else:
        dist.recv(got, PEER)
        dist.send(tensor, PEER)
    pair = [dist.P2POp(dist.irecv, tensor, PEER), dist.P2POp(dist.isend, got, PEER)]
    works = dist.batch_isend_irecv(pair)
    for work in works:
        work.wait()
    return [got.tolist(), tensor.tolist(), len(works)]


def coalesced() -> list[Any]:
    first, second = _of_rank(1), _of_rank(10)
    with _coalescing_manager(async_ops=True) as together:
        dist.all_reduce(first)
        dist.all_reduce(second)
    together.wait()
    return [first.tolist(), second.tolist(), len(together.works)]


def batch_without_future() -> list[float]:
    """Nobody asks for it here."""
    tensor = _of_rank(1)
    StreamBackend.futures_of_batches = False
    with _coalescing_manager(async_ops=True) as together:
        dist.all_reduce(tensor)
    StreamBackend.futures_of_batches = True
    together.wait()
    return tensor.tolist()


def several_groups() -> list[Any]:
    group = dist.new_group([0, 1])
    alone = dist.new_group([RANK], use_local_synchronization=True)
    tensor = _of_rank(1)
    dist.all_reduce(tensor, group=group)
    dist.all_reduce(tensor, group=alone)
    objects: list[Any] = [None, None]
    dist.all_gather_object(objects, {"rank": RANK})
    return [tensor.tolist(), objects]


def _network(on: str) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(on)


def _train(model: nn.Module, on: str) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(RANK)
    for _ in range(4):
        model(torch.randn(5, 4).to(on)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def _trained_on_the_host() -> list[Tensor]:
    model = DistributedDataParallel(_network("cpu"))
    _train(model, "cpu")
    return [parameter.detach() for parameter in model.module.parameters()]


def ddp() -> bool:
    """Does it end as DDP over gloo on the host does?"""
    model = DistributedDataParallel(_network("asyncdev"), device_ids=[RANK], bucket_cap_mb=0.0001)
    _train(model, "asyncdev")
    pairs = zip(_trained_on_the_host(), model.module.parameters(), strict=True)
    return all(torch.allclose(on_host, on_device.cpu()) for on_host, on_device in pairs)


def fsdp2() -> bool:
    """Does it end as DDP over gloo on the host does?"""
    model = _network("asyncdev")
    for part in (model[0], model[2], model):
        fully_shard(part)
    _train(model, "asyncdev")
    pairs = zip(_trained_on_the_host(), model.parameters(), strict=True)
    return all(torch.allclose(on_host, on_device.full_tensor().cpu()) for on_host, on_device in pairs)


if __name__ == "__main__":
    run_on_ranks(globals())

"""On two ranks: a timed group whose backend does as ``nccl2``, torch's NCCL backend since 2.15."""

from __future__ import annotations

import gc
import os
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from _recordings import mark, ms
from _scenarios import RANK
from _timed_group import ME, lasting, lasting_from_the_wait, new_rows, run_timed
from async_device.process_group import StreamBackend
from torch import Tensor, nn
from torch.distributed import distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel

device = torch.asyncdev


def _tensor() -> Tensor:
    return torch.ones(25, device=ME)


def _summary() -> list[list[Any]]:
    """Of the new rows: operation, status, number counted from the first, whether it lasted as told."""
    rows = sorted(new_rows(), key=lambda row: (row.seq or 0, row.operation))
    first = rows[0].seq or 0
    return [[row.operation, row.status, (row.seq or 0) - first, ms(row) >= 10] for row in rows]


def synchronous_calls() -> list[Any]:
    """The second one's work is dropped, and nobody waits for it: it lies in the stream already."""
    lasting(10)
    options = dist.AllreduceOptions()
    options.asyncOp = False
    returned = dist.all_reduce(_tensor())
    has_work = dist.group.WORLD.allreduce([_tensor()], options) is not None
    gc.collect()
    device.synchronize()
    return [returned, has_work, _summary()]


def future() -> list[Any]:
    """Who asks for it, waits; who asks again or waits as well, does not wait a second time."""
    lasting(100)
    tensor = _tensor()
    gate = device.hold()  # so that nothing is over before it is waited for
    work = dist.all_reduce(tensor, async_op=True)
    work.get_future()
    after = mark()
    gate.open()
    held = not after.query()
    work.get_future().wait()
    work.wait()
    device.synchronize()
    return [held, _summary()]


class _Reducing(torch.autograd.Function):
    """Reduces in the background during the backward pass."""

    works: ClassVar[list[dist.Work]] = []

    @staticmethod
    def forward(_: Any, given: Tensor) -> Tensor:
        return given.clone()

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        _Reducing.works.append(dist.all_reduce(_tensor(), async_op=True))
        return gradient


def call_in_a_backward_pass() -> list[Any]:
    """The other rank joins once the stream has passed a mark behind the call: it could not if it waited."""
    lasting(10)
    store = c10d._get_default_store()
    if RANK == 1:
        store.wait(["passed"])
    _Reducing.apply(_tensor().requires_grad_()).sum().backward()
    mark().synchronize()
    if RANK == 0:
        store.set("passed", "")
    _Reducing.works.pop().wait()
    device.synchronize()
    return _summary()


def ddp() -> dict[str, Any]:
    """Of each bucket, the stream of the backward pass is blocked where the reducer asks for its future."""
    lasting(0)
    torch.manual_seed(0)
    layers = nn.Sequential(*(nn.Linear(16, 16) for _ in range(4)))
    model = DistributedDataParallel(layers.to(ME), bucket_cap_mb=0.0005, gradient_as_bucket_view=True)
    for _ in range(4):  # it makes its buckets anew after the first pass, and tells of them two later
        model(torch.ones(2, 16, device=ME)).sum().backward()
    device.synchronize()
    new_rows()
    with lasting_from_the_wait(10):
        model(torch.ones(2, 16, device=ME)).sum().backward()
    device.synchronize()
    rows = new_rows()
    buckets = [row for row in rows if row.operation == "IALLREDUCE"]
    waits = [row for row in rows if row.operation == "WAIT"]
    return {
        "several, with names": [row.layer_name[:4] for row in buckets] == ["ddp:"] * len(buckets) > ["ddp:"],
        "statuses": sorted({row.status for row in rows}),
        "one wait for each": sorted(row.seq or 0 for row in waits) == [row.seq for row in buckets],
        "lasted": all(ms(row) >= 10 for row in buckets),
        "blocked": all(ms(row) >= 10 for row in waits),
        "in the stream of backward": {row.stream for row in waits} == {f"asyncdev:{RANK}/0"},
    }


def durations() -> list[Any]:
    """Rows ``BACKEND``: of what is complete at the next call, and at the end of the group."""
    os.environ["TORCH_NCCL_ENABLE_TIMING"] = "1"
    group = dist.new_group()
    lasting(10)
    new_rows()
    for _ in range(2):
        dist.all_reduce(_tensor(), group=group)
        device.synchronize()
    first = [row.seq for row in new_rows() if row.operation == "BACKEND"]
    dist.all_reduce(_tensor(), group=group, async_op=True).wait()
    device.synchronize()
    dist.destroy_process_group(group)
    del os.environ["TORCH_NCCL_ENABLE_TIMING"]
    last = [row for row in new_rows() if row.operation == "BACKEND"]
    return [first, [[row.seq, row.clock, row.metadata, 10 <= ms(row) < 1000] for row in last]]


if __name__ == "__main__":
    StreamBackend.as_nccl2 = True
    run_timed(globals())

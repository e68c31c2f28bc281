"""On two ranks: timed groups, DDP, FSDP2 and the optimizer over a backend that queues in streams."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from _recordings import ms
from _scenarios import RANK
from _timed_group import LOGGER, LOGS, ME, lasting, lasting_from_the_wait, new_rows, run_timed
from torch import Stream, Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from allreduce_instrumentation import DistributedOptimizer
from timing_logger import read_timings
from timing_logger.analysis import overlap

device = torch.asyncdev


def tensor_off_the_current_device() -> list[Any]:
    """Device 2 is nobody's current one."""
    lasting(30)
    tensor = torch.ones(4, device="asyncdev:2")
    dist.all_reduce(tensor)
    with lasting_from_the_wait(30):
        dist.all_reduce(tensor, async_op=True).wait()
    found = {row.operation: [ms(row) >= 25, row.status] for row in new_rows()}
    return [found, device.current_device() == RANK]


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(16, 16) for _ in range(4)))


def _step(model: nn.Module) -> None:
    model(torch.full((2, 16), RANK + 1.0, device=ME)).sum().backward()


def streams_of_the_pool() -> list[Any]:
    """Which of the streams that torch gives to everybody hold something while DDP's buckets are reduced."""
    lasting(0)
    model = DistributedDataParallel(_model().to(ME), bucket_cap_mb=0.0005, gradient_as_bucket_view=True)
    _step(model)
    device.synchronize()
    pool = {stream.stream_id: stream for stream in (Stream(device=ME) for _ in range(32))}
    busy: set[int] = set()
    lasting(30)
    for _ in range(6):
        _step(model)
        busy |= {number for number, stream in pool.items() if not stream.query()}
        device.synchronize()
    rows = new_rows()
    return [
        len(busy),
        {row.status for row in rows if row.operation == "IALLREDUCE"} == {"ok"},
        len([row for row in rows if row.operation == "IALLREDUCE"]) >= 12,
    ]


def ddp() -> dict[str, Any]:
    """What is blocked by what: the thread of autograd's rows, and how much of the reduction is exposed."""
    lasting(60)  # far longer than a busy machine takes from a bucket to the wait for it
    model = DistributedDataParallel(_model().to(ME))
    device.synchronize()
    new_rows()
    for number in range(3):
        LOGGER.set_current_iteration(number)
        with LOGGER.record_device_operation("FORWARD"):
            device.spin(5)
        with LOGGER.record_device_operation("BACKWARD"):
            _step(model)
        device.synchronize()
    rows = new_rows()
    timings = read_timings(LOGS)
    steps = overlap(timings[(timings["rank"] == RANK) & timings["iteration"].notna()])
    of = {name: [row for row in rows if row.operation == name] for name in {row.operation for row in rows}}
    return {
        "operations": sorted(of),
        "threads": sorted({row.thread for row in rows}),
        "waits last": all(ms(row) >= 10 for row in of["WAIT"]),
        "waits lie in the stream of backward": {row.stream for row in of["WAIT"]}
        == {row.stream for row in of["BACKWARD"]},
        "backward lasts as long": all(ms(row) >= 60 for row in of["BACKWARD"]),
        "exposed": [step >= 10 for step in steps["exposed_ms"]],
        "hidden": [ratio < 0.5 for ratio in steps["overlap"]],
    }


def fsdp2() -> dict[str, Any]:
    lasting(5)
    model = _model().to(ME)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    _step(model)
    device.synchronize()
    rows = new_rows()
    gathers = [row for row in rows if row.operation.lstrip("I") == "ALLGATHER"]
    scatters = [row for row in rows if row.operation.lstrip("I") == "REDUCE_SCATTER"]
    return {
        "gathers": len(gathers) >= 4,
        "scatters": len(scatters) >= 4,
        "statuses": sorted({row.status for row in rows}),
        "in streams of their own": not {row.stream for row in gathers} & {f"asyncdev:{RANK}/0"},
        "as long as they last": all(ms(row) >= 5 for row in (*gathers, *scatters)),
    }


def coalesced() -> list[Any]:
    """Messages both ways, which the backend collects and sends to work as one."""
    lasting(10)
    there, back = torch.ones(4, device=ME), torch.zeros(4, device=ME)
    messages = [dist.P2POp(dist.isend, there, 1 - RANK), dist.P2POp(dist.irecv, back, 1 - RANK)]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    rows = new_rows()
    return [sorted(row.operation for row in rows), {row.status for row in rows} == {"ok"}, back.tolist()]


def optimizer() -> dict[str, Any]:
    """Trained over the device's group, and what one process with both halves of the data trains."""
    lasting(2)

    def data(rank: int) -> Tensor:
        return torch.full((2, 16), rank + 1.0)

    reference = _model()
    plain = torch.optim.SGD(reference.parameters(), 0.01)
    model = _model().to(ME)
    timed = DistributedOptimizer(
        torch.optim.SGD(model.parameters(), 0.01),
        model.named_parameters(),
        dist.group.WORLD,
        LOGGER,
        bucket_bytes=600,
    )
    new_rows()
    for _ in range(3):
        plain.zero_grad()
        (sum(reference(data(rank)).sum() for rank in range(2)) / 2).backward()
        plain.step()
        timed.zero_grad()
        model(data(RANK).to(ME)).sum().backward()
        timed.step()
    device.synchronize()
    rows = new_rows()
    timed.stop()
    return {
        "as one process": all(
            torch.allclose(mine.cpu(), theirs, rtol=1e-4, atol=1e-5)
            for mine, theirs in zip(model.parameters(), reference.parameters(), strict=True)
        ),
        "operations": sorted({row.operation for row in rows}),
        "clocks of the reductions": sorted({row.clock for row in rows if row.operation == "ALLREDUCE"}),
    }


if __name__ == "__main__":
    run_timed(globals())

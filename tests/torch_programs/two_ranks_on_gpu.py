"""Two ranks: reductions of CUDA tensors of which rank 1 is late, and DDP likewise.

Arguments: the backend, and where the timing files of training go.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from allreduce_instrumentation import init_process_group
from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

MS = 1_500_000  # cycles of the GPU's clock, roughly
backend, folder = sys.argv[1:]
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank % torch.cuda.device_count() if backend == "nccl" else 0)
sink = MemorySink()
logger = TimingLogger(rank, folder, sinks=[sink], world_size=2, device_timeout=30.0)
init_process_group(backend, timing_logger=logger)


def reduced(**how: Any) -> list[float]:
    tensor = torch.full((1000,), rank + 1.0, device="cuda")
    work = dist.all_reduce(tensor, **how)
    if work is not None:
        work.wait()
    torch.cuda.synchronize()
    return tensor.unique().tolist()


def rank_1_is_late(ms: int) -> None:
    if rank == 1:
        torch.cuda._sleep(ms * MS)


def reductions() -> dict[str, Any]:
    sums = [reduced(), reduced(async_op=True)]  # these make the communicator
    assert logger.flush(timeout=60)
    sink.records.clear()
    dist.barrier()
    rank_1_is_late(100)
    sums += [reduced(), reduced(async_op=True)]
    assert logger.flush(timeout=60)
    rows = [
        [row.operation, row.clock, row.status, row.seq, (row.end_ns - row.start_ns) / 1e6]
        for row in sink.records
        if row.operation != "BARRIER" and row.end_ns is not None
    ]
    return {"sums": sums, "rows": sorted(rows)}


def train() -> None:
    model = DistributedDataParallel(
        torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).cuda(), bucket_cap_mb=5
    )
    x = torch.ones(64, 1024, device="cuda")
    for step in range(13):
        logger.set_current_iteration(step)
        with logger.record_device_operation("FORWARD"):
            rank_1_is_late(50)
            loss = model(x).square().mean()
        with logger.record_device_operation("BACKWARD"):
            loss.backward()
        torch.cuda.synchronize()


everyone: list[Any] = [None, None]
dist.all_gather_object(everyone, reductions())
if backend == "nccl":
    train()
logger.close()
if rank == 0:
    print("\nRESULTS " + json.dumps(everyone), flush=True)
dist.destroy_process_group()

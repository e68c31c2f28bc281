"""Under torchrun: DistributedDataParallel, timed by our process group and traced by torch.profiler at once.

Arguments: the folder for both, and the rank that sleeps in its data phase (-1 for none).
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from allreduce_instrumentation import init_process_group
from timing_logger import init_timing_logger, shutdown_timing_logger

STEPS, WIDTH = 40, 256
DATA_S, SLOW_DATA_S = 0.004, 0.024


def main(folder: Path, slow_rank: int) -> None:
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logger = init_timing_logger(rank, folder / "timed", world_size=size)
    init_process_group("gloo", timing_logger=logger)
    model = DDP(nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(4)]), bucket_cap_mb=0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    traces = folder / "traces"
    traces.mkdir(exist_ok=True)
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        schedule=schedule(wait=0, warmup=0, active=STEPS, repeat=1),
        on_trace_ready=lambda done: done.export_chrome_trace(str(traces / f"rank{rank}.json")),
    ) as profiler:
        for step in range(STEPS):
            logger.set_current_iteration(step)
            with logger.operation("DATA"), record_function("DATA"):
                batch = torch.randn(32, WIDTH)
                time.sleep(SLOW_DATA_S if rank == slow_rank else DATA_S)  # the slow part, not a way to wait
            with logger.operation("FORWARD"):
                loss = model(batch).square().mean()
            with logger.operation("BACKWARD"):
                loss.backward()
            with logger.operation("OPTIMIZER"):
                optimizer.step()
                optimizer.zero_grad()
            profiler.step()
    shutdown_timing_logger()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

"""Processes that end right after a collective over a timed group, with gloo's threads behind them.

Arguments: how many of them, and a folder. Prints the statuses they ended with. Each is a fork that has
torch already, so that there can be many; each has one core, on which gloo's threads run last.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import allreduce_instrumentation
from timing_logger.recording.logger import TimingLogger

COUNT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])


def end_early(folder: Path) -> None:
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    allreduce_instrumentation.init_process_group(
        "gloo", timing_logger=TimingLogger(0, folder), store=dist.HashStore(), rank=0, world_size=1
    )
    run_last("pt_gloo_runloop")
    dist.all_reduce_coalesced([torch.ones(4) for _ in range(1000)])  # much to let go of
    sys.exit(0)


def run_last(name: str) -> None:
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            os.sched_setscheduler(int(task.name), os.SCHED_IDLE, os.sched_param(0))


statuses = []
for i in range(COUNT):
    child = os.fork()
    if child == 0:
        end_early(FOLDER / str(i))
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(*statuses)

"""Two ranks train over groups in C++ while threads call collectives, also as their loggers are closed.

Prints what times the groups, and the accounts of the loggers.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import allreduce_instrumentation
from allreduce_instrumentation.torch_distributed import group_library
from allreduce_instrumentation.torch_distributed.which_group import CHOSEN
from timing_logger import TimingLogger

RANKS = 2
group_library._LIMIT_S = 600.0  # a sanitizer's build takes long


def call(group: Any, rounds: int) -> None:
    tensor = torch.ones(8)
    for number in range(rounds):
        dist.all_reduce(tensor, group=group)
        works: list[Any] = [dist.all_reduce(tensor, group=group, async_op=True) for _ in range(4)]
        if number % 3 == 0:
            for work in works:
                work.wait()
        elif number % 3 == 1:
            works[0].get_future().then(lambda done: None)
            works[-1].wait()
        dist.broadcast(tensor, 0, group=group)


def begun(groups: list[Any], rounds: int) -> list[threading.Thread]:
    threads = [threading.Thread(target=call, args=(group, rounds)) for group in groups]
    for thread in threads:
        thread.start()
    return threads


def train(logger: TimingLogger) -> None:
    layers = [nn.Linear(64, 64) for _ in range(4)]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.02)
    for number in range(60):
        logger.set_current_iteration(number)
        model(torch.randn(8, 64)).sum().backward()
        if number % 10 == 0:
            with logger.label("evaluation", "loss"):
                dist.all_reduce(torch.ones(3))


def run(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    logger = TimingLogger(rank, folder, world_size=RANKS, flush_interval=0.05, pause_rows=False)
    store = dist.FileStore(str(Path(folder, "store")), RANKS)
    allreduce_instrumentation.init_process_group(
        "gloo", timing_logger=logger, store=store, rank=rank, world_size=RANKS
    )
    groups = [dist.new_group() for _ in range(3)]
    threads = begun(groups, 150)
    train(logger)
    for thread in threads:
        thread.join()
    threads = begun(groups, 60)
    logger.flush(5)
    logger.close()
    for thread in threads:
        thread.join()
    print(CHOSEN.name, logger.stats, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    group_library.library()
    with tempfile.TemporaryDirectory() as made:
        torch.multiprocessing.spawn(run, args=(made,), nprocs=RANKS)

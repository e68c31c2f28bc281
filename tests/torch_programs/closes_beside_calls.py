"""Threads call collectives over groups of this process alone while their logger is closed.

Prints how many records each run was to have, what its logger says, and its rows.
"""

from __future__ import annotations

import csv
import json
import sys
import threading
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import allreduce_instrumentation
from timing_logger import TimingLogger

torch.set_num_threads(1)
sys.setswitchinterval(1e-5)  # so that threads change places in the middle of what they do
folder, runs = Path(sys.argv[1]), int(sys.argv[2])
CALLS, THREADS = 120, 4


def call(group: Any, half_way: threading.Barrier, in_background: bool) -> None:
    tensor = torch.ones(4)
    for number in range(CALLS):
        if number == CALLS // 2:
            half_way.wait()
        work: Any = dist.all_reduce(tensor, group=group, async_op=in_background)
        if in_background:
            work.wait()


def run(number: int) -> dict[str, Any]:
    logger = TimingLogger(0, folder / str(number), world_size=1, pause_rows=False)
    allreduce_instrumentation.init_process_group(
        "gloo", timing_logger=logger, store=dist.HashStore(), rank=0, world_size=1
    )
    groups = [dist.new_group() for _ in range(THREADS)]
    before = logger.stats.accepted
    half_way = threading.Barrier(THREADS + 1)
    threads = [
        threading.Thread(target=call, args=(group, half_way, bool(which % 2)))
        for which, group in enumerate(groups)
    ]
    for thread in threads:
        thread.start()
    half_way.wait()
    logger.close()
    for thread in threads:
        thread.join()
    dist.destroy_process_group()
    assert logger.path is not None
    with logger.path.open() as file:
        rows = [(row["operation"], row["group"], row["seq"]) for row in csv.DictReader(file)]
    return {
        "made": before + CALLS * (THREADS // 2 + 2 * (THREADS // 2)),  # in the background: a call and a wait
        "accepted": logger.stats.accepted,
        "written": logger.stats.written,
        "pending": logger.stats.pending,
        "rows": len(rows),
        "twice": len(rows) - len(set(rows)),
    }


print("\nRESULTS " + json.dumps([run(number) for number in range(runs)]), flush=True)

"""Under torchrun, on two ranks: many more operations are under way at once than a group in C++ can list.

The argument is the folder of the timing files. Rank 1 comes when rank 0 has begun all.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist

from allreduce_instrumentation import init_process_group
from timing_logger import TimingLogger

OPERATIONS = 1500

rank = int(os.environ["RANK"])
with TimingLogger(rank, sys.argv[1]) as logger:
    init_process_group("gloo", timing_logger=logger)
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.wait(["all begun"])
    tensors = [torch.ones(1) for _ in range(OPERATIONS)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    if rank == 0:
        store.set("all begun", "1")
    for work in works:
        work.wait()
    dist.destroy_process_group()

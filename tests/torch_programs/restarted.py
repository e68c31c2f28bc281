"""Three ranks under ``torchrun --max-restarts 2``, which are started three times; argument: the folder.

At first rank 2 dies before it has a logger, so that its files are numbered otherwise than those of the
others; then rank 1 is killed; the third time all is well. The size of a tensor tells which time it was.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import allreduce_instrumentation
from timing_logger.recording.logger import TimingLogger

N_ITERATIONS = 5
RANK, RESTART = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])

torch.set_num_threads(1)
logger = TimingLogger(RANK, sys.argv[1], enabled=not (RESTART == 0 and RANK == 2))
# The store that the launcher keeps still has the addresses of the processes before, and gloo takes those.
allreduce_instrumentation.init_process_group(
    "gloo", timing_logger=logger, timeout=timedelta(seconds=60),
    store=dist.FileStore(f"{sys.argv[1]}.store{RESTART}", 3), rank=RANK, world_size=3,
)  # fmt: skip
for iteration in range(N_ITERATIONS):
    logger.set_current_iteration(iteration)
    dist.all_reduce(torch.ones(100 * (RESTART + 1)))
assert logger.flush(30)
dist.barrier()  # nobody ends before all have written
if (RESTART, RANK) in ((0, 2), (1, 1)):
    os.kill(os.getpid(), signal.SIGKILL)
if RESTART < 2:
    dist.barrier()  # until it fails, or the launcher ends this process
dist.destroy_process_group()
logger.close()

"""Rank 1 never enters the 13th barrier; every rank notes its process id when it is about to hang."""

import os
import sys
import time
from pathlib import Path

from mpi4py import MPI

from allreduce_instrumentation import TimedIntracomm
from timing_logger import init_timing_logger

folder = Path(sys.argv[1])
rank = MPI.COMM_WORLD.rank
init_timing_logger(rank, folder)
timed = TimedIntracomm(MPI.COMM_WORLD)
for _ in range(12):
    timed.Barrier()
(folder / f"hangs{rank}").write_text(str(os.getpid()))
if rank == 1:
    time.sleep(300)
timed.Barrier()

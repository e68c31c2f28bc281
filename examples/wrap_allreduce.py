"""Time an mpi4py call with a context manager. On any number of ranks:

mpiexec -n 4 python -m mpi4py examples/wrap_allreduce.py [LOG_DIR]
"""

import sys

import numpy as np
from mpi4py import MPI

from timing_logger import init_timing_logger

comm = MPI.COMM_WORLD
gradients = np.full(1_000_000, float(comm.rank), dtype=np.float32)
average = np.empty_like(gradients)

log_dir = sys.argv[1] if len(sys.argv) > 1 else "logs/wrap_allreduce"
with init_timing_logger(comm.rank, log_dir, world_size=comm.size) as logger:
    for iteration in range(10):
        logger.set_current_iteration(iteration)
        with logger.record_mpi_operation("ALLREDUCE", gradients.nbytes, "all layers") as timer:
            comm.Allreduce(gradients, average)
        average /= comm.size

print(f"rank {comm.rank}: {logger.stats.written} rows in {logger.path}, the last {timer.elapsed_ms:.3f} ms")

"""A small training over mpi4py, as a repository under test has it: the program of both branches of a CI job.

``jobs.py`` copies it into the folder of each branch, and changes one line of one of them. Started by
``mpiexec``, under ``timing-logger run``, which times the all-reduces.
"""

from __future__ import annotations

import time

import numpy as np
from mpi4py import MPI

from timing_logger import get_timing_logger

N_STEPS = 40
SAMPLES, FEATURES, CLASSES = 384, 768, 256


def main() -> None:
    comm, logger = MPI.COMM_WORLD, get_timing_logger()
    rng = np.random.default_rng(comm.rank)
    pool = rng.standard_normal((4, SAMPLES, FEATURES), dtype=np.float32)
    wanted = rng.standard_normal((SAMPLES, CLASSES), dtype=np.float32)
    weights = np.zeros((FEATURES, CLASSES), np.float32)
    gradient = np.empty_like(weights)
    began_s = time.perf_counter()
    for step in range(N_STEPS):
        logger.set_current_iteration(step)
        with logger.operation("DATA"):
            batch = pool[step % len(pool)] + 0.01 * rng.random((SAMPLES, FEATURES), dtype=np.float32)
        with logger.operation("FORWARD"):
            off = batch @ weights - wanted
        with logger.operation("BACKWARD"):
            own = batch.T @ off / SAMPLES
        # the mean of all ranks
        comm.Allreduce(own, gradient)
        with logger.operation("OPTIMIZER"):
            weights -= 0.1 / comm.size * gradient
    if comm.rank == 0:
        print(f"{N_STEPS} steps in {time.perf_counter() - began_s:.1f} s")


if __name__ == "__main__":
    main()

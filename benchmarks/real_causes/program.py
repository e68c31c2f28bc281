"""The job of every scenario: each rank loads, computes and reduces, and something befalls one of them.

Started by ``mpiexec``, under ``timing-logger run``. Arguments: the scenario, the seconds that it runs, and
the seed that draws when it befalls.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

from real_causes import befalls
from real_causes.computing import compute
from timing_logger import get_timing_logger

COMPUTE_MS = 10.0
ON_S, PERIOD_S = 4.0, 8.0


def main(scenario: str, seconds: float, seed: int) -> None:
    comm, logger = MPI.COMM_WORLD, get_timing_logger()
    rank, rng = comm.Get_rank(), random.Random(seed)
    befall = befalls.SCENARIOS[scenario](rank, rng)
    os.sched_setaffinity(0, {rank % (os.cpu_count() or 1)})
    gradient, reduced = np.ones(8192), np.empty(8192)
    offset_s = rng.uniform(0, PERIOD_S)
    lengths = np.random.default_rng(seed)
    comm.Barrier()
    begun_s = comm.bcast(time.time())
    step, goes_on, was_on = 0, True, False
    while goes_on:
        logger.set_current_iteration(step)
        now_s = time.time() - begun_s
        is_on = (now_s + offset_s) % PERIOD_S < ON_S
        if is_on is not was_on and befall.switched is not None:
            befall.switched(is_on)
        was_on = is_on
        work = befall.work(step, lengths)
        with logger.operation("DATA", work=work):
            compute(1.0)
            _while_on(befall.load, is_on)
        with logger.operation("FORWARD"):
            compute(COMPUTE_MS * (1.0 if work is None else work / befalls.TOKENS))
            _while_on(befall.compute, is_on)
        befall.exchange(comm, step)
        _while_on(befall.between, is_on)
        gradient[0] = now_s < seconds
        comm.Allreduce(gradient, reduced, MPI.MIN)
        goes_on, step = bool(reduced[0]), step + 1
    if befall.switched is not None:
        befall.switched(False)


def _while_on(call: Callable[[], None] | None, is_on: bool) -> None:
    if call is not None and is_on:
        call()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))

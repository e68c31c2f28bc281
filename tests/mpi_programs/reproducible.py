"""Trains a little, deterministically, and says what came out of it: of the same program, always the same.

With ``monitored`` among the arguments its logger has a monitor, which posts to the address in WEBHOOK, if
there is one, and is run by the interpreter in PYTHON. The training then ends once its folder has a file
``done``. With ``slow`` rank 1 takes twice as long as the others.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

from allreduce_instrumentation import TimedIntracomm
from timing_logger import Monitor, init_timing_logger, shutdown_timing_logger
from timing_logger.live.webhook import Webhook

_STEPS = 1000 if "slow" in sys.argv else 80
_STEP_S = 0.01

_LONGEST_S = 300

sys.executable = os.environ.get("PYTHON", sys.executable)
world = MPI.COMM_WORLD
webhooks = [Webhook("env:WEBHOOK")] if "WEBHOOK" in os.environ else []
monitor = Monitor(every_s=1.0, webhooks=webhooks) if "monitored" in sys.argv else None
step_s = 2 * _STEP_S if "slow" in sys.argv and world.rank == 1 else _STEP_S
logger = init_timing_logger(world.rank, sys.argv[1], world_size=world.size, monitor=monitor)
comm = TimedIntracomm(world, timing_logger=logger)
generator = np.random.default_rng(world.rank)
weights, gradient, total = np.zeros(1000), np.empty(1000), np.empty(1000)
began_s = time.monotonic()
for step in range(_STEPS):
    while monitor and step == _STEPS * 3 // 4 and not Path(sys.argv[1], "done").exists():
        time.sleep(0.01)
        assert time.monotonic() - began_s < _LONGEST_S, "nothing was done to the monitor"
    logger.set_current_iteration(step)
    with logger.operation("FORWARD"):
        gradient[:] = np.tanh(weights + generator.normal(size=1000))
        time.sleep(step_s)
    comm.Allreduce(gradient, total)
    weights -= 0.01 * total
shutdown_timing_logger()
if world.rank == 0:
    print("RESULT", hashlib.sha256(weights.tobytes()).hexdigest(), logger.stats.written, flush=True)

"""The job of every scenario: each rank loads, computes and reduces, and something befalls one of them.

Started by ``torchrun``, under ``timing-logger run``. Arguments: the scenario, the seconds that it runs, and
the seed that draws when it befalls. One rank computes on a core of its own. The others share the other cores:
most of what they do is done by a device, for which they sleep.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from real_causes import befalls
from real_causes.computing import compute, compute_on_a_device
from timing_logger import get_timing_logger

ON_S, PERIOD_S = 4.0, 8.0


def main(scenario: str, seconds: float, seed: int) -> None:
    torch.set_num_threads(1)
    rank, rng = int(os.environ["RANK"]), random.Random(seed)
    befall = befalls.SCENARIOS[scenario](rank, rng)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    logger = get_timing_logger()
    _pin(rank, scenario)
    computes = compute if rank == befalls.VICTIM or scenario == "crowd" else compute_on_a_device
    gradient = torch.ones(8192)
    offset_s, lengths = rng.uniform(0, PERIOD_S), np.random.default_rng(seed)
    dist.barrier()
    begun_s = time.time()
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
            time.sleep(0.0005)
            _while_on(befall.load, is_on)
        with logger.operation("FORWARD"):
            computes(befalls.COMPUTE_MS * (1.0 if work is None else work / befalls.TOKENS))
            _while_on(befall.compute, is_on)
        befall.exchange(step)
        _while_on(befall.between, is_on)
        gradient.fill_(float(now_s < seconds))
        dist.all_reduce(gradient, dist.ReduceOp.MIN)
        goes_on, step = bool(gradient[0]), step + 1
    if befall.switched is not None:
        befall.switched(False)
    dist.destroy_process_group()


def _pin(rank: int, scenario: str) -> None:
    """Give the victim the last core, and the others the rest."""
    *rest, last = sorted(os.sched_getaffinity(0))
    if scenario != "crowd" and rest:
        os.sched_setaffinity(0, {last} if rank == befalls.VICTIM else set(rest))


def _while_on(call: Callable[[], None] | None, is_on: bool) -> None:
    if call is not None and is_on:
        call()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))

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

from real_causes.befall import COMPUTE_MS, TOKENS, VICTIM
from real_causes.befalls import SCENARIOS
from real_causes.computing import compute, compute_on_a_device
from timing_logger import get_timing_logger

LEAST_S, MOST_S = 2.0, 6.0
"""For how long it befalls a rank at a time, and for how long not. It has no period: what has one goes as well
with a counter that is moved by the period, so it cannot be told from chance."""


def main(scenario: str, seconds: float, seed: int) -> None:
    torch.set_num_threads(1)
    rank, rng = int(os.environ["RANK"]), random.Random(seed)
    befall = SCENARIOS[scenario](rank, rng)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    logger = get_timing_logger()
    _pin(rank, scenario)
    usual = compute if rank == VICTIM or scenario == "crowd" else compute_on_a_device
    computes = befall.computes or usual
    gradient = torch.ones(8192)
    times, lengths = random.Random(seed), np.random.default_rng(seed)
    dist.barrier()
    begun_s = time.time()
    step, goes_on, is_on, until_s = 0, True, False, times.uniform(0, MOST_S)
    while goes_on:
        logger.set_current_iteration(step)
        now_s = time.time() - begun_s
        if now_s >= until_s:
            is_on, until_s = not is_on, until_s + times.uniform(LEAST_S, MOST_S)
            if befall.switched is not None:
                befall.switched(is_on)
        work = befall.work(step, lengths)
        with logger.operation("DATA", work=work):
            time.sleep(0.0005)
            _while_on(befall.load, is_on)
        with logger.operation("FORWARD"):
            computes(COMPUTE_MS * (1.0 if work is None else work / TOKENS))
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
        os.sched_setaffinity(0, {last} if rank == VICTIM else set(rest))


def _while_on(call: Callable[[], None] | None, is_on: bool) -> None:
    if call is not None and is_on:
        call()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))

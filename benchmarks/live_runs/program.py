"""The real job: ranks load, compute for a while, mostly asleep as if a device did it, and reduce.

Started by ``torchrun``, under ``timing-logger run --monitor``. Arguments: the length of a step in ms, how
many seconds the job has, and what happens to the last rank: ``slow SINCE_S UNTIL_S`` or ``stops SINCE_S
FOR_S``. When it happened is written into ``happened.json``, beside the timing files, in seconds since 1970.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist

from live_runs.delay import SLOWER
from timing_logger import get_timing_logger

HAPPENED = "happened.json"
OPERATIONS = {"DATA": 0.05, "FORWARD": 0.4, "BACKWARD": 0.5}
SIGMA = 0.02


class Fate:
    """What happens to the last rank, and when; it is noted when it did.

    Args:
        words: as on the command line.
        folder: where it is noted.
        is_here: whether this is the last rank.
    """

    def __init__(self, words: Sequence[str], folder: Path, *, is_here: bool) -> None:
        kind, since_s, second_s = (*words, *["none", "inf", "0"][len(words) :])
        self._slows, self._is_here, self._folder = kind == "slow", is_here, folder
        self._since_s, self._second_s = float(since_s), float(second_s)
        self._noted: dict[str, float] = {}

    def factor(self, now_s: float, step: int) -> float:
        """Return what a step takes longer that begins now."""
        is_slow = self._slows and self._since_s <= now_s < self._second_s
        if is_slow or self._noted:
            self._note("began" if is_slow else "ended", step)
        return 1 + SLOWER if is_slow and self._is_here else 1.0

    def stop(self, now_s: float, step: int) -> None:
        """Keep the last rank from the collective that all others enter, if it is time."""
        if not self._slows and now_s >= self._since_s and not self._noted:
            self._note("began", step)
            time.sleep(self._second_s if self._is_here else 0.0)

    def _note(self, what: str, step: int) -> None:
        if what not in self._noted:
            self._noted |= {what: time.time(), f"{what}_step": step}
            if self._is_here:
                (self._folder / HAPPENED).write_text(json.dumps(self._noted))


def main(step_ms: float, length_s: float, fate_words: Sequence[str]) -> None:
    torch.set_num_threads(1)
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logger, rng = get_timing_logger(), random.Random(rank)
    fate = Fate(fate_words, Path(os.environ["LIVE_LOG_DIR"]), is_here=rank == world_size - 1)
    dist.init_process_group("gloo")
    gradient, step = torch.ones(8192), 0
    dist.barrier()
    begun_s = time.monotonic()
    while gradient[0]:
        logger.set_current_iteration(step)
        now_s = time.monotonic() - begun_s
        longer = fate.factor(now_s, step)
        for name, share in OPERATIONS.items():
            with logger.operation(name):
                time.sleep(share * step_ms / 1e3 * longer * rng.lognormvariate(0.0, SIGMA))
        fate.stop(now_s, step)
        gradient.fill_(float(now_s < length_s))
        dist.all_reduce(gradient, dist.ReduceOp.MIN)
        step += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])

"""A training of four ranks whose work is sleep, with a fault or without it: what ``real.py`` runs.

Run: python -m what_if_runs.program FOLDER FAULT SEED, where FAULT is one of ``FAULTS`` or ``UNEVEN`` after
"with " or "without "; it prints how long the steps took, in ms.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing

import allreduce_instrumentation
from timing_logger import TimingLogger

RANKS, STEPS = 4, 100
_USUAL_S = {"DATA": 0.004, "FORWARD": 0.012, "BACKWARD": 0.020, "OPTIMIZER": 0.004}
_BYTES = 1_000_000
_KEPT = 100_000  # objects, which a garbage collection goes through


class Step(NamedTuple):
    """What a rank does in a step: how long each phase takes, and what comes beside."""

    phases_s: dict[str, float]
    untimed_s: float = 0.0
    save_s: float = 0.0
    collects: bool = False
    work: float = 1.0


Fault = Callable[[Step, int, int], Step]
"""Returns what a step of a rank is with a fault, from what it is without: step, rank, number of the step."""


def _longer(step: Step, phase: str, by_s: float) -> Step:
    return step._replace(phases_s={**step.phases_s, phase: step.phases_s[phase] + by_s})


def _slow(step: Step, rank: int, number: int) -> Step:
    return _longer(step, "FORWARD", 0.010) if rank == 2 else step


def _slow_later(step: Step, rank: int, number: int) -> Step:
    return _longer(step, "BACKWARD", 0.020) if rank == 2 and number >= STEPS // 2 else step


def _now_and_then(step: Step, rank: int, number: int) -> Step:
    return _longer(step, "DATA", 0.050) if rank == 2 and number % 5 == 3 else step


def _loaders_of_two(step: Step, rank: int, number: int) -> Step:
    return _longer(step, "DATA", 0.015) if rank in (1, 3) else step


def _loader_of_all(step: Step, rank: int, number: int) -> Step:
    return _longer(step, "DATA", 0.040) if number % 4 == 1 else step


def _two_ranks(step: Step, rank: int, number: int) -> Step:
    return _longer(step, "FORWARD", {1: 0.008, 3: 0.014}.get(rank, 0.0))


def _saves(step: Step, rank: int, number: int) -> Step:
    return step._replace(save_s=0.3) if rank == 0 and number % 20 == 10 else step


def _collects(step: Step, rank: int, number: int) -> Step:
    return step._replace(collects=number % 8 == 2 * rank)


def _untimed(step: Step, rank: int, number: int) -> Step:
    return step._replace(untimed_s=0.012) if rank == 1 else step


def _uneven(exponent: float) -> Fault:
    """Return that a rank has twice the work of the others, and FORWARD goes with a power of it."""

    def fault(step: Step, rank: int, number: int) -> Step:
        more = 1.6 if rank == 3 else 0.8
        phases_s = {**step.phases_s, "FORWARD": more**exponent * step.phases_s["FORWARD"]}
        return step._replace(phases_s=phases_s, work=more)

    return fault


FAULTS: dict[str, tuple[Fault, tuple[str, ...]]] = {
    "a rank slow": (_slow, ("rank=2",)),
    "a rank slow in the second half": (_slow_later, ("rank=2",)),
    "a rank slow in each fifth step": (_now_and_then, ("rank=2",)),
    "loaders of two ranks slow": (_loaders_of_two, ("operation=DATA",)),
    "loaders of all ranks slow in each fourth step": (_loader_of_all, ("operation=DATA",)),
    "two ranks slow": (_two_ranks, ("rank=1", "rank=3")),
    "rank 0 saves in each twentieth step": (_saves, ("without=SAVE",)),
    "garbage collections, of each rank at other times": (_collects, ("cause=GC",)),
    "a rank slow in code that is not timed": (_untimed, ("operation=UNLOGGED",)),
}
"""What is wrong, and what is repaired."""

UNEVEN: dict[str, tuple[Fault, tuple[str, ...]]] = {
    "a rank has twice the work, and takes as long": (_uneven(0.0), ("work=even",)),
    "a rank has twice the work, and takes 1.4 times as long": (_uneven(0.5), ("work=even",)),
    "a rank has twice the work, and takes twice as long": (_uneven(1.0), ("work=even",)),
    "a rank has twice the work, and takes four times as long": (_uneven(2.0), ("work=even",)),
}
"""Ranks with more to do than others, always: how their time goes with the work, no run tells."""


def main(folder: Path, fault: str, seed: int) -> None:
    torch.multiprocessing.spawn(_train, args=(str(folder), fault, seed), nprocs=RANKS)
    print((folder / "took_ms").read_text())


def _train(rank: int, folder: str, fault: str, seed: int) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    kept = [[] for _ in range(_KEPT)] if "garbage" in fault else []
    gc.disable()
    with TimingLogger(rank, Path(folder, "rows"), world_size=RANKS, pause_rows=True) as logger:
        store = dist.FileStore(str(Path(folder, "store")), RANKS)
        allreduce_instrumentation.init_process_group(
            "gloo", timing_logger=logger, store=store, rank=rank, world_size=RANKS
        )
        steps = _steps(rank, fault, seed)
        dist.barrier()
        began_s = time.perf_counter()
        for number, step in enumerate(steps):
            logger.set_current_iteration(number)
            _live(step, logger)
        took_ms = 1e3 * (time.perf_counter() - began_s)
        dist.destroy_process_group()
    del kept
    if rank == 0:
        Path(folder, "took_ms").write_text(str(took_ms))


def _steps(rank: int, fault: str, seed: int) -> list[Step]:
    rng = np.random.default_rng([seed, rank])
    befalls = {**FAULTS, **UNEVEN}[fault.removeprefix("with ")][0] if fault.startswith("with ") else None
    found = []
    for number in range(STEPS):
        chance = float(np.exp(rng.normal(0.0, 0.03)))
        step = Step({name: chance * usual_s for name, usual_s in _USUAL_S.items()})
        found.append(befalls(step, rank, number) if befalls else step)
    return found


def _live(step: Step, logger: TimingLogger) -> None:
    for name in ("DATA", "FORWARD", "BACKWARD"):
        with logger.operation(name, work=step.work if name == "FORWARD" else None):
            time.sleep(step.phases_s[name])
        if name == "FORWARD":
            time.sleep(step.untimed_s)
            if step.collects:
                gc.collect()
    dist.all_reduce(torch.ones(_BYTES // 4))
    with logger.operation("OPTIMIZER"):
        time.sleep(step.phases_s["OPTIMIZER"])
    if step.save_s:
        with logger.operation("SAVE"):
            time.sleep(step.save_s)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))

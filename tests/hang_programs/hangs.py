"""Four ranks that reduce step by step, until one of them does something after which nobody gets on.

Arguments: the scenario, ``mpi`` or ``gloo``, and the folder of the timing files.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from timing_logger import TimingLogger

CULPRIT = 2
HANGS_AT = 40
STEP_S = 0.05  # two seconds until then: files and sidecars tell of steps that went well
FOREVER_S = 10**6


class Ranks(Protocol):
    """The same few collectives over MPI and over torch."""

    rank: int

    def allreduce(self, length: int) -> None: ...

    def reduce(self, length: int) -> None:
        """To rank 0."""

    def barrier_of_others(self) -> None:
        """Of a second group of the same ranks."""


class MpiRanks:
    def __init__(self, logger_of: Callable[[int, int], TimingLogger]) -> None:
        from mpi4py import MPI

        from allreduce_instrumentation import TimedIntracomm

        world = MPI.COMM_WORLD
        self.rank = world.rank
        logger = logger_of(world.rank, world.size)
        self._comm = TimedIntracomm(world, timing_logger=logger)
        self._other = self._comm.Dup()
        self.logger = logger

    def allreduce(self, length: int) -> None:
        self._comm.Allreduce(np.zeros(length), np.zeros(length))

    def reduce(self, length: int) -> None:
        self._comm.Reduce(np.zeros(length), np.zeros(length))

    def barrier_of_others(self) -> None:
        self._other.Barrier()


class GlooRanks:
    def __init__(self, logger_of: Callable[[int, int], TimingLogger]) -> None:
        import torch
        import torch.distributed as dist

        from allreduce_instrumentation.torch_distributed import init_process_group

        self.rank = int(os.environ["RANK"])
        logger = logger_of(self.rank, int(os.environ["WORLD_SIZE"]))
        init_process_group("gloo", timing_logger=logger)
        self._torch, self._dist = torch, dist
        self._other = dist.new_group()
        self.logger = logger

    def allreduce(self, length: int) -> None:
        self._dist.all_reduce(self._torch.zeros(length))

    def reduce(self, length: int) -> None:
        self._dist.reduce(self._torch.zeros(length), 0)

    def barrier_of_others(self) -> None:
        self._dist.barrier(self._other)


def never_arrive(ranks: Ranks) -> None:
    threading.Event().wait(FOREVER_S)


def enter_another(ranks: Ranks) -> None:
    ranks.barrier_of_others()


def die(ranks: Ranks) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def be_stuck_in_python(ranks: Ranks) -> None:
    while True:
        pass


def be_stuck_in_c(ranks: Ranks) -> None:
    ctypes.PyDLL(None).sleep(FOREVER_S)  # which keeps the interpreter's lock


def be_stopped(ranks: Ranks) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


SCENARIOS: dict[str, Callable[[Any], None]] = {
    "never-arrives": never_arrive,
    "another-collective": enter_another,
    "died": die,
    "stuck-in-python": be_stuck_in_python,
    "stuck-in-c": be_stuck_in_c,
    "stopped": be_stopped,
}


def main(scenario: str, backend: str, log_dir: str) -> None:
    def logger_of(rank: int, size: int) -> TimingLogger:
        return TimingLogger(rank, log_dir, world_size=size, hang_after=1.0, flush_interval=0.2)

    ranks = {"mpi": MpiRanks, "gloo": GlooRanks}[backend](logger_of)
    for iteration in range(1000):
        ranks.logger.set_current_iteration(iteration)
        time.sleep(STEP_S)
        is_culprit = ranks.rank == CULPRIT
        if scenario == "another-size" and iteration == HANGS_AT:
            ranks.reduce(100_000 if is_culprit else 1_000_000)
        elif iteration == HANGS_AT and is_culprit:
            SCENARIOS[scenario](ranks)
        ranks.allreduce(100_000)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What the programs of the MPI tests share: a logger in memory, and a way to report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from typing import Any

from mpi4py import MPI

from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink


def communicators(*numbers: int) -> Iterator[MPI.Intracomm]:
    """Communicators of ``numbers`` of ranks; of every number from 1 to all, if there are none. Collective.

    First the world as a whole, then in two parts that are at work at once, cut one rank earlier each
    time; a rank gets the part that it is in. Ranks cost more to start than what they then do.
    """
    rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    wanted = set(numbers or range(1, size + 1))
    for first in range(size, (size - 1) // 2, -1):
        if wanted.isdisjoint((first, size - first)):
            continue
        part = MPI.COMM_WORLD.Split(rank >= first, rank)
        if part.size in wanted:
            yield part
        part.Free()
        _wait_asleep()


def _wait_asleep() -> None:
    """For all ranks: in a collective, who waits would keep a core from those that still work."""
    everyone = MPI.COMM_WORLD.Ibarrier()
    while not everyone.Test():
        sleep(0.01)


@contextmanager
def recording(**options: Any) -> Iterator[tuple[TimingLogger, list[Record]]]:
    """A logger of this rank and its records, which are complete after the block."""
    sink = MemorySink()
    with TimingLogger(MPI.COMM_WORLD.rank, None, sinks=[sink], **options) as logger:
        yield logger, sink.records


def report(result: Any) -> None:
    """Print every rank's result on rank 0, where the test finds it. Collective, on all ranks."""
    results = MPI.COMM_WORLD.gather(result)
    if MPI.COMM_WORLD.rank == 0:
        print("\nRESULTS " + json.dumps(results), flush=True)

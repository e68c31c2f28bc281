"""Measures what TimedIntracomm adds to mpi4py's calls, which are made bare and timed in turn in one run.

Both kinds of turn use duplicates of the same communicator, one after the other in every round, so that
the state of the machine affects both alike. The difference is taken per round, and its median is printed.

Run it with ``make bench``, or: mpiexec -n 2 python -m mpi4py benchmarks/mpi_calls.py
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI

from allreduce_instrumentation import TimedIntracomm
from timing_logger import TimingLogger

ROUNDS = 100

Call = Callable[[Any], object]


class Measured(NamedTuple):
    """Medians in ns per call: of the bare call, and of the timed minus the bare one of the same round."""

    bare_ns: float
    extra_ns: float


def exchange(nbytes: int) -> Call:
    """Return a call of one Isend, one Irecv and the Waitall for both."""
    sent, received = np.zeros(nbytes, "u1"), np.zeros(nbytes, "u1")

    def call(comm: Any) -> None:
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        MPI.Request.Waitall([comm.Irecv(received, left), comm.Isend(sent, right)])

    return call


def allreduce(nbytes: int) -> Call:
    sent, received = np.zeros(nbytes // 8), np.zeros(nbytes // 8)
    return lambda comm: comm.Allreduce(sent, received)


CALLS: dict[str, tuple[Call, int]] = {
    "Barrier": (lambda comm: comm.Barrier(), 200),
    "Allreduce, 8 B": (allreduce(8), 200),
    "Allreduce, 1 MiB": (allreduce(2**20), 20),
    "Isend + Irecv + Waitall, 8 B": (exchange(8), 200),
}
"""The calls by name, each with the number of calls per turn."""


def turn_ns(call: Call, comm: Any, times: int) -> float:
    """Return the nanoseconds per call of ``times`` calls on ``comm``."""
    start_ns = time.perf_counter_ns()
    for _ in range(times):
        call(comm)
    return (time.perf_counter_ns() - start_ns) / times


def measure(call: Call, times: int, plain: MPI.Intracomm, logger: TimingLogger) -> Measured:
    """Measure ``call`` on a bare and on a timed duplicate of ``plain``. Collective."""
    bare, timed = plain.Dup(), TimedIntracomm(plain.Dup(), timing_logger=logger)
    rounds = []
    for number in range(ROUNDS + 5):
        order = (bare, timed) if number % 2 else (timed, bare)
        took = {id(comm): turn_ns(call, comm, times) for comm in order}
        rounds.append((took[id(bare)], took[id(timed)] - took[id(bare)]))
        logger.flush(60)
        plain.Barrier()
    warm = rounds[5:]
    return Measured(statistics.median(b for b, _ in warm), statistics.median(extra for _, extra in warm))


def main() -> None:
    world = MPI.COMM_WORLD
    gc.disable()
    with (
        tempfile.TemporaryDirectory() as folder,
        TimingLogger(world.rank, folder, flush_interval=3600) as logger,
    ):
        found = {name: measure(call, times, world, logger) for name, (call, times) in CALLS.items()}
        if logger.stats.dropped:
            sys.exit("records were dropped: these figures are worthless")
    if world.rank == 0:
        print(f"{f'per call, {world.size} ranks':34} {'bare us':>10} {'timed adds us':>14} {'adds %':>8}")
        for name, (bare_ns, extra_ns) in found.items():
            print(f"{name:34} {bare_ns / 1e3:10.2f} {extra_ns / 1e3:14.2f} {100 * extra_ns / bare_ns:8.1f}")


if __name__ == "__main__":
    main()

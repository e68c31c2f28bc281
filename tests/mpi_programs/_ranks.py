"""What the programs of the MPI tests share: a logger in memory, and a way to report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mpi4py import MPI

from timing_logger.logger import TimingLogger
from timing_logger.record import Record
from timing_logger.sinks.memory import MemorySink


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

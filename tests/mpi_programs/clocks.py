"""Any number of ranks: their clocks, set apart by known offsets, measured against one rank's."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
from _clock_trials import LatePings, drifting, trials
from _ranks import recording, report
from mpi4py import MPI

from allreduce_instrumentation import TimedIntracomm, synchronise_clocks
from allreduce_instrumentation.clock_sync._mpi_link import mpi_link
from allreduce_instrumentation.clock_sync.synchronisation import measure
from timing_logger import TimingLogger
from timing_logger.errors import ConfigurationError
from timing_logger.schema.timing_files import sidecar_path

WORLD = MPI.COMM_WORLD
rank, size = WORLD.rank, WORLD.size
folder = Path(sys.argv[1])


def injected_offsets() -> dict[str, Any]:
    with mpi_link(WORLD) as link:
        return trials(link, 100)


def late_pings() -> dict[str, Any]:
    with mpi_link(WORLD) as link:
        return trials(LatePings(link), 30)


def drift() -> dict[str, Any]:
    """Two measurements of a clock that drifts, and instants before, between and after them."""
    clock = drifting(rank)
    moments = []

    def record_now() -> None:
        true_ns = perf_counter_ns()
        moments.append(true_ns)
        logger.record_interval("MARK", clock(true_ns), clock(true_ns) + 1_000)

    with TimingLogger(rank, folder / "drift") as logger, mpi_link(WORLD) as link:
        record_now()
        logger.add_clock_offset(measure(link, rank, exchanges=100, reference=0, clock=clock))
        for _ in range(100):
            record_now()
            WORLD.Barrier()
            measure(link, rank, exchanges=50, reference=0)
        logger.add_clock_offset(measure(link, rank, exchanges=100, reference=0, clock=clock))
        record_now()
    return {"moments_ns": moments}


def repeated() -> dict[str, Any]:
    """With another reference than rank 0, and a logger that is off on rank 0."""
    last = size - 1
    with TimingLogger(rank, folder / "repeated", enabled=rank > 0) as logger:
        returned = [synchronise_clocks(logger, WORLD, exchanges=10, reference=last)._asdict() for _ in "abc"]
        path = logger.path
        flushed = logger.flush()
    stated = json.loads(sidecar_path(path).read_text())["clock_offsets"] if path else None
    return {"returned": returned, "stated": stated, "flushed": flushed}


def rows() -> dict[str, Any]:
    with recording() as (logger, records):
        comm = TimedIntracomm(WORLD, timing_logger=logger)
        before = comm.collectives
        synchronise_clocks(logger, comm, exchanges=3)
        after = comm.collectives
    return {"rows": len(records), "collectives": after - before}


def open_receive() -> bool:
    """A receive from any source with any tag gets the message that it was meant for."""
    received = np.zeros(1, "i")
    request = WORLD.Irecv(received) if rank == 0 else None
    synchronise_clocks(TimingLogger(rank, enabled=False), WORLD, exchanges=3)
    if rank == size - 1:
        WORLD.Send(np.array([42], "i"), 0, tag=9)
    if request is not None:
        request.Wait()
    return rank > 0 or int(received[0]) == 42


def refused() -> dict[str, str]:
    calls: dict[str, Callable[[], Any]] = {
        "no such rank": lambda: synchronise_clocks(None, WORLD, reference=size),
        "negative": lambda: synchronise_clocks(None, WORLD, reference=-1),
        "no exchanges": lambda: synchronise_clocks(None, WORLD, exchanges=0),
        "null": lambda: synchronise_clocks(None, MPI.COMM_NULL),
        "a number": lambda: synchronise_clocks(None, 7),
        "none": lambda: synchronise_clocks(None),
    }
    return {name: _error_of(call) for name, call in calls.items()}


def _error_of(call: Callable[[], Any]) -> str:
    try:
        call()
    except ConfigurationError as error:
        return str(error)
    return "no error"


SCENARIOS = (injected_offsets, late_pings, drift, repeated, rows, open_receive, refused)
report({scenario.__name__: scenario() for scenario in SCENARIOS} | {"torch": "torch" in sys.modules})

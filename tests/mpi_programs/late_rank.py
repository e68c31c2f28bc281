"""Three ranks, the last of which comes late to each call: which calls did the others leave before that?

Each rank reports for each operation the instants at which its calls of it began and ended.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _ranks import recording, report
from mpi4py import MPI

from allreduce_instrumentation import TimedIntracomm

WORLD = MPI.COMM_WORLD
rank, size = WORLD.rank, WORLD.size


def late(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Make a call with one late rank."""
    WORLD.Barrier()
    if rank == size - 1:
        time.sleep(0.02)
    return call(*args, **kwargs)


def call_all(comm: Any, folder: str) -> None:
    late(comm.Dup)
    late(comm.Dup_with_info, MPI.INFO_NULL)
    late(comm.Split, 0, rank)
    late(comm.Split_type, MPI.COMM_TYPE_SHARED)
    late(comm.Create, comm.Get_group())
    late(comm.Create_group, comm.Get_group())
    late(late(comm.Create_cart, [size]).Sub, [True])
    late(comm.Create_graph, [1, 2, 2], [1, 0])
    late(comm.Create_dist_graph_adjacent, [0], [0])
    late(comm.Create_dist_graph, [rank], [1], [0])
    side = comm.Split(rank == 0)
    bridge = late(side.Create_intercomm, 0, comm, 1 if rank == 0 else 0)
    late(bridge.Merge)
    data = np.zeros(4)
    late(late(MPI.Win.Create, data, 8, MPI.INFO_NULL, comm).Free)
    late(late(MPI.Win.Allocate_shared, 32, 8, comm=comm).Free)
    late(late(MPI.Win.Create_dynamic, comm=comm).Free)
    win = late(MPI.Win.Allocate, 64, 8, comm=comm)
    late(win.Fence)
    win.Put(data, 0)
    late(win.Fence, MPI.MODE_NOSUCCEED)
    late(win.Free)
    file = late(MPI.File.Open, comm, str(Path(folder) / "data"), MPI.MODE_CREATE | MPI.MODE_RDWR)
    late(file.Write_at_all, rank * 32, data)
    late(file.Close)
    file = late(MPI.File.Open, comm, str(Path(folder) / "data"))
    late(file.Close)


folder = WORLD.bcast(tempfile.mkdtemp() if rank == 0 else None)
with recording() as (logger, records):
    call_all(TimedIntracomm(WORLD, timing_logger=logger), folder)
report([[r.operation, r.group, r.seq, r.start_ns, r.end_ns] for r in records])

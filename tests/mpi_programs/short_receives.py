"""Receives short messages into a large buffer in every way: as it is, or timed into the folder that is named.

Run on two ranks. Rank 0 sends, 1000 bytes each time.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from mpi4py import MPI

room, data = np.zeros(1_000_000, "b"), np.zeros(1000, "b")


def receive_in_every_way(comm: Any) -> None:
    comm.Recv(room, 0)
    comm.Recv([room, 250_000, MPI.INT], 0, status=MPI.Status())
    comm.Recv(room, MPI.ANY_SOURCE)
    comm.Irecv(room, 0).Wait()
    comm.Irecv(room, 0).Wait(MPI.Status())
    comm.Irecv(room, MPI.ANY_SOURCE).Wait()
    request = comm.Irecv(room, 0)
    while not request.Test():
        pass
    MPI.Request.Waitall([comm.Irecv(room, 0), comm.Irecv(room, 0)])
    MPI.Request.Waitany([MPI.REQUEST_NULL, comm.Irecv(room, 0)])
    MPI.Request.Waitsome([comm.Irecv(room, 0)])
    comm.Mprobe(0).Recv(room)
    comm.Mprobe(0).Irecv(room).Wait()
    persistent = comm.Recv_init(room, 0)
    for _ in range(2):
        persistent.Start()
        persistent.Wait()
    persistent.Free()
    comm.Sendrecv(data, MPI.PROC_NULL, 0, room, 0)


def all_calls(comm: Any) -> None:
    if comm.rank == 1:
        receive_in_every_way(comm)
    else:
        for _ in range(15):
            comm.Send(data, 1)
        comm.Sendrecv(data, 1, 0, room, MPI.PROC_NULL)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        from allreduce_instrumentation import TimedIntracomm
        from timing_logger import init_timing_logger, shutdown_timing_logger

        logger = init_timing_logger(MPI.COMM_WORLD.rank, sys.argv[1])
        all_calls(TimedIntracomm(MPI.COMM_WORLD, timing_logger=logger))
        shutdown_timing_logger()
    else:
        all_calls(MPI.COMM_WORLD)

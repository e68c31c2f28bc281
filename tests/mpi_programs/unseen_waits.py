"""Calls in which ranks wait for each other without sending: as it is, or timed into the folder that is named.

Run on two ranks, with a folder for the file as the last argument.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI


def communicators(comm: Any) -> None:
    """Make communicators of communicators, in every way."""
    made = [
        comm.Dup(),
        comm.Clone(),
        comm.Dup_with_info(MPI.INFO_NULL),
        comm.Split(0, comm.rank),
        comm.Split_type(MPI.COMM_TYPE_SHARED),
        comm.Create(comm.Get_group()),
        comm.Create_group(comm.Get_group()),
        comm.Create_graph([1, 2], [1, 0]),
        comm.Create_dist_graph([comm.rank], [1], [1 - comm.rank]),
        comm.Create_dist_graph_adjacent([1 - comm.rank], [1 - comm.rank]),
    ]
    grid = comm.Create_cart([2])
    alone = grid.Sub([False])
    bridge = alone.Create_intercomm(0, comm, 1 - comm.rank)
    merged = bridge.Merge()
    later, request = comm.Idup()
    request.Wait()
    merged.Barrier()
    bridge.Disconnect()
    for one in (*made, grid, alone, merged, later):
        one.Free()


def windows(comm: Any) -> None:
    """Make windows in every way, and synchronise in every way."""
    other, data = 1 - comm.rank, np.zeros(4)
    MPI.Win.Create(data, 8, MPI.INFO_NULL, comm).Free()
    MPI.Win.Allocate_shared(32, 8, comm=comm).Free()
    MPI.Win.Create_dynamic(comm=comm).Free()
    win = MPI.Win.Allocate(64, 8, MPI.INFO_NULL, comm)
    win.Fence(MPI.MODE_NOPRECEDE)
    win.Put(data, other)
    win.Fence()
    win.Lock(other)
    win.Put(data, other)
    win.Flush(other)
    win.Flush_local(other)
    win.Unlock(other)
    win.Lock_all()
    win.Put(data, other)
    win.Flush_all()
    win.Flush_local_all()
    win.Rput(data, other).Wait()
    win.Rget(data, other).Wait()
    win.Unlock_all()
    group = comm.Get_group().Incl([other])
    win.Post(group)
    win.Start(group)
    win.Put(data, other)
    win.Complete()
    win.Wait()
    win.Free()


def files(comm: Any, folder: str) -> None:
    """Read and write one file in every way that all ranks take part in."""
    name, data, room = str(Path(folder) / "data"), np.ones(1000, "b"), np.zeros(4000, "b")
    file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
    file.Set_size(0)
    file.Preallocate(2000)
    file.Set_view(comm.rank * 1000)
    file.Write_all(data)
    file.Write_at_all(0, data)
    file.Write_all_begin(data)
    file.Write_all_end(data)
    file.Sync()
    file.Set_view(1000 + comm.rank * 500)
    file.Read_at_all(0, room[:300])
    file.Read_at_all_begin(0, room[:200])
    file.Read_at_all_end(room[:200])
    file.Set_view(0)
    file.Seek_shared(0)
    file.Write_ordered(data)
    file.Iwrite_all(data).Wait()
    file.Close()
    file = MPI.File.Open(comm, name)
    file.Set_size(2000) if file.Get_amode() != MPI.MODE_RDONLY else None
    size = file.Get_size()
    file.Read_at_all(size - 10 * (comm.rank + 1), room)
    file.Close()


def all_calls(comm: Any, folder: str) -> None:
    """Call everything."""
    communicators(comm)
    windows(comm)
    files(comm, folder)
    comm.Barrier()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        from allreduce_instrumentation import TimedIntracomm
        from timing_logger import init_timing_logger, shutdown_timing_logger

        logger = init_timing_logger(MPI.COMM_WORLD.rank, sys.argv[1])
        all_calls(TimedIntracomm(MPI.COMM_WORLD, timing_logger=logger), sys.argv[2])
        shutdown_timing_logger()
    else:
        all_calls(MPI.COMM_WORLD, sys.argv[1])

"""Calls what MPI has: as it is, or timed by TimedIntracomm into the folder that is the first argument.

Run on three ranks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

REDUCTIONS = ("Allreduce", "Exscan", "Scan", "Reduce_scatter_block")


def collectives(comm: Any, way: Callable[[Any, str], Callable[..., None]]) -> None:
    """Call each collective, ``way`` saying how: blocking, nonblocking or persistent."""
    n, me, last = comm.size, comm.rank, comm.size - 1
    call = lambda name, *args: way(comm, name)(*args)  # noqa: E731
    call("Barrier")
    call("Bcast", np.zeros(3), last)
    for name in ("Allreduce", "Exscan", "Scan"):
        call(name, np.zeros(5, "i4"), np.zeros(5, "i4"))
    call("Allreduce", MPI.IN_PLACE, np.zeros(7))
    call("Reduce", np.zeros(4), np.zeros(4), MPI.SUM, last)
    call("Reduce_scatter_block", np.zeros(2 * n), np.zeros(2))
    call("Reduce_scatter", np.zeros(sum(range(1, n + 1))), np.zeros(me + 1), list(range(1, n + 1)))
    call("Allgather", np.zeros(3), np.zeros((n, 3)))
    call("Allgather", MPI.IN_PLACE, np.zeros((n, 2)))
    counts = list(range(1, n + 1))
    call("Allgatherv", np.zeros(me + 1), [np.zeros(sum(counts)), counts])
    call("Allgatherv", MPI.IN_PLACE, [np.zeros(sum(counts)), counts])
    call("Gather", np.zeros(3), np.zeros((n, 3)) if me == last else None, last)
    call("Gatherv", np.zeros(me + 1), [np.zeros(sum(counts)), counts] if me == 0 else None, 0)
    call("Scatter", np.zeros((n, 2)) if me == 0 else None, np.zeros(2), 0)
    call("Scatterv", [np.zeros(sum(counts)), counts] if me == last else None, np.zeros(me + 1), last)
    call("Alltoall", np.zeros((n, 4)), np.zeros((n, 4)))
    call("Alltoallv", [np.zeros(2 * n), [2] * n], [np.zeros(2 * n), [2] * n])
    displacements = [8 * i for i in range(n)]
    block = [np.zeros(n), ([1] * n, displacements), [MPI.DOUBLE] * n]
    call("Alltoallw", block, [np.zeros(n), ([1] * n, displacements), [MPI.DOUBLE] * n])


def neighborhoods(comm: Any, way: Callable[[Any, str], Callable[..., None]]) -> None:
    """Call the collectives of neighbourhoods in a ring, where each rank has two neighbours."""
    call = lambda name, *args: way(comm, name)(*args)  # noqa: E731
    call("Neighbor_allgather", np.zeros(3), np.zeros(6))
    call("Neighbor_allgatherv", np.zeros(3), [np.zeros(6), [3, 3]])
    call("Neighbor_alltoall", np.zeros(8), np.zeros(8))
    call("Neighbor_alltoallv", [np.zeros(4), [2, 2]], [np.zeros(4), [2, 2]])
    block = [np.zeros(2), ([1, 1], [0, 8]), [MPI.DOUBLE] * 2]
    call("Neighbor_alltoallw", block, [np.zeros(2), ([1, 1], [0, 8]), [MPI.DOUBLE] * 2])


def blocking(comm: Any, name: str) -> Callable[..., None]:
    return getattr(comm, name)  # type: ignore[no-any-return]


def in_background(comm: Any, name: str) -> Callable[..., None]:
    return lambda *args: getattr(comm, "I" + name.lower())(*args).Wait()


def persistent(comm: Any, name: str) -> Callable[..., None]:
    def twice(*args: Any) -> None:
        request = getattr(comm, name + "_init")(*args)
        for _ in range(2):
            request.Start()
            request.Wait()
        request.Free()

    return twice


def messages(comm: Any) -> None:
    """Send in a ring, in every way that MPI has."""
    n, me = comm.size, comm.rank
    right, left = (me + 1) % n, (me - 1) % n
    data, room = np.zeros(4, "i2"), np.zeros(9, "i2")
    MPI.Attach_buffer(np.zeros(10000, "u1"))
    comm.Sendrecv(data, right, 1, room, left, 1)
    comm.Sendrecv(data, right, 1, room, MPI.ANY_SOURCE, 1)
    comm.Sendrecv(data, MPI.PROC_NULL, 1, room, MPI.PROC_NULL, 1)
    comm.Sendrecv_replace(data, right, 1, left, 1)
    for send in ("Isend", "Ibsend", "Issend"):
        requests = [comm.Irecv(room, left, 2), getattr(comm, send)(data, right, 2)]
        MPI.Request.Waitall(requests)
    for send in ("Send", "Bsend", "Ssend", "Rsend"):
        waiting = comm.Irecv(room, MPI.ANY_SOURCE, 3)
        comm.Barrier()
        getattr(comm, send)(data, right, 3)
        waiting.Wait()
    request = comm.Isend(data, right, 4)
    comm.Recv(room, MPI.ANY_SOURCE, 4)
    while not request.Test():
        pass
    comm.Recv(room, MPI.PROC_NULL, 4)
    comm.Isend(data, MPI.PROC_NULL, 4).Wait()
    comm.Isendrecv(data, right, 5, room, left, 5).Wait()
    comm.Isendrecv_replace(data, right, 5, left, 5).Wait()
    several(comm, data, room, right, left)
    probes(comm, data, room, right, left)
    started(comm, data, room, right, left)
    MPI.Detach_buffer()


def several(comm: Any, data: Any, room: Any, right: int, left: int) -> None:
    """Wait for some of several requests."""
    requests = [comm.Irecv(room, left, 10 + i) for i in range(3)]
    comm.Barrier()
    for i in range(3):
        comm.Send(data, right, 10 + i)
        assert MPI.Request.Waitany(requests) == i
    requests = [comm.Irecv(room, MPI.ANY_SOURCE, 20)]
    comm.Send(data, right, 20)
    while MPI.Request.Testany(requests)[0] != 0:
        pass
    requests = [comm.Irecv(room, left, 21), MPI.REQUEST_NULL]
    comm.Send(data, right, 21)
    assert MPI.Request.Waitsome(requests) == [0]
    requests = [comm.Irecv(room, left, 22)]
    comm.Send(data, right, 22)
    while MPI.Request.Testsome(requests) != [0]:
        pass
    requests = [comm.Irecv(room, left, 23), comm.Irecv(room, MPI.ANY_SOURCE, 24)]
    comm.Send(data, right, 23)
    comm.Send(data, right, 24)
    while not MPI.Request.Testall(requests):
        pass
    request = comm.Irecv(room, left, 99)
    request.Cancel()
    request.Wait()


def probes(comm: Any, data: Any, room: Any, right: int, left: int) -> None:
    """Look for messages, and receive what matched."""
    for _ in range(4):
        comm.Send(data, right, 30)
    comm.Probe(left, 30)
    comm.Recv(room, left, 30)
    while not comm.Iprobe(MPI.ANY_SOURCE, 30):
        pass
    comm.Mprobe(left, 30).Recv(room)
    message = None
    while message is None:
        message = comm.Improbe(MPI.ANY_SOURCE, 30)
    message.Irecv(room).Wait()
    comm.Recv(room, left, 30)


def started(comm: Any, data: Any, room: Any, right: int, left: int) -> None:
    """Use persistent requests."""
    requests = [comm.Recv_init(room, MPI.ANY_SOURCE, 40), comm.Send_init(data, right, 40)]
    for _ in range(3):
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
    for request in requests:
        request.Free()


def all_calls(world: Any) -> None:
    """Call everything, over communicators of several kinds."""
    for way in (blocking, in_background, persistent):
        collectives(world, way)
        neighborhoods(world.Create_cart([world.size], [True]), way)
    named = world.Dup()
    named.Set_name("named, once")
    messages(world)
    collectives(world.Split(world.rank % 2), in_background)
    some = world.Split(world.rank == 0)
    bridge = some.Create_intercomm(0, world, 1 if world.rank == 0 else 0)
    bridge.Barrier()
    bridge.Bcast(np.zeros(2), MPI.ROOT if world.rank == 0 else 0)
    bridge.Allgather(np.zeros(2), np.zeros(2 * bridge.remote_size))
    if world.rank == 0:
        bridge.Send(np.zeros(3), 1)
    elif world.rank == 2:
        bridge.Recv(np.zeros(3), 0)
    bridge.Merge().Barrier()
    world.Dup().Barrier()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        from allreduce_instrumentation import TimedIntracomm
        from timing_logger import init_timing_logger, shutdown_timing_logger

        logger = init_timing_logger(MPI.COMM_WORLD.rank, sys.argv[1])
        all_calls(TimedIntracomm(MPI.COMM_WORLD, timing_logger=logger))
        shutdown_timing_logger()
    else:
        all_calls(MPI.COMM_WORLD)

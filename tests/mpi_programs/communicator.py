"""Any number of ranks: what TimedIntracomm does beside what the plain communicator does."""

from __future__ import annotations

import copy
import inspect
import pickle
from functools import partial
from typing import Any

import numpy as np
from _ranks import recording, report
from mpi4py import MPI

from allreduce_instrumentation import TimedIntracomm
from timing_logger.schema.record import Record

WORLD = MPI.COMM_WORLD
rank, size = WORLD.rank, WORLD.size
right, left = (rank + 1) % size, (rank - 1) % size
METHODS = ("Allreduce", "allreduce", "Allgather", "Bcast", "Send", "Recv", "Sendrecv", "Barrier")


def columns(record: Record) -> list[Any]:
    return [record.operation, record.message_size_bytes, record.seq, record.peer, record.status]


def use_everything(comm: MPI.Intracomm) -> list[Any]:
    """Every timed method once, by position and by keyword; the values that they bring."""
    mine, ring = np.full(2, rank, "i"), np.zeros(1, "i")
    total, everyone = np.zeros(2, "i"), np.zeros((size, 2), "i")
    comm.Allreduce(mine, total)
    largest = comm.allreduce(rank, op=MPI.MAX)
    comm.Allgather(sendbuf=mine, recvbuf=everyone)
    news = np.full(3, rank, "i")
    comm.Bcast(news, root=size - 1)
    comm.Sendrecv(np.array([rank], "i"), right, recvbuf=ring, source=left)
    request = MPI.Intracomm(comm).Isend(np.array([7 * rank], "i"), right, tag=5)
    passed = np.zeros(1, "i")
    comm.Recv(passed, source=left, tag=5)
    request.Wait()
    if size > 1 and rank < 2:
        comm.Send(mine, dest=1) if rank == 0 else comm.Recv(mine, 0)
    comm.Barrier()
    return [total.tolist(), largest, everyone.tolist(), news.tolist(), ring.tolist(), passed.tolist()]


def calls_and_rows() -> dict[str, Any]:
    with recording() as (logger, records):
        timed = TimedIntracomm(WORLD.Dup(), timing_logger=logger, group="everyone")
        with logger.label("layer", "test"):
            values = use_everything(timed)
    return {
        "values": values,
        "plain_values": use_everything(WORLD.Dup()),
        "rows": [columns(r) for r in records],
        "same_columns": sorted({(r.group, r.group_size, r.layer_name, r.phase, r.clock) for r in records}),
        "durations": [r.end_ns - r.start_ns for r in records],
    }


def asymmetric_messages() -> dict[str, Any]:
    """Rank 0 sends r messages to rank r; then all meet in a barrier."""
    with recording() as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        buffer = np.zeros(1)
        for other in range(1, size) if rank == 0 else [rank] if rank else []:
            for _ in range(other):
                comm.Send(buffer, other) if rank == 0 else comm.Recv(buffer, 0)
        comm.Barrier()
    return {"rows": [[r.operation, r.seq, r.peer] for r in records]}


def any_source() -> dict[str, Any]:
    """Receive without naming a source: with and without a status, by position and by keyword."""
    status = MPI.Status()
    with recording() as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        calls = (
            lambda b: comm.Recv(b),
            lambda b: comm.Recv(b, MPI.ANY_SOURCE, MPI.ANY_TAG, None),
            lambda b: comm.Recv(b, status=status),
            lambda b: comm.Recv(b, MPI.ANY_SOURCE, 3, status),
        )
        for call in calls:
            request = MPI.Intracomm(comm).Isend(np.zeros(1), right, tag=3)
            call(np.zeros(1))
            request.Wait()
        comm.Sendrecv(np.zeros(1), right, recvbuf=np.zeros(1))
        comm.Recv(np.zeros(1), MPI.PROC_NULL)
    return {
        "rows": [[r.operation, r.seq, r.peer] for r in records],
        "left": left,
        "right": right,
        "status": [status.Get_source(), status.Get_tag()],
    }


WRONG_CALLS = {
    "bad root": lambda comm: comm.Bcast(np.zeros(1), root=size + 3),
    "bad rank": lambda comm: comm.Send(np.zeros(1), size + 3),
    "no buffer": lambda comm: comm.Allreduce(np.zeros(1), object()),
    "root that is no rank": lambda comm: comm.Scatter(np.zeros(size), np.zeros(1), root=np.zeros(2)),
    "no argument": lambda comm: comm.Send(np.zeros(1)),
    "unknown keyword": lambda comm: comm.Recv(np.zeros(1), sauce=0),
    "too many arguments": lambda comm: comm.Barrier(1, 2, 3),
}


def signature(owner: type, method: str) -> str:
    return str(inspect.signature(getattr(owner, method)))


def what_it_raises(call: Any, comm: MPI.Intracomm) -> list[str]:
    try:
        call(comm)
    except MPI.Exception as error:  # whose text states addresses, with some libraries
        return [type(error).__name__, MPI.Get_error_string(error.Get_error_class())]
    except Exception as error:
        return [type(error).__name__, str(error)]
    return []


def errors() -> dict[str, Any]:
    """The wrong calls on rank 0 alone; only those that MPI refused itself may count as calls."""
    with recording() as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        for name in WRONG_CALLS if rank == 0 else ():
            if name not in ("bad root", "bad rank"):
                what_it_raises(WRONG_CALLS[name], comm)
        comm.Barrier()
        raised = {name: what_it_raises(call, comm) for name, call in WRONG_CALLS.items()}
    return {
        "raised": raised,
        "plain": {name: what_it_raises(call, WORLD) for name, call in WRONG_CALLS.items()},
        "barrier": [columns(r) for r in records if r.operation == "BARRIER" and r.status == "ok"],
        "statuses": sorted({r.status for r in records}),
    }


def sampling() -> dict[str, Any]:
    with recording(record_every_n_steps=2) as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        for iteration in range(5):
            logger.set_current_iteration(iteration)
            comm.Barrier()
            comm.Sendrecv(np.zeros(1), right, recvbuf=np.zeros(1), source=left)
    return {"rows": [[r.iteration, r.operation, r.seq] for r in records]}


class OfUsersOwn(TimedIntracomm):
    """A communicator that a user extends."""


def _pickled_in_the_place_of_constants() -> dict[str, list[Any]]:
    """Whether what is loaded is of the class, equal, and the very same; for each constant and its like."""
    found = {}
    for name in ("COMM_SELF", "COMM_WORLD"):
        plain = getattr(MPI, name)
        timed = TimedIntracomm(plain)
        setattr(MPI, name, timed)
        kinds = (timed, TimedIntracomm(timed), OfUsersOwn(timed), plain, MPI.Intracomm(timed))
        found[name] = [_copies(comm) for comm in kinds]
        setattr(MPI, name, plain)
        found[f"{name}, elsewhere"] = [_loaded_elsewhere(name, plain, timed)]
    return found


def _copies(comm: MPI.Comm) -> list[Any]:
    protocols = [partial(pickle.dumps, protocol=protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    ways = [lambda comm, dumps=dumps: pickle.loads(dumps(comm)) for dumps in protocols]
    copies = [way(comm) for way in (*ways, copy.copy, copy.deepcopy)]
    return [
        {type(one).__name__ for one in copies} == {type(comm).__name__},
        all(one == comm for one in copies),
        sorted({one is comm for one in copies}),
    ]


def _loaded_elsewhere(name: str, plain: MPI.Comm, timed: MPI.Comm) -> list[Any]:
    """Where the constant is mpi4py's own, what stood in its place arrives timed."""
    setattr(MPI, name, timed)
    content = pickle.dumps(timed)
    setattr(MPI, name, plain)
    loaded = pickle.loads(content)
    return [type(loaded) is TimedIntracomm, loaded == plain, loaded is not timed]


def identity() -> dict[str, Any]:
    with recording() as (logger, records):
        plain = WORLD.Dup()
        first, second = (TimedIntracomm(plain, timing_logger=logger) for _ in range(2))
        first.Barrier()
        second.Barrier()
        duplicate = first.Dup()
        duplicate.Barrier()
        clone = first.Clone()
        clone.Barrier()
        part = TimedIntracomm(WORLD.Split(rank % 2, rank), timing_logger=logger)
        part.Barrier()
        TimedIntracomm(WORLD, timing_logger=logger).Barrier()
    loaded = pickle.loads(pickle.dumps(TimedIntracomm(WORLD)))
    loaded.Barrier()
    in_its_place = _pickled_in_the_place_of_constants()
    return {
        "rows": [[r.group, r.group_size, r.seq] for r in records],
        "is_intracomm": isinstance(first, MPI.Intracomm),
        "equal": first == plain,
        "copy": type(duplicate).__name__,
        "in_its_place": in_its_place,
        "loaded": [type(loaded).__name__, loaded == WORLD],
        "unpicklable": what_it_raises(pickle.dumps, first)[:1],
        "unpicklable_plain": what_it_raises(pickle.dumps, plain)[:1],
        "null": [
            TimedIntracomm(MPI.COMM_NULL) == MPI.COMM_NULL,
            what_it_raises(lambda c: c.Barrier(), TimedIntracomm()),
        ],
        "null_plain": what_it_raises(lambda c: c.Barrier(), MPI.Intracomm()),
        "untimed_method": TimedIntracomm(WORLD).gather(rank) == WORLD.gather(rank),
        "signatures": [signature(TimedIntracomm, m) == signature(MPI.Intracomm, m) for m in METHODS],
    }


SCENARIOS = (calls_and_rows, asymmetric_messages, any_source, errors, sampling, identity)
report({scenario.__name__: scenario() for scenario in SCENARIOS})

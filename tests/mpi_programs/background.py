"""Any number of ranks: operations that go on in the background, each seen to complete in another way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from _ranks import recording, report
from mpi4py import MPI
from mpi4py.MPI import Request as RequestOfAnEarlyImport

from allreduce_instrumentation import TimedIntracomm
from timing_logger.schema.record import Record

WORLD = MPI.COMM_WORLD
rank, size = WORLD.rank, WORLD.size
right, left = (rank + 1) % size, (rank - 1) % size


def columns(record: Record) -> list[Any]:
    return [record.operation, record.message_size_bytes, record.seq, record.peer, record.status]


def until(done: Callable[[], Any]) -> None:
    while not done():
        pass


def some(requests: list[MPI.Request], take: Callable[..., Any]) -> None:
    """Call ``take`` until it has completed both requests."""
    completed = 0
    while completed < 2:
        result = take(requests)
        indices = result[0] if isinstance(result, tuple) else result
        completed += len(indices or ())


def any_of(requests: list[MPI.Request], take: Callable[..., Any]) -> None:
    completed = 0
    while completed < 2:
        result = take(requests)
        index = result[0] if isinstance(result, tuple) else result
        completed += index != MPI.UNDEFINED


WAYS: dict[str, Callable[[list[Any]], Any]] = {
    "Wait": lambda rs: [r.Wait() for r in rs],
    "wait": lambda rs: [r.wait() for r in rs],
    "Test": lambda rs: [until(r.Test) for r in rs],
    "test": lambda rs: [until(lambda r=r: r.test()[0]) for r in rs],
    "Waitall": lambda rs: MPI.Request.Waitall(rs),
    "waitall": lambda rs: MPI.Request.waitall(rs),
    "waitall with statuses": lambda rs: MPI.Request.waitall(rs, [MPI.Status(), MPI.Status()]),
    "Waitall of a tuple": lambda rs: MPI.Request.Waitall(tuple(rs)),
    "Waitall of the requests' class": lambda rs: type(rs[0]).Waitall(rs),
    "Waitany": lambda rs: any_of(rs, MPI.Request.Waitany),
    "waitany": lambda rs: any_of(rs, MPI.Request.waitany),
    "Waitsome": lambda rs: some(rs, MPI.Request.Waitsome),
    "waitsome": lambda rs: some(rs, MPI.Request.waitsome),
    "Testall": lambda rs: until(lambda: MPI.Request.Testall(rs)),
    "testall": lambda rs: until(lambda: MPI.Request.testall(rs)[0]),
    "Testany": lambda rs: any_of(rs, MPI.Request.Testany),
    "testany": lambda rs: any_of(rs, MPI.Request.testany),
    "Testsome": lambda rs: some(rs, MPI.Request.Testsome),
    "testsome": lambda rs: some(rs, MPI.Request.testsome),
}


def first_of_all() -> dict[str, Any]:
    """The first requests of the program, made while Waitall is being called."""
    with recording() as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        MPI.Request.Waitall([comm.Irecv(np.zeros(1), left), comm.Isend(np.zeros(1), right)])
    return {"rows": sorted([r.operation, r.status] for r in records)}


def waited_for_in_another_thread() -> list[list[str]]:
    """Operation and thread of each row of a message to this rank itself."""
    with recording() as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        requests = [comm.Irecv(np.zeros(1), rank), comm.Isend(np.zeros(1), rank)]
        waiter = threading.Thread(target=MPI.Request.Waitall, args=(requests,), name="waiter")
        waiter.start()
        waiter.join()
    return sorted([r.operation, r.thread] for r in records)


def every_way_to_complete() -> dict[str, Any]:
    found = {}
    for name, complete in WAYS.items():
        with recording() as (logger, records):
            comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
            received = np.zeros(3)
            with logger.label("layer", "test"):
                requests = [comm.Irecv(received), comm.Isend(np.full(3, float(rank)), right)]
            complete(requests)
        found[name] = {
            "rows": sorted([columns(r) for r in records], key=str),
            "received": received[0],
            "labels": sorted({(r.layer_name, r.phase) for r in records}),
            "waits_within": waits_lie_within_operations(records),
            "mpi4py_would_say": all(isinstance(r, MPI.Request) and not r for r in requests),
        }
    return found


def waits_of_all_sorts() -> dict[str, Any]:
    """By name; of requests that nobody times, or that are over; of what is no list; of wrong arguments."""
    statuses: list[MPI.Status] = []
    refused = []
    with recording() as (logger, records):
        comm, plain = TimedIntracomm(WORLD.Dup(), timing_logger=logger), WORLD.Dup()

        def exchange(n_bytes: int, over: MPI.Intracomm = comm) -> list[MPI.Request]:
            return [over.Irecv(np.zeros(9, "u1"), left), over.Isend(np.zeros(n_bytes, "u1"), right)]

        MPI.Request.Waitall(requests=exchange(1), statuses=statuses)
        timed, untimed = exchange(2), exchange(5, plain)
        MPI.Request.Waitall([untimed[0], MPI.REQUEST_NULL, *timed, untimed[1]])
        MPI.Request.Waitall(timed)
        again = timed[0].Wait() and timed[1].Test()
        requests = exchange(3)
        generator = (request for request in requests)
        for wrong in (
            lambda: MPI.Request.Waitall(generator),
            MPI.Request.Waitall,
            lambda: requests[0].Wait(5),
        ):
            try:
                wrong()
            except TypeError as error:
                refused.append(str(error))
        left_of_generator = len(list(generator))
        MPI.Request.Waitall(requests)
    return {
        "rows": [columns(r) for r in records],
        "told": [status.Get_count(MPI.BYTE) for status in statuses],
        "again": again,
        "refused": refused,
        "left_of_generator": left_of_generator,
    }


def waits_lie_within_operations(records: list[Record]) -> bool:
    operations = {(r.seq, r.peer, r.operation): r for r in records if r.operation != "WAIT"}
    waits = [r for r in records if r.operation == "WAIT"]
    return all(
        any(
            op.start_ns <= wait.start_ns <= wait.end_ns == op.end_ns
            for op in operations.values()
            if (op.seq, op.peer) == (wait.seq, wait.peer)
        )
        for wait in waits
    )


def by_position_and_by_name() -> list[list[list[Any]]]:
    """The rows of the same calls, whose arguments are given by position, by name, and in odd forms."""
    sent, received = np.zeros(3), np.zeros(3)
    ways: list[Callable[[Any], list[MPI.Request]]] = [
        lambda comm: [comm.Irecv(received, left), comm.Isend(sent, right), comm.Iallreduce(sent, received)],
        lambda comm: [
            comm.Irecv(source=left, buf=received),
            comm.Isend(dest=right, buf=sent),
            comm.Iallreduce(recvbuf=received, sendbuf=sent),
        ],
        lambda comm: [
            comm.Irecv([received, MPI.DOUBLE], np.int64(left)),
            comm.Isend([sent, 3, MPI.DOUBLE], np.int32(right)),
            comm.Iallreduce([sent, 3], [received, 3]),
        ],
    ]
    found = []
    for way in ways:
        with recording() as (logger, records):
            comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger, group="same")
            for _ in range(2):
                MPI.Request.Waitall([*way(comm), comm.Ibarrier()])
        found.append([[*columns(r), r.group, r.group_size, r.thread] for r in records])
    return found


def collectives() -> dict[str, Any]:
    """Issued in one order, waited for in another."""
    with recording() as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        total, mine = np.zeros(4), np.full(4, float(rank))
        requests = [comm.Iallreduce(mine, total), comm.Ibarrier(), comm.Ibcast(np.zeros(2), root=0)]
        comm.Barrier()
        for request in reversed(requests):
            request.Wait()
    return {"rows": [columns(r) for r in records], "total": total[0]}


def persistent() -> dict[str, Any]:
    with recording() as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        received, sent = np.zeros(2), np.zeros(2)
        requests = [comm.Recv_init(received, left), comm.Send_init(sent, right)]
        got = []
        for number in range(3):
            sent[:] = 10 * rank + number
            MPI.Prequest.Startall(requests)
            MPI.Request.Waitall(requests)
            got.append(received[0])
        requests[0].Start()
        requests[1].Start()
        requests[1].Wait()
        requests[0].Wait()
        for request in requests:
            request.Free()
        reduction = comm.Allreduce_init(sent, received)
        reduction.Start()
        reduction.Wait()
        reduction.Free()
    return {
        "rows": [columns(r) for r in records],
        "got": got,
        "prequest": isinstance(requests[0], MPI.Prequest),
        "left": left,
        "right": right,
    }


def objects() -> dict[str, Any]:
    """Pickled ones: how many bytes they have is known to senders, and to receivers."""
    thing = {"rank": 0, "list": [1, 2, 3]}
    nbytes = len(MPI.pickle.dumps(thing))
    with recording() as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        request = comm.isend(thing, dest=right, tag=1)
        got = [comm.recv(source=left, tag=1)]
        request.wait()
        request = comm.irecv(source=left, tag=2)
        comm.send(thing, right, 2)
        got.append(request.wait())
        request = comm.isend(thing, right)
        message = comm.mprobe()
        got.append(message.recv())
        request.wait()
        comm.send(lambda: None, MPI.PROC_NULL)  # nobody pickles what nobody gets
        comm.bcast(thing)
    raised = []
    for broken in (lambda: comm.send(), lambda: comm.send(thing, right, flag=1), lambda: comm.send(print)):
        try:
            broken()
        except Exception as error:
            raised.append(type(error).__name__)
    return {
        "rows": [columns(r) for r in records],
        "nbytes": nbytes,
        "got": got == [thing] * 3,
        "raised": raised,
    }


def probes() -> dict[str, Any]:
    with recording() as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        unheard = comm.Iprobe(left, tag=77), comm.improbe(left, tag=77)
        requests = [comm.Isend(np.zeros(5), right) for _ in range(3)]
        comm.Probe(left)
        comm.Recv(np.zeros(5), left)
        comm.Mprobe().Recv(np.zeros(8))
        status = MPI.Status()
        request = comm.Mprobe(left, status=status).Irecv(np.zeros(5))
        request.Wait()
        MPI.Request.Waitall(requests)
    return {
        "rows": [columns(r) for r in records if r.operation not in ("ISEND", "WAIT")],
        "unheard": unheard == (False, None),
        "status": status.Get_source() == left,
        "left": left,
    }


def unseen() -> dict[str, Any]:
    """Completed through a name of before, cancelled, freed, dropped, not recorded."""
    with recording(record_every_n_steps=2) as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        early = [comm.Irecv(np.zeros(1), left), comm.Isend(np.zeros(1), right)]
        RequestOfAnEarlyImport.Waitall(early)
        early.clear()
        cancelled = comm.Irecv(np.zeros(1), left, tag=9)
        cancelled.Cancel()
        cancelled.Wait()
        logger.set_current_iteration(1)  # not recorded
        requests = [comm.Irecv(np.zeros(1)), comm.Isend(np.zeros(1), right)]
        plain_send = type(requests[1]).__name__
        MPI.Request.Waitall(requests)
        logger.set_current_iteration(2)
        requests = [comm.Irecv(np.zeros(1)), comm.Isend(np.zeros(1), right)]
        logger.set_current_iteration(3)  # issued while recorded: written when complete
        MPI.Request.Waitall(requests)
    return {
        "rows": [[r.iteration, r.operation, r.seq, r.status, r.end_ns is None] for r in records],
        "plain_send": plain_send,
    }


def unseen_and_started_again() -> dict[str, Any]:
    with recording() as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        requests = [comm.Recv_init(np.zeros(1), left), comm.Send_init(np.zeros(1), right)]
        MPI.Prequest.Startall(requests)
        RequestOfAnEarlyImport.Waitall(requests)
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        for request in requests:
            request.Free()
    return {"rows": sorted([r.operation, r.seq, r.status] for r in records if r.operation != "WAIT")}


def off() -> dict[str, Any]:
    with recording(enabled=False) as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        requests = [comm.Isend(np.zeros(1), right), comm.Irecv(np.zeros(1), left)]
        MPI.Request.Waitall(requests)
        sending = comm.isend(
            rank, right
        )  # to itself where there is one rank: a blocking send may wait for ever
        comm.recv(source=left)
        sending.wait()
    return {"rows": len(records), "types": [type(r).__name__ for r in requests]}


CLASSES = {MPI.ERR_TRUNCATE: "MPI_ERR_TRUNCATE", MPI.ERR_RANK: "MPI_ERR_RANK"}


def failures() -> dict[str, Any]:
    """A message that does not fit, a list that holds no requests, a rank that does not exist."""
    raised = []
    with recording() as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        sent = comm.Isend(np.zeros(5), right)
        comm.Probe(left)  # the message is there: only then Open MPI is sure to notice its size
        received = comm.Irecv(np.zeros(1), left)
        actions = (
            received.Wait,
            lambda: MPI.Request.Waitall([sent, None]),
            lambda: MPI.Request.Waitall(0),
            lambda: comm.Isend(np.zeros(1), size + 5),
            lambda: comm.Isend(None, right),
        )
        for action in actions:
            try:
                action()
            except MPI.Exception as error:
                raised.append(CLASSES.get(error.Get_error_class(), "another"))
            except Exception as error:
                raised.append(type(error).__name__)
        sent.Wait()
        comm.Ibarrier().Wait()
    return {
        "raised": raised,
        "rows": [[r.operation, r.seq, r.status] for r in records if r.operation not in ("PROBE", "WAIT")],
        "waits": sorted(r.status for r in records if r.operation == "WAIT"),
    }


def derived() -> dict[str, Any]:
    """Every kind of communicator made from a timed one."""
    with recording() as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        duplicate, request = comm.Idup()
        request.Wait()
        half = comm.Split(rank % 2)
        group = comm.Get_group()
        made = {
            "Idup": duplicate,
            "Split": half,
            "Split_type": comm.Split_type(MPI.COMM_TYPE_SHARED),
            "Create": comm.Create(group),
            "Create_group": comm.Create_group(group),
            "Create_cart": comm.Create_cart([size], [True]),
            "Create_graph": comm.Create_graph(
                list(range(1, size + 1)), [(r + 1) % size for r in range(size)]
            ),
            "Create_dist_graph_adjacent": comm.Create_dist_graph_adjacent([left], [right]),
        }
        made["Sub"] = made["Create_cart"].Sub([True])
        for each in made.values():
            each.Barrier()
        neighbours = np.zeros(2)
        made["Create_cart"].Neighbor_allgather(np.full(1, rank, "d"), neighbours)
        undefined = comm.Split(MPI.UNDEFINED)
        if size > 1:
            between = half.Create_intercomm(0, comm, 1 - rank % 2)
            made["Create_intercomm"] = between
            between.Barrier()
            total = between.allreduce(rank)
            merged = made["Merge"] = between.Merge()
            merged.Barrier()
        else:
            total = 0
    return {
        "types": {name: type(each).__name__ for name, each in made.items()},
        "rows": [[r.operation, r.group, r.group_size, r.seq] for r in records],
        "neighbours": neighbours.tolist(),
        "null": undefined == MPI.COMM_NULL,
        "total": total,
    }


def scattered_to_the_other_group() -> list[Any]:
    """Rank 0 is a group of its own, and scatters a double to each of the others."""
    if size == 1:
        return []
    with recording() as (logger, records):
        comm = TimedIntracomm(WORLD.Dup(), timing_logger=logger)
        side = comm.Split(rank > 0)
        between = side.Create_intercomm(0, comm, 1 if rank == 0 else 0)
        if rank == 0:
            between.Scatter(np.arange(size - 1.0), None, root=MPI.ROOT)
        else:
            between.Scatter(None, np.zeros(1), root=0)
    return [record.message_size_bytes for record in records if record.operation == "SCATTER"]


SCENARIOS = (
    first_of_all, waited_for_in_another_thread, every_way_to_complete, waits_of_all_sorts,
    by_position_and_by_name, collectives, persistent, objects, probes, unseen, unseen_and_started_again, off,
    failures, derived, scattered_to_the_other_group,
)  # fmt: skip
report({scenario.__name__: scenario() for scenario in SCENARIOS})

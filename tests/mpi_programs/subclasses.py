"""Two ranks: what becomes of subclasses of mpi4py's communicators when they are timed."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from _ranks import recording, report
from mpi4py import MPI
from mpi4py.util import pkl5

from allreduce_instrumentation import TimedIntracomm

WORLD = MPI.COMM_WORLD
OTHER = 1 - WORLD.rank


class Doubling(MPI.Intracomm):
    """Doubles what an all-reduce gives, and takes less than mpi4py's ``bcast`` takes."""

    factor = 2

    def allreduce(self, sendobj: Any, op: MPI.Op = MPI.SUM) -> Any:
        return self.factor * super().allreduce(sendobj, op)

    def bcast(self, obj: Any) -> Any:  # type: ignore[override]
        return super().bcast(obj, 0)

    def Iallreduce(self, *args: Any, **kwargs: Any) -> Any:
        return "request", super().Iallreduce(*args, **kwargs)


def doubled(found: dict[str, Any]) -> None:
    plain = Doubling(WORLD)
    plain.name_of_mine = "kept"
    with recording() as (logger, records):
        comm = TimedIntracomm(plain, timing_logger=logger)
        found["reduced"] = [comm.allreduce(1), comm.Dup().allreduce(1)]
        found["told"] = comm.bcast(comm.rank)
        sent, total = np.ones(3), np.empty(3)  # without the global lock, mpi4py needs the former kept
        request: Any = comm.Iallreduce(sent, total)
        request[1].Wait()
        found["reduced"].append(total[0])
        again = TimedIntracomm(comm, timing_logger=logger)
        loaded = pickle.loads(pickle.dumps(comm))
    found["is"] = [isinstance(comm, kind) for kind in (Doubling, TimedIntracomm)]
    found["keeps"] = comm.name_of_mine  # type: ignore[attr-defined]
    found["same class"] = [type(other) is type(comm) for other in (again, loaded)]
    found["rows"] = [(r.operation, r.status) for r in records]


def pickled_out_of_band(found: dict[str, Any]) -> None:
    with recording() as (logger, records):
        comm = TimedIntracomm(pkl5.Intracomm(WORLD), timing_logger=logger)
        found["pkl5 gathered"] = comm.allgather(comm.rank)
        request = comm.isend(["sent by", comm.rank], OTHER)
        found["pkl5 received"] = comm.recv(source=OTHER)
        request.wait()
    found["pkl5 rows"] = [(r.operation, r.seq, r.peer, r.status) for r in records]


def main() -> None:
    found: dict[str, Any] = {}
    doubled(found)
    pickled_out_of_band(found)
    report(found)


main()

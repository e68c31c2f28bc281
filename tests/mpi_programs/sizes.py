"""One rank: the message size of every kind of buffer, beside the bytes that MPI was asked to send."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import torch
from _ranks import recording, report
from mpi4py import MPI

from allreduce_instrumentation import TimedIntracomm

INT, DOUBLE = MPI.INT, MPI.DOUBLE
ints, doubles = np.zeros(6, "i"), np.zeros(6)
every_second_int = INT.Create_vector(3, 1, 2).Commit()
address = INT.Create_struct([2], [MPI.Get_address(ints)], [INT]).Commit()
me = MPI.COMM_SELF.rank


def bcast(spec: Any) -> Any:
    return lambda comm: comm.Bcast(spec)


SIZES: dict[str, tuple[Any, int | None]] = {
    "a numpy array": (bcast(doubles), 48),
    "a part of a numpy array": (bcast(doubles[2:4]), 16),
    "an empty array": (bcast(doubles[:0]), 0),
    "bytes received into": (bcast(bytearray(5)), 5),
    "a memory view": (bcast(memoryview(doubles)), 48),
    "an array of the standard library": (bcast(array.array("d", [1.0, 2.0])), 16),
    "a torch tensor": (bcast(torch.zeros(3, dtype=torch.float64)), 24),
    "a half precision torch tensor": (bcast([torch.zeros(3, dtype=torch.float16), MPI.BYTE]), 6),
    "an MPI buffer": (bcast(MPI.buffer(bytearray(7))), 7),
    "buffer and count": (bcast([ints, 4]), 16),
    "buffer and datatype": (bcast([doubles, DOUBLE]), 48),
    "buffer and datatype's code": (bcast([doubles, "d"]), 48),
    "bytes as another datatype": (bcast([bytearray(8), INT]), 8),
    "buffer, count and datatype": (bcast([ints, 4, INT]), 16),
    "a tuple instead of a list": (bcast((ints, 4, INT)), 16),
    "count and displacement": (bcast([ints, (4, 1), INT]), 16),
    "displacement alone": (bcast([ints, (None, 2), INT]), 16),
    "four items": (bcast([ints, 4, 1, INT]), 16),
    "a datatype with holes": (bcast([ints, 1, every_second_int]), 12),
    "a datatype with holes, without a count": (bcast([np.zeros(5, "i"), every_second_int]), 12),
    "BOTTOM": (bcast([MPI.BOTTOM, 1, address]), 8),
    "Allreduce": (lambda comm: comm.Allreduce(doubles, doubles.copy()), 48),
    "Allreduce in place": (lambda comm: comm.Allreduce(MPI.IN_PLACE, doubles), 48),
    "Allreduce by keywords": (lambda comm: comm.Allreduce(recvbuf=doubles.copy(), sendbuf=doubles), 48),
    "Allgather": (lambda comm: comm.Allgather(doubles, doubles.copy()), 48),
    "Send and Recv": (lambda comm: comm.Sendrecv(doubles[:2], me, 0, doubles, me), 16),
    "Barrier": (lambda comm: comm.Barrier(), None),
    "a pickled object": (lambda comm: comm.allreduce(3), None),
    "Send to nobody": (lambda comm: comm.Send(doubles, MPI.PROC_NULL), None),
}

measured = {}
for name, (call, expected) in SIZES.items():
    with recording() as (logger, records):
        call(TimedIntracomm(MPI.COMM_SELF, timing_logger=logger))
    measured[name] = [[record.message_size_bytes for record in records], [expected]]

with recording() as (logger, records):
    received = np.zeros(10)
    comm = TimedIntracomm(MPI.COMM_SELF, timing_logger=logger)
    request = MPI.COMM_SELF.Isend(doubles, me)
    comm.Recv(received, me)
    request.Wait()
measured["a message, shorter than Recv's buffer"] = [[r.message_size_bytes for r in records], [48]]
report(measured)

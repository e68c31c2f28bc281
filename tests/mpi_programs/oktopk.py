"""oktopk_sparse_allreduce on some numbers of ranks: what it gives, leaves, and sends for it.

Arguments: which data, by its name in ``DATA``, and the numbers.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import Any

import torch
from _ranks import communicators, report
from _training import error_of, fingerprint
from mpi4py import MPI
from oktopk_data import CALLS, DATA, LENGTH, PERIODS, TIMES, USUAL, Data, generator, ordinary
from torch import Tensor

from allreduce_instrumentation import TimedIntracomm
from allreduce_instrumentation.compressors import TopK
from allreduce_instrumentation.sparse import oktopk, oktopk_sparse_allreduce
from timing_logger import TimingLogger

DTYPES = (torch.float64, torch.float32, torch.bfloat16)

vars(oktopk).update(PERIODS)


class CountingComm(TimedIntracomm):
    """Counts the entries of varying numbers that this rank sends to others, and receives."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sent = self.received = 0

    def Alltoallv(self, send: Any, receive: Any) -> None:
        self.sent += sum(send[1]) - send[1][self.rank]
        self.received += sum(receive[1]) - receive[1][self.rank]
        super().Alltoallv(send, receive)

    def Allgatherv(self, send: Any, receive: Any) -> None:
        mine = receive[1][self.rank]
        self.sent += mine * (self.size - 1)
        self.received += sum(receive[1]) - mine
        super().Allgatherv(send, receive)


def reduced(comm: CountingComm, compressor: TopK, tensor: Tensor, name: str = "layer") -> Tensor:
    return oktopk_sparse_allreduce(tensor, comm=comm, compressor=compressor, name=name)


def total(comm: CountingComm, tensor: Tensor) -> Tensor:
    everyones = torch.empty_like(tensor)
    comm.Allreduce(tensor.numpy(), everyones.numpy())
    return everyones


def mine(comm: CountingComm, call: int) -> Tensor:
    return ordinary(call, comm.rank, comm.size)


# -- checks -----------------------------------------------------------------------------------------


def over_calls(comm: CountingComm, data: Data, density: float) -> dict[str, Any]:
    """Whether nothing is lost or made up in any call, the results' fingerprint, entries that travelled."""
    compressor = TopK(density)
    left_and_given, out, prints, travelled, in_result = [], [], [], [], []
    given = came_out = torch.zeros(1, dtype=torch.float64)
    for call in range(CALLS):
        whole = data(call, comm.rank, comm.size) * TIMES
        comm.sent = comm.received = 0
        mean = reduced(comm, compressor, whole)
        travelled.append([comm.sent, comm.received])
        given, came_out = given + whole, came_out + mean * comm.size
        residual = compressor.residual("layer")
        assert residual is not None
        left_and_given.append(torch.stack([residual, given]))
        out.append(came_out)
        prints.append(fingerprint([mean]))
        in_result.append(int(mean.count_nonzero()))
    totals = total(comm, torch.stack(left_and_given))
    conserved = [torch.equal(left + came, put_in) for (left, put_in), came in zip(totals, out, strict=True)]
    k = oktopk.entries_to_keep(density, mean.numel())
    return {"conserved": conserved, "same": prints, "travelled": travelled, "in_result": in_result, "k": k}


def dense(comm: CountingComm, dtype: torch.dtype, length: int) -> list[bool]:
    """Whether density 1.0 gives the mean of all entries, exactly, call after call."""
    compressor, equal = TopK(1.0), []
    for call in range(2):
        whole = ordinary(call, comm.rank, comm.size, length, 8).clamp(-60, 60)
        summed = total(comm, whole)
        mean = ((summed if dtype == torch.float64 else summed.float()) / comm.size).to(dtype)
        equal.append(torch.equal(reduced(comm, compressor, whole.to(dtype)), mean))
    return equal


def halves(comm: CountingComm) -> dict[str, Any]:
    """bfloat16: every call's result, and whether picks that lost are in the residual with their bits."""
    compressor, prints = TopK(0.02), []
    left = torch.zeros(LENGTH)
    returned = []
    for call in range(CALLS):
        noise = torch.randn(LENGTH, generator=generator(call, comm.rank)).bfloat16()
        before = noise.float() + left
        mean = reduced(comm, compressor, noise)
        prints.append(fingerprint([mean]))
        residual = compressor.residual("layer")
        assert residual is not None
        left = residual
        outside = mean == 0
        returned.append(torch.equal(left[outside], before[outside]))
    return {"same": prints, "returned": returned, "dtype": str(mean.dtype)}


def resumed(comm: CountingComm) -> dict[str, Any]:
    """Six calls in one go, and three, a checkpoint, three more."""
    in_one_go, first = TopK(0.02), TopK(0.02)
    prints = [fingerprint([reduced(comm, in_one_go, mine(comm, call))]) for call in range(9)]
    again = [fingerprint([reduced(comm, first, mine(comm, call))]) for call in range(6)]
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = TopK(0.02)
    second.load_state_dict(torch.load(file, weights_only=True))
    again += [fingerprint([reduced(comm, second, mine(comm, call))]) for call in range(6, 9)]
    return {"in_one_go": prints, "resumed": again}


def apart(comm: CountingComm) -> dict[str, Any]:
    """The last rank has made another number of calls, or remembers another threshold."""
    found: dict[str, Any] = {}
    for name, changes in {"calls": {"calls": 7}, "thresholds": {"global_threshold": 0.5}}.items():
        compressor = TopK(0.02)
        reduced(comm, compressor, mine(comm, 0))
        agreed = compressor.state("layer")
        if comm.rank == comm.size - 1:
            compressor.set_state("layer", oktopk.replace(agreed, **changes))
        left = compressor.residual("layer")
        found[name] = error_of(lambda compressor=compressor: reduced(comm, compressor, mine(comm, 1)))
        assert left is not None
        found[name].append(torch.equal(left, compressor.residual("layer")))
        compressor.set_state("layer", agreed)
        found[name].append(fingerprint([reduced(comm, compressor, mine(comm, 1))]))
    return found


def lost_in_the_middle(comm: CountingComm) -> dict[str, Any]:
    """MPI fails on every rank, after picks were made and sent: what is remembered is as before."""
    compressor = TopK(0.02)
    reduced(comm, compressor, mine(comm, 0))
    before = compressor.state_dict()

    def fails(*_: Any) -> None:
        raise MPI.Exception(MPI.ERR_OTHER)

    comm.Allgatherv = fails  # type: ignore[method-assign]
    error = error_of(lambda: reduced(comm, compressor, mine(comm, 1)))
    del comm.Allgatherv
    after = compressor.state_dict()
    same = torch.equal(before["residuals"]["layer"], after["residuals"]["layer"])
    return {"error": error[:1], "residual": same, "state": before["states"] == after["states"]}


def results(comm: CountingComm) -> Iterator[tuple[str, Any]]:
    thorough = comm.size <= 4  # more ranks than cores make everything slow
    data = DATA[sys.argv[1]] if thorough else USUAL
    lengths = (1, max(1, comm.size - 1), comm.size + 1, LENGTH)
    yield "data", {name: over_calls(comm, of_call, 0.01) for name, of_call in data.items()}
    yield "dense", {str(dtype): [dense(comm, dtype, length) for length in lengths] for dtype in DTYPES}
    yield "halves", halves(comm)
    yield "apart", apart(comm)
    if thorough:
        yield "resumed", resumed(comm)
        yield "lost in the middle", lost_in_the_middle(comm)


def results_over(comm: MPI.Intracomm) -> dict[str, Any]:
    off = TimingLogger(comm.rank, None, enabled=False)
    return dict(results(CountingComm(comm, timing_logger=off)))


numbers = map(int, sys.argv[2:])
report([[comm.size, comm.rank, results_over(comm)] for comm in communicators(*numbers)])

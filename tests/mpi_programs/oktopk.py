"""oktopk_sparse_allreduce on real ranks: what it gives, what it leaves, and what it sends for that."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import torch
from _ranks import report
from _training import WORLD, error_of, fingerprint, rank, size
from mpi4py import MPI
from oktopk_data import CALLS, LENGTH, PECULIAR, PERIODS, TIMES, USUAL, Data, generator, ordinary
from torch import Tensor

from allreduce_instrumentation import TimedIntracomm
from allreduce_instrumentation.allreducers import oktopk, oktopk_sparse_allreduce
from allreduce_instrumentation.compressors import TopK
from timing_logger import TimingLogger

DTYPES = (torch.float64, torch.float32, torch.bfloat16)

vars(oktopk).update(PERIODS)


class CountingComm(TimedIntracomm):
    """Counts the entries of varying numbers that this rank sends to others, and receives."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sent = self.received = 0

    def Alltoallv(self, send: Any, receive: Any) -> None:
        self.sent += sum(send[1]) - send[1][rank]
        self.received += sum(receive[1]) - receive[1][rank]
        super().Alltoallv(send, receive)

    def Allgatherv(self, send: Any, receive: Any) -> None:
        mine = receive[1][rank]
        self.sent += mine * (size - 1)
        self.received += sum(receive[1]) - mine
        super().Allgatherv(send, receive)


COMM = CountingComm(WORLD, timing_logger=TimingLogger(rank, None, enabled=False))


def reduced(compressor: TopK, tensor: Tensor, name: str = "layer") -> Tensor:
    return oktopk_sparse_allreduce(tensor, comm=COMM, compressor=compressor, name=name)


def total(tensor: Tensor) -> Tensor:
    everyones = torch.empty_like(tensor)
    WORLD.Allreduce(tensor.numpy(), everyones.numpy())
    return everyones


# -- checks -----------------------------------------------------------------------------------------


def over_calls(data: Data, density: float) -> dict[str, Any]:
    """Whether nothing is lost or made up in any call, the results' fingerprint, entries that travelled."""
    compressor = TopK(density)
    conserved, prints, travelled, in_result = [], [], [], []
    given = came_out = torch.zeros(1, dtype=torch.float64)
    for call in range(CALLS):
        whole = data(call, rank, size) * TIMES
        COMM.sent = COMM.received = 0
        mean = reduced(compressor, whole)
        travelled.append([COMM.sent, COMM.received])
        given, came_out = given + whole, came_out + mean * size
        residual = compressor.residual("layer")
        assert residual is not None
        conserved.append(torch.equal(total(residual) + came_out, total(given)))
        prints.append(fingerprint([mean]))
        in_result.append(int(mean.count_nonzero()))
    k = oktopk.entries_to_keep(density, mean.numel())
    return {"conserved": conserved, "same": prints, "travelled": travelled, "in_result": in_result, "k": k}


def dense(dtype: torch.dtype, length: int) -> list[bool]:
    """Whether density 1.0 gives the mean of all entries, exactly, call after call."""
    compressor, equal = TopK(1.0), []
    for call in range(2):
        whole = ordinary(call, rank, size, length, 8).clamp(-60, 60)
        mean = (total(whole) / size if dtype == torch.float64 else total(whole).float() / size).to(dtype)
        equal.append(torch.equal(reduced(compressor, whole.to(dtype)), mean))
    return equal


def halves() -> dict[str, Any]:
    """bfloat16: every call's result, and whether picks that lost are in the residual with their bits."""
    compressor, prints = TopK(0.02), []
    left = torch.zeros(LENGTH)
    returned = []
    for call in range(CALLS):
        noise = torch.randn(LENGTH, generator=generator(call, rank)).bfloat16()
        before = noise.float() + left
        mean = reduced(compressor, noise)
        prints.append(fingerprint([mean]))
        residual = compressor.residual("layer")
        assert residual is not None
        left = residual
        outside = mean == 0
        returned.append(torch.equal(left[outside], before[outside]))
    return {"same": prints, "returned": returned, "dtype": str(mean.dtype)}


def resumed() -> dict[str, Any]:
    """Six calls in one go, and three, a checkpoint, three more."""
    in_one_go, first = TopK(0.02), TopK(0.02)
    prints = [fingerprint([reduced(in_one_go, ordinary(call, rank, size))]) for call in range(9)]
    again = [fingerprint([reduced(first, ordinary(call, rank, size))]) for call in range(6)]
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = TopK(0.02)
    second.load_state_dict(torch.load(file, weights_only=True))
    again += [fingerprint([reduced(second, ordinary(call, rank, size))]) for call in range(6, 9)]
    return {"in_one_go": prints, "resumed": again}


def apart() -> dict[str, Any]:
    """The last rank has made another number of calls, or remembers another threshold."""
    found: dict[str, Any] = {}
    for name, changes in {"calls": {"calls": 7}, "thresholds": {"global_threshold": 0.5}}.items():
        compressor = TopK(0.02)
        reduced(compressor, ordinary(0, rank, size))
        agreed = compressor.state("layer")
        if rank == size - 1:
            compressor.set_state("layer", oktopk.replace(agreed, **changes))
        left = compressor.residual("layer")
        found[name] = error_of(lambda compressor=compressor: reduced(compressor, ordinary(1, rank, size)))
        assert left is not None
        found[name].append(torch.equal(left, compressor.residual("layer")))
        compressor.set_state("layer", agreed)
        found[name].append(fingerprint([reduced(compressor, ordinary(1, rank, size))]))
    return found


def lost_in_the_middle() -> dict[str, Any]:
    """MPI fails on every rank, after picks were made and sent: what is remembered is as before."""
    compressor = TopK(0.02)
    reduced(compressor, ordinary(0, rank, size))
    before = compressor.state_dict()

    def fails(*_: Any) -> None:
        raise MPI.Exception(MPI.ERR_OTHER)

    COMM.Allgatherv = fails  # type: ignore[method-assign]
    error = error_of(lambda: reduced(compressor, ordinary(1, rank, size)))
    del COMM.Allgatherv
    after = compressor.state_dict()
    same = torch.equal(before["residuals"]["layer"], after["residuals"]["layer"])
    return {"error": error[:1], "residual": same, "state": before["states"] == after["states"]}


def descent(density: float) -> float:
    """How far from the lowest point of all ranks' mean 200 steps end, where each rank's own is elsewhere."""
    curvatures = torch.linspace(0.5, 1.0, 100, dtype=torch.float64)
    mine = torch.randn(100, generator=generator(0, rank), dtype=torch.float64)
    best = total(mine) / size
    point, compressor = torch.zeros(100, dtype=torch.float64), TopK(density)
    for step in range(200):
        point -= 2 / (step + 50) * reduced(compressor, curvatures * (point - mine), "point")
    return float((point - best).norm() / best.norm())


def results() -> Iterator[tuple[str, Any]]:
    thorough = size <= 4  # more ranks than cores make everything slow
    lengths = (1, max(1, size - 1), size + 1, LENGTH)
    yield (
        "data",
        {name: over_calls(data, 0.01) for name, data in (USUAL | (PECULIAR if thorough else {})).items()},
    )
    yield "dense", {str(dtype): [dense(dtype, length) for length in lengths] for dtype in DTYPES}
    yield "halves", halves()
    yield "apart", apart()
    if thorough:
        yield "resumed", resumed()
        yield "lost in the middle", lost_in_the_middle()
        yield "descent", [descent(density) for density in (1.0, 0.1)]


report(dict(results()))

"""How many words each rank sends and receives in oktopk_sparse_allreduce, next to what others take.

A word is a value or an index: 4 bytes here. What a rank sends comes from the logger's rows, and what it
receives from the counts that it passes to MPI; an allgather counts once per other rank. Two streams of
gradients, each with a part that all ranks share: one whose distribution stays, and one that grows by 5%
from call to call, with its largest entries wandering through the indices.

Run it on as many ranks as are of interest::

    for n in 2 4 8; do mpiexec -n $n python -m mpi4py benchmarks/oktopk_traffic.py; done
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from mpi4py import MPI
from torch import Tensor

from allreduce_instrumentation import TimedIntracomm
from allreduce_instrumentation.compressors import TopK
from allreduce_instrumentation.sparse import oktopk_sparse_allreduce, topk_sparse_allreduce
from timing_logger import TimingLogger
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

LENGTH = 500_000
CALLS = 50
DENSITIES = (0.01, 0.001)
WORD_BYTES = 4

WORLD = MPI.COMM_WORLD
RANK, RANKS = WORLD.rank, WORLD.size
OTHERS = RANKS - 1

PER_ROW: dict[str, float] = {
    "ALLTOALLV": 1,  # what a rank keeps is not in its buffer
    "ALLGATHERV": OTHERS,
    "ALLGATHER": OTHERS,
    "ALLTOALL": OTHERS / RANKS,
    "ALLREDUCE": 2 * OTHERS / RANKS,  # a ring
}
"""How often the bytes of a row are sent, by operation."""


class CountingComm(TimedIntracomm):
    """A communicator that counts the words this rank receives from others in vectors of varying lengths."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.received = 0

    def Alltoallv(self, send: Any, receive: Any) -> None:
        self.received += sum(receive[1]) - receive[1][RANK]
        super().Alltoallv(send, receive)

    def Allgatherv(self, send: Any, receive: Any) -> None:
        self.received += sum(receive[1]) - receive[1][RANK]
        super().Allgatherv(send, receive)


def stationary(call: int, shared: torch.Generator, own: torch.Generator) -> Tensor:
    return 0.5 * torch.randn(LENGTH, generator=shared) + torch.randn(LENGTH, generator=own)


def drifting(call: int, shared: torch.Generator, own: torch.Generator) -> Tensor:
    away = (torch.arange(LENGTH) - call / CALLS * LENGTH) / (LENGTH / 20)
    return stationary(call, shared, own) * (1 + 5 * (-away.square()).exp()) * 1.05**call


STREAMS = {"stationary": stationary, "drifting": drifting}


@contextmanager
def counting() -> Iterator[tuple[CountingComm, Callable[[], list[Record]]]]:
    """Give a communicator that records and counts, and a function that takes the records made so far."""
    sink = MemorySink()
    with TimingLogger(RANK, None, sinks=[sink]) as logger:

        def take() -> list[Record]:
            logger.flush(60)
            records, sink.records[:] = list(sink.records), []
            return records

        yield CountingComm(WORLD, timing_logger=logger), take


def words_sent(records: list[Record], *operations: str) -> float:
    sizes = [(PER_ROW[r.operation], r.message_size_bytes) for r in records if r.operation in operations]
    return sum(times * (size or 0) for times, size in sizes) / WORD_BYTES


def words_per_call(stream: str, density: float) -> Tensor:
    """Return one row per call: words sent and received, other words sent, entries of the result."""
    compressor = TopK(density)
    shared, own = torch.Generator().manual_seed(0), torch.Generator().manual_seed(1 + RANK)
    rows = []
    with counting() as (comm, take):
        for call in range(CALLS):
            gradient = STREAMS[stream](call, shared, own)
            comm.received = 0
            mean = oktopk_sparse_allreduce(gradient, comm=comm, compressor=compressor, name=stream)
            records = take()
            sent = words_sent(records, "ALLTOALLV", "ALLGATHERV")
            other = words_sent(records, "ALLGATHER", "ALLTOALL", "ALLREDUCE")
            rows.append([sent, comm.received, other, float(mean.count_nonzero())])
    return torch.tensor(rows)


def words_of_topk(density: float) -> float:
    """Return the number of words that a rank sends if all ranks gather all picks."""
    with counting() as (comm, take):
        topk_sparse_allreduce(torch.randn(LENGTH), comm=comm, compressor=TopK(density), name="topk")
        return words_sent([r for r in take() if not r.phase.endswith("agreement")], "ALLGATHER")


def most_of_any_rank(rows: Tensor) -> Tensor:
    most = torch.empty_like(rows)
    WORLD.Allreduce(rows.numpy(), most.numpy(), op=MPI.MAX)
    return most


def line(*cells: object) -> None:
    if RANK == 0:
        print(f"{cells[0]:<11}", *(f"{cell:>9}" for cell in cells[1:]), flush=True)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    if RANK == 0:
        print(f"{RANKS} ranks, {LENGTH:,} entries, {CALLS} calls; words per call, of the rank that has most")
        print(f"a ring that adds all entries: {2 * LENGTH * OTHERS / RANKS:,.0f}")
    line("", "", "all-", "bound:", "sent,", "", "received,", "", "other,", "result,")
    line("stream", "k", "gather", "6k(P-1)/P", "mean", "most", "mean", "most", "mean", "mean/k")
    for stream in STREAMS:
        for density in DENSITIES:
            k = round(density * LENGTH)
            rows = most_of_any_rank(words_per_call(stream, density))
            mean, most = rows.mean(0).tolist(), rows.amax(0).tolist()
            numbers = [words_of_topk(density), 6 * k * OTHERS / RANKS]
            numbers += [mean[0], most[0], mean[1], most[1], mean[2]]
            line(stream, k, *(f"{number:,.0f}" for number in numbers), f"{mean[3] / k:.2f}")


if __name__ == "__main__":
    main()

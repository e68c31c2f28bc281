"""An all-reducer's transport between threads of one process, for tests with very many small inputs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from limits import LIMIT_S
from torch import Tensor

T = TypeVar("T")


class ThreadTransport:
    """The part of a ``Transport`` that Ok-Topk uses, for one rank; it counts the entries that travel.

    Attributes:
        sent, received: entries in vectors of varying lengths. A part of an allgather counts once for each
            other rank; what a rank keeps for itself does not count.
    """

    device = torch.device("cpu")

    def __init__(self, rank: int, table: list[Any], barrier: threading.Barrier) -> None:
        self.rank, self.size = rank, len(table)
        self._table, self._barrier = table, barrier
        self.sent = self.received = 0

    def allreduce(self, tensor: Tensor, what: str) -> Tensor:
        return torch.stack(self._everyones(tensor)).sum(0)

    def allgather(self, tensor: Tensor, what: str) -> Tensor:
        return torch.stack(self._everyones(tensor))

    def allgatherv(self, tensor: Tensor, counts: Sequence[int], what: str) -> list[Tensor]:
        parts = self._everyones(tensor)
        assert [part.numel() for part in parts] == list(counts)
        self.sent += tensor.numel() * (self.size - 1)
        self.received += sum(counts) - tensor.numel()
        return parts

    def alltoall(self, tensor: Tensor, what: str) -> Tensor:
        return torch.cat([blocks[self.rank] for blocks in self._everyones(tensor.chunk(self.size))])

    def alltoallv(
        self, tensor: Tensor, send_counts: Sequence[int], receive_counts: Sequence[int], what: str
    ) -> list[Tensor]:
        blocks = [blocks[self.rank] for blocks in self._everyones(tensor.split(list(send_counts)))]
        assert [block.numel() for block in blocks] == list(receive_counts)
        self.sent += sum(send_counts) - send_counts[self.rank]
        self.received += sum(receive_counts) - receive_counts[self.rank]
        return blocks

    def _everyones(self, mine: T) -> list[T]:
        self._table[self.rank] = mine
        self._barrier.wait()
        everyones = list(self._table)
        self._barrier.wait()  # all have read before any writes again
        return everyones


def on_threads(ranks: int, program: Callable[[ThreadTransport], T]) -> list[T]:
    """Run ``program`` on ``ranks`` threads, and return what it returns on each; raise if it raises on one."""
    barrier = threading.Barrier(ranks, timeout=LIMIT_S)
    table: list[Any] = [None] * ranks

    def run(rank: int) -> T:
        try:
            return program(ThreadTransport(rank, table, barrier))
        except threading.BrokenBarrierError:
            raise
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(ranks) as pool:
        futures = [pool.submit(run, rank) for rank in range(ranks)]
    errors = [error for future in futures if (error := future.exception())]
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    return [future.result() for future in futures]

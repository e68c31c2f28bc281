"""An all-reducer's transport between threads of one process, for tests with very many small inputs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from queue import SimpleQueue
from typing import Any, TypeVar

import torch
from limits import LIMIT_S
from torch import Tensor

T = TypeVar("T")
Mail = dict[tuple[int, int], SimpleQueue[Tensor]]
"""From sender and receiver to the messages on their way."""


class ThreadTransport:
    """The part of a ``Transport`` that sparse all-reduces use, for one rank; it counts what travels.

    Attributes:
        sent, received: entries in vectors of varying lengths. A part of an allgather counts once for each
            other rank; what a rank keeps for itself does not count.
        messages: what was sent to or received from one rank: ``("to" or "from", rank, what)``.
    """

    device = torch.device("cpu")

    def __init__(self, rank: int, table: list[Any], barrier: threading.Barrier, mail: Mail) -> None:
        self.rank, self.size = rank, len(table)
        self._table, self._barrier, self._mail = table, barrier, mail
        self.sent = self.received = 0
        self.messages: list[tuple[str, int, str]] = []

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

    def send(self, tensor: Tensor, to: int, what: str) -> None:
        self.messages.append(("to", to, what))
        self._mail[self.rank, to].put(tensor.clone())

    def recv(self, count: int, dtype: torch.dtype, source: int, what: str) -> Tensor:
        self.messages.append(("from", source, what))
        tensor = self._mail[source, self.rank].get(timeout=LIMIT_S)
        assert (tensor.numel(), tensor.dtype) == (count, dtype)
        return tensor

    def broadcast(self, tensor: Tensor, root: int, what: str) -> None:
        roots = self._everyones(tensor.clone())[root]
        assert roots.dtype == tensor.dtype
        tensor.copy_(roots)

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
    mail: Mail = {pair: SimpleQueue() for pair in product(range(ranks), repeat=2)}

    def run(rank: int) -> T:
        try:
            return program(ThreadTransport(rank, table, barrier, mail))
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

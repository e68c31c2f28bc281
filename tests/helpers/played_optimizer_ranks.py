"""The ranks of an optimizer, of which this process is one and a test plays the others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import torch

V = TypeVar("V")


class PlayedRanks:
    """Ranks whose sums are this rank's values, unless ``others`` adds to them.

    Attributes:
        sent: what this rank sent for each sum.
        others: is given each tensor to be summed, and adds what the others send.
        everyone: makes of this rank's value those that ``allgather`` returns.
        of_rank_0: the bytes of rank 0, for the other ranks.
        freed: how often the communicator was freed.
    """

    comm: Any = None

    def __init__(self, rank: int = 0, size: int = 2, collectives: int = 0) -> None:
        self.rank, self.size, self.group, self.collectives = rank, size, "played", collectives
        self.sent: list[list[float]] = []
        self.others: Callable[[torch.Tensor], object] = lambda tensor: None
        self.everyone: Callable[[Any], list[Any]] = lambda value: [copy.deepcopy(value)] * size
        self.of_rank_0: list[bytes] = []
        self.broadcasts: list[bytes] = []
        self.freed = 0

    def travels_from(self, device: torch.device) -> bool:
        return True

    def sum(self, tensor: torch.Tensor) -> None:
        self.collectives += 1
        self.sent.append(tensor.tolist())
        self.others(tensor)

    def broadcast(self, tensor: torch.Tensor) -> None:
        self.broadcasts.append(tensor.numpy().tobytes())
        if self.of_rank_0:
            tensor.copy_(torch.frombuffer(bytearray(self.of_rank_0.pop(0)), dtype=torch.uint8))

    def allgather(self, value: V) -> list[V]:
        return self.everyone(value)

    def broadcast_bytes(self, content: bytes) -> bytes:
        self.broadcasts.append(content)
        return self.of_rank_0.pop(0) if self.of_rank_0 else content

    def free(self) -> None:
        self.freed += 1

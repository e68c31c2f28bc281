"""The numbers of a group's operations: recorded or not, all count, so that a number names the same
operation on every rank.
"""

from __future__ import annotations

import itertools
from collections import defaultdict


class OperationCounts:
    """How many operations of one group this rank has begun.

    Collectives have one sequence, and messages one for each direction between two ranks, so that the
    n-th message sent is the n-th received, whoever else sends.

    Attributes:
        collectives: how many were begun.
    """

    __slots__ = ("__weakref__", "_messages", "collectives")

    def __init__(self) -> None:
        self.collectives = 0
        self._messages: defaultdict[tuple[str, int], itertools.count[int]] = defaultdict(itertools.count)

    def next_collective(self) -> int:
        """No lock: neither MPI nor torch allows two collectives at a time on one group."""
        seq = self.collectives
        self.collectives = seq + 1
        return seq

    def take_back(self, error: BaseException) -> bool:
        """The latest collective did not begin: its call raised, and is perhaps made again. Always True."""
        self.collectives -= 1
        return True

    def next_sent(self, receiver: int) -> int:
        return next(self._messages["to", receiver])

    def next_received(self, sender: int) -> int:
        return next(self._messages["from", sender])

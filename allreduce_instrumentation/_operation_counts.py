"""Sequence numbers of a group's operations.

Operations count whether or not they are recorded, so that a number names the same operation on every rank.
"""

from __future__ import annotations

import itertools
from collections import defaultdict


class OperationCounts:
    """Counts of the operations that this rank has begun in one group.

    Collectives have one sequence. Messages have one for each direction between two ranks, so that the
    n-th message that one rank sends to another is the n-th that the other receives from it.

    Attributes:
        collectives: how many collectives were begun.
    """

    __slots__ = ("__weakref__", "_messages", "collectives")

    def __init__(self) -> None:
        self.collectives = 0
        self._messages: defaultdict[tuple[str, int], itertools.count[int]] = defaultdict(itertools.count)

    def next_collective(self) -> int:
        """Return the sequence number of the collective that begins now, from 0."""
        # No lock: neither MPI nor torch allows two collectives at a time on one group.
        seq = self.collectives
        self.collectives = seq + 1
        return seq

    def take_back(self, error: BaseException) -> bool:
        """Take back the number of the latest collective, whose call raised ``error``.

        The collective did not begin, and a repeated call gets the same number.

        Returns:
            Always True.
        """
        self.collectives -= 1
        return True

    def next_sent(self, receiver: int) -> int:
        """Return the sequence number of the next message to rank ``receiver``, from 0."""
        return next(self._messages["to", receiver])

    def next_received(self, sender: int) -> int:
        """Return the sequence number of the next message from rank ``sender``, from 0."""
        return next(self._messages["from", sender])

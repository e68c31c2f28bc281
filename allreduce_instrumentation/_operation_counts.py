"""A group of ranks in the rows: its name, its size, and sequence numbers of its operations.

Operations count whether or not they are recorded, so that a number names the same operation on every rank.
"""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from typing import Any

from timing_logger.recording.cores.chosen import CollectiveCount


class OperationCounts(CollectiveCount):
    """The name and size of a group, and counts of the operations that this rank has begun in it.

    Collectives have one sequence. Messages have one for each direction between two ranks, so that the
    n-th message that one rank sends to another is the n-th that the other receives from it.

    Attributes:
        name: of the group, the same on all its ranks.
        size: the number of ranks.
        rank: this process's rank in the group.
        sent, received: the counts of messages to and from each rank, for those who save a call.
    """

    __slots__ = ("__weakref__", "name", "rank", "received", "sent", "size")

    def __init__(self, name: str, size: int, rank: int) -> None:
        super().__init__()
        self.name = name
        self.size = size
        self.rank = rank
        self.sent: defaultdict[int, itertools.count[int]] = defaultdict(itertools.count)
        self.received: defaultdict[int, itertools.count[int]] = defaultdict(itertools.count)

    def next_sent(self, receiver: int) -> int:
        """Return the sequence number of the next message to rank ``receiver``, from 0."""
        return next(self.sent[receiver])

    def next_received(self, sender: int) -> int:
        """Return the sequence number of the next message from rank ``sender``, from 0."""
        return next(self.received[sender])


def as_rank(value: Any) -> int | None:
    """Return ``value`` as a rank; None if it is none."""
    try:
        return operator.index(value)
    except TypeError:
        return None

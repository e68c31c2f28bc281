"""Sequence numbers of a group's operations.

Operations count whether or not they are recorded, so that a number names the same operation on every rank.
"""

from __future__ import annotations

import itertools
from collections import defaultdict

from timing_logger.recording.cores.chosen import CollectiveCount


class OperationCounts(CollectiveCount):
    """Counts of the operations that this rank has begun in one group.

    Collectives have one sequence. Messages have one for each direction between two ranks, so that the
    n-th message that one rank sends to another is the n-th that the other receives from it.

    Attributes:
        sent, received: the counts of messages to and from each rank, for those who save a call.
    """

    __slots__ = ("__weakref__", "received", "sent")

    def __init__(self) -> None:
        super().__init__()
        self.sent: defaultdict[int, itertools.count[int]] = defaultdict(itertools.count)
        self.received: defaultdict[int, itertools.count[int]] = defaultdict(itertools.count)

    def next_sent(self, receiver: int) -> int:
        """Return the sequence number of the next message to rank ``receiver``, from 0."""
        return next(self.sent[receiver])

    def next_received(self, sender: int) -> int:
        """Return the sequence number of the next message from rank ``sender``, from 0."""
        return next(self.received[sender])

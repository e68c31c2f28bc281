"""The hand-off between recording threads and the flush thread: bounded, accounted, lock-free.

``put`` is the end of the recording path. It must be safe in a signal handler or finalizer that
interrupts another ``put`` of the same thread, which rules out ``queue.Queue`` and every lock: a
``deque`` append is one atomic step.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections import deque
from typing import NamedTuple

from timing_logger.record import RawRecord

BYTES_PER_RECORD = 400
"""Upper bound for one queued record, its names not counted: they are shared with the caller."""


class ChannelCounts(NamedTuple):
    """Records put in all, refused because there was no room, and waiting now."""

    accepted: int
    overflowed: int
    waiting: int


class Channel:
    """At most ``capacity`` records wait (and one more per thread that puts at the same moment).

    When there is no room the newest record is counted and let go.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.queue: deque[RawRecord] = deque()
        self._taken = 0
        self._take_lock = threading.Lock()  # between takers and counters; never taken by put
        self._overflows = AtomicCounter()
        self.count_overflow = self._overflows.increment

    def put(self, record: RawRecord) -> None:
        """Queue ``record``, or count it as overflowed. Never blocks, never raises."""
        if len(self.queue) < self.capacity:
            self.queue.append(record)
        else:
            self.count_overflow()

    def take(self, limit: int) -> list[RawRecord]:
        """Remove and return the oldest records, at most ``limit``."""
        with self._take_lock:
            count = min(limit, len(self.queue))
            batch = [self.queue.popleft() for _ in range(count)]
            self._taken += count
        return batch

    def close(self) -> None:
        """From now on every record put overflows; what waits can still be taken."""
        self.capacity = 0

    def abandon(self) -> None:
        """Forget what waits (in a forked child: these records are the parent's)."""
        self.close()
        self.queue.clear()

    def counts(self) -> ChannelCounts:
        """A consistent reading."""
        # The time limit is for a signal handler that asks while its own thread counts or takes.
        locked = self._take_lock.acquire(timeout=0.1)
        try:
            overflowed, waiting = self._overflows.value, len(self.queue)
            return ChannelCounts(self._taken + waiting + overflowed, overflowed, waiting)
        finally:
            if locked:
                self._take_lock.release()

    def __len__(self) -> int:
        return len(self.queue)


class AtomicCounter:
    """Counts without a lock: advancing a range iterator is one step of the interpreter."""

    def __init__(self) -> None:
        self._tickets = iter(range(sys.maxsize))
        self.increment = self._tickets.__next__

    @property
    def value(self) -> int:
        return sys.maxsize - operator.length_hint(self._tickets)

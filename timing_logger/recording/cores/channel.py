"""The queue between recording threads and the flush thread: bounded, counted and lock-free.

``put`` is the last step of the recording path. It must be safe in a signal handler or finalizer that
interrupts another ``put`` of the same thread, which rules out ``queue.Queue`` and every lock. A ``deque``
append is one atomic step.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from timing_logger.recording.cores.protocols import SeenCall
from timing_logger.schema.record import RawRecord
from timing_logger.schema.sidecar import GroupProgress

BYTES_PER_RECORD = 400
"""Upper bound of the size of one queued record, without its names, which are shared with the caller."""


CHUNK = 1024
"""Records formatted at a time: this bounds how long the training thread can wait for the interpreter."""

MOST_AT_ONCE = 8192
"""The same where the interpreter is not needed for it."""


class ChannelCounts(NamedTuple):
    """The number of records put in total, refused because the queue was full, and waiting now.

    ``unreadable`` is the number of those that were taken but not found whole in memory any more.
    """

    accepted: int
    overflowed: int
    waiting: int
    unreadable: int = 0


class Channel:
    """A queue of at most ``capacity`` records, and one more per thread that puts at the same moment.

    When it is full, the newest record is counted and discarded.
    """

    capacity: int
    count_overflow: Callable[[], object]

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.queue: deque[RawRecord] = deque()
        self._taken = 0
        self._take_lock = threading.Lock()  # between takers and counters; never taken by put
        self._overflows = AtomicCounter()
        self.count_overflow = self._overflows.increment

    def put(self, record: RawRecord) -> None:
        """Queue ``record``, or count it as overflowed. Never blocks or raises."""
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

    def take_packed(self, limit: int) -> Sequence[RawRecord]:
        """Remove and return the oldest records, at most ``limit``, as many as are formatted at a time."""
        return self.take(min(CHUNK, limit))

    def release(self) -> None:
        """Give the room of all records that were taken to new ones: they are written."""

    if TYPE_CHECKING:

        def write_oldest(
            self, wall_offset_ns: int, longest_ns: int, descriptor: int, device: int, inode: int, n_bytes: int
        ) -> tuple[int, int, bool, int]:
            """Write the oldest records into a file, without the interpreter: only the native core can."""

    @property
    def oldest(self) -> RawRecord | None:
        """The oldest record that waits; None if none does."""
        try:
            return self.queue[0]
        except IndexError:
            return None

    def note_standing(
        self,
        open_records: Iterable[RawRecord],
        groups: Iterable[GroupProgress],
        now_ns: int,
        progressed_ns: int,
    ) -> None:
        """Have the file that backs the channel say where the process stands: there is none.

        Args:
            open_records: of the calls that are open now, as far as they are known.
            groups: how far each group of ranks has come.
            now_ns, progressed_ns: when this holds, and when anything was last begun or recorded.
        """

    def calls_in_c(self) -> Sequence[SeenCall]:
        """Return what code in C has begun and not ended: only the native core lets it record."""
        return ()

    def write_calls_in_c(self, status: str) -> None:
        """Write this with ``status``, because its end will not be seen."""

    def forget_calls_in_c(self) -> None:
        """Discard this: in a forked child it is the parent's."""

    def remove_file(self) -> None:
        """Remove the file that backs the channel: there is none."""

    def close(self) -> None:
        """Let every record put from now on overflow; records that wait can still be taken."""
        self.capacity = 0

    def abandon(self) -> None:
        """Close the channel and discard the waiting records: in a forked child they belong to the parent."""
        self.close()
        self.queue.clear()

    def counts(self) -> ChannelCounts:
        """Return counts that are consistent with each other."""
        # The time limit is for a signal handler that interrupts a thread which holds this lock.
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
    """A counter without a lock: each thread advances a range iterator of its own, in one step.

    One step, as a signal handler may count in the midst of anything; of its own, as without the global lock
    two threads that advance one iterator may count once.
    """

    def __init__(self) -> None:
        self._own = threading.local()
        self._all: list[Iterator[int]] = []

    def increment(self) -> None:
        """Count once more."""
        tickets: Iterator[int] | None = getattr(self._own, "tickets", None)
        if tickets is None:
            self._own.tickets = tickets = iter(range(sys.maxsize))
            self._all.append(tickets)
        next(tickets)

    @property
    def value(self) -> int:
        """How often it was counted so far."""
        return sum(sys.maxsize - operator.length_hint(tickets) for tickets in tuple(self._all))

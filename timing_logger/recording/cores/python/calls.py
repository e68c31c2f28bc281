"""The Python core: what a recording call makes and links, where there is no native core.

``recording/cores/native`` has the same classes in C, and ``process/which_core.py`` chooses. Operations in the
background are in ``background.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.cores.channel import Channel
from timing_logger.recording.cores.protocols import Waitable, has_ended
from timing_logger.schema.record import (
    HOST_CLOCK,
    NOT_ENTERED,
    NS_PER_MS,
    OK,
    ON_SPANS,
    UNRESOLVED,
    RawRecord,
)

_DEEPEST = 1000
"""The most open calls of one thread that are followed and kept, in case blocks are entered and never left."""


class OpenCall:
    """A call that some thread has entered and, as long as it has no end, not left.

    Attributes:
        caller: the thread that is in the call.
        outer: the call around this one; None if there is none.
        start_ns: when it was entered last, in ns of ``perf_counter_ns``; not set before.
        end_ns: when it was left last; None while it is open; 0, which its maker sets, before it is entered.
        is_in_ring: whether the ring has listed the call since it began, so that nobody need note it there.
    """

    __slots__ = ("caller", "end_ns", "outer", "start_ns")

    caller: Caller
    outer: OpenCall | None
    start_ns: int
    end_ns: int | None
    is_in_ring = False

    def enter(self) -> None:
        """Begin the call now, as the innermost one of its thread; begin it anew if it is open."""
        if self.end_ns is not None:
            caller = self.caller
            self.outer = caller.innermost
            caller.innermost = self
            self.end_ns = None
        self.start_ns = perf_counter_ns()

    def leave(self) -> int:
        """End the call now and return that instant in ns."""
        self.end_ns = end_ns = perf_counter_ns()
        caller = self.caller
        if caller.innermost is self:
            caller.innermost = self.outer
        else:
            self.unlink()
        return end_ns

    def unlink(self) -> None:
        """Leave while a call that was entered later is still open, as generators and tasks do."""
        inner = self.caller.innermost
        while inner is not None:
            if inner.outer is self:
                inner.outer = self.outer
                return
            inner = inner.outer

    @property
    def is_open(self) -> bool:
        """Whether the call has a start time and no end time yet."""
        return self.end_ns is None and hasattr(self, "start_ns")

    def open_records(self, status: str) -> Iterator[RawRecord]:
        """Yield the records of the call as far as they are known before it has ended."""
        raise NotImplementedError

    def last_records(self, status: str) -> list[RawRecord]:
        """Return the records to write, with ``status``, if the end of the call will not be seen."""
        return list(self.open_records(status))

    def pass_to(self, nobody: Caller) -> bool:
        """Have the thread of an open call write nothing when that ends: it has ``nobody``'s channel then.

        One step, as nothing is called in between, on which the interpreter could turn to another thread.
        Whoever ends a call notes that first, and looks whose it is then.

        Returns:
            Whether the call was open, so that the calling thread is the one to write it.
        """
        if self.end_ns is None:
            self.caller = nobody
            return True
        return False

    def leave_running(self) -> None:
        """Mark the operation as one that goes on when its call returns, until :meth:`claim` takes it."""
        self.caller.running.add(self)

    def claim(self) -> bool:
        """Tell whether the calling thread is the one to write this operation: at most one thread gets True.

        There is no lock: removal from a set is one step.
        """
        try:
            self.caller.running.remove(self)
        except KeyError:
            return False
        return True


class Caller:
    """What a record takes from its thread: the thread's name, and the calls that it is in.

    Attributes:
        thread: the name of the thread.
        channel: the channel of the thread's records.
        running: the operations that threads of this logger left running and whose end was not seen yet.
        innermost: the call that the thread entered last, of those that it has not left.
    """

    __slots__ = ("channel", "innermost", "running", "thread")

    thread: str

    def __init__(self, thread: str, channel: Channel, running: set[OpenCall]) -> None:
        self.thread = thread
        self.channel = channel
        self.running = running
        self.innermost: OpenCall | None = None

    def calls(self) -> Iterator[OpenCall]:
        """Yield the open calls of the thread, the innermost first."""
        call = self.innermost
        for _ in range(_DEEPEST):
            if call is None:
                return
            if call.is_open:
                yield call
            call = call.outer
        if call is not None:
            call.outer = None


class Span(OpenCall):
    """A block that will be recorded. Its maker sets the slots, which saves a call to ``__init__``."""

    __slots__ = ON_SPANS

    thread: str
    operation: str | None
    message_size_bytes: int | None
    layer_name: str
    phase: str
    iteration: int | None
    epoch: int | None
    group: str
    group_size: int | None
    seq: int | None
    peer: int | None
    work: float | None

    @property
    def elapsed_ms(self) -> float:
        """Duration of the block, in ms; NaN while it is open."""
        end_ns = self.end_ns
        return (end_ns - self.start_ns) / NS_PER_MS if end_ns else math.nan

    def __enter__(self) -> Span:  # OpenCall.enter inlined: a call would cost a tenth of the whole
        if self.end_ns is not None:
            caller = self.caller
            self.outer = caller.innermost
            caller.innermost = self
            self.end_ns = None
        self.start_ns = perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end_ns = perf_counter_ns()
        caller = self.caller
        if self.end_ns is not None:
            self.write_not_entered(kind)
            return
        self.end_ns = end_ns
        if caller.innermost is self:
            caller.innermost = self.outer
        else:
            self.unlink()
        channel = self.caller.channel  # not the same if the logger was closed; Channel.put, inlined as well
        queue = channel.queue
        if len(queue) < channel.capacity:
            queue.append((
                self.iteration, self.epoch, self.layer_name, self.operation, self.phase,
                self.message_size_bytes, self.start_ns, end_ns, HOST_CLOCK, self.group, self.group_size,
                self.seq, self.peer, self.thread, OK if kind is None else "error:" + kind.__name__, "", None,
                self.work,
            ))  # fmt: skip
        else:
            channel.count_overflow()

    def finish(self, status: str) -> None:
        """End a span that was entered without ``with``, and write its record."""
        if self.end_ns is not None:
            self.write_not_entered(None)
            return
        end_ns = self.leave()
        self.write(self.operation, self.start_ns, end_ns, status)

    def write_not_entered(self, kind: type[BaseException] | None) -> None:
        """Write that the block is left now and was not open: never entered, or left before.

        Nobody knows how long it took.
        """
        self.write(
            self.operation, perf_counter_ns(), None, NOT_ENTERED if kind is None else "error:" + kind.__name__
        )

    def write(
        self,
        operation: str | None,
        start_ns: int,
        end_ns: int | None,
        status: str,
        thread: str | None = None,
    ) -> None:
        """Write a record with this span's columns, for a block that no ``with`` encloses.

        Args:
            end_ns: the end in ns of ``perf_counter_ns``; None if it is not known.
            thread: the name of the thread that the block belongs to; None for the thread that made the span.
        """
        self.caller.channel.put(self._record(operation, start_ns, end_ns, status, thread))

    def fail(self, error: BaseException, begun: Waitable | None, counts: bool) -> None:
        """The call raised, perhaps while ``begun`` was waited for; ``counts``: its number is taken."""
        end_ns = self.leave()
        if not counts:
            self.seq = None
        if begun is None or has_ended(begun):
            self.write(self.operation, self.start_ns, end_ns, f"error:{type(error).__name__}")
        else:
            self.write(self.operation, self.start_ns, None, UNRESOLVED)

    def open_records(self, status: str) -> Iterator[RawRecord]:
        """Yield the record of the operation as it is now, without an end."""
        yield self._record(self.operation, self.start_ns, None, status)

    def _record(
        self,
        operation: str | None,
        start_ns: object,  # in ns, or an interval of a device that will tell
        end_ns: int | None,
        status: str,
        thread: str | None = None,
        clock: str = HOST_CLOCK,
    ) -> RawRecord:
        return (
            self.iteration, self.epoch, self.layer_name, operation, self.phase, self.message_size_bytes,
            start_ns, end_ns, clock, self.group, self.group_size, self.seq, self.peer,
            self.thread if thread is None else thread, status, "", None, self.work,
        )  # fmt: skip


class Unrecorded(Span):
    """A call in an iteration that sampling leaves out: it has a row only if the process hangs in it."""

    __slots__ = ()

    def write(self, *_: object) -> None:
        """Write nothing: the iteration is not recorded."""

    def last_records(self, status: str) -> list[RawRecord]:
        """Return none: only a process that hangs in it has its row, by ``open_records``."""
        return []


class CollectiveCount:
    """Counts the collectives that this rank has begun in one group of ranks.

    Attributes:
        collectives: how many were begun.
    """

    __slots__ = ("collectives",)

    def __init__(self) -> None:
        self.collectives = 0

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


class TimedGroup:
    """What the rows of one group of ranks share: where they go, its name and size, and its counts.

    Attributes:
        logger: where the rows go.
        identity: has the counts, and outlives the group's handle.
        name, size: name and size of the group in the rows.
        next_collective: counts a collective, and returns its sequence number.
        sent, received: the counts of messages, by the other rank.
    """

    __slots__ = ("identity", "logger", "name", "next_collective", "received", "sent", "size")

    logger: Any
    identity: Any
    name: str
    size: int
    next_collective: Callable[[], int]
    sent: Mapping[int, Iterator[int]]
    received: Mapping[int, Iterator[int]]

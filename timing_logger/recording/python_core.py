"""The Python core: what a recording call makes and links, where there is no native core.

:mod:`timing_logger._native` has the same classes in C; :mod:`timing_logger.recording.core` chooses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from timing_logger.record import HOST_CLOCK, NS_PER_MS, OK, UNRESOLVED, WAIT, RawRecord
from timing_logger.recording.channel import Channel
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.protocols import Waitable, has_ended

_DEEPEST = 1000
"""The most open calls of one thread that are followed and kept, in case blocks are entered and never left."""


class OpenCall:
    """A call that some thread has entered and, as long as it has no end, not left.

    Attributes:
        caller: the thread that is in the call.
        outer: the call around this one; None if there is none.
        start_ns, end_ns: instants of ``perf_counter_ns``; ``end_ns`` is not set while the call is open.
    """

    __slots__ = ("caller", "end_ns", "outer", "start_ns")

    caller: Caller
    outer: OpenCall | None
    start_ns: int
    end_ns: int

    def enter(self) -> None:
        """Begin the call now, as the innermost one of its thread."""
        caller = self.caller
        self.outer = caller.innermost
        caller.innermost = self
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
        return hasattr(self, "start_ns") and not hasattr(self, "end_ns")

    def open_records(self, status: str) -> Iterator[RawRecord]:
        """Yield the records of the call as far as they are known before it has ended."""
        raise NotImplementedError

    def write_open(self, status: str) -> None:
        """Write the records of the call as far as they are known, with ``status``."""
        for record in self.open_records(status):
            self.caller.channel.put(record)

    def leave_running(self) -> None:
        """Mark the operation as one that goes on when its call returns, until :meth:`claim` takes it."""
        self.caller.running.add(self)

    def claim(self) -> bool:
        """Return whether the calling thread is the one to write this operation: at most one thread gets True.

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

    __slots__ = (
        "epoch", "group", "group_size", "iteration", "layer_name", "message_size_bytes", "operation", "peer",
        "phase", "seq", "thread",
    )  # fmt: skip

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

    @property
    def elapsed_ms(self) -> float:
        """Duration of the block, in ms; NaN while it is open."""
        try:
            return (self.end_ns - self.start_ns) / NS_PER_MS
        except AttributeError:
            return math.nan

    def __enter__(self) -> Span:  # OpenCall.enter inlined: a call would cost a tenth of the whole
        caller = self.caller
        self.outer = caller.innermost
        caller.innermost = self
        self.start_ns = perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end_ns = end_ns = perf_counter_ns()
        caller = self.caller
        if caller.innermost is self:
            caller.innermost = self.outer
        else:
            self.unlink()
        channel = caller.channel  # Channel.put, inlined as well
        queue = channel.queue
        if len(queue) < channel.capacity:
            queue.append((
                self.iteration, self.epoch, self.layer_name, self.operation, self.phase,
                self.message_size_bytes, self.start_ns, end_ns, HOST_CLOCK, self.group, self.group_size,
                self.seq, self.peer, self.thread, OK if kind is None else "error:" + kind.__name__, "", None,
            ))  # fmt: skip
        else:
            channel.count_overflow()

    def finish(self, status: str) -> None:
        """End a span that was entered without ``with``, and write its record."""
        end_ns = self.leave()
        self.write(self.operation, self.start_ns, end_ns, status)

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
        start_ns: int,
        end_ns: int | None,
        status: str,
        thread: str | None = None,
        clock: str = HOST_CLOCK,
    ) -> RawRecord:
        return (
            self.iteration, self.epoch, self.layer_name, operation, self.phase, self.message_size_bytes,
            start_ns, end_ns, clock, self.group, self.group_size, self.seq, self.peer,
            self.thread if thread is None else thread, status, "", None,
        )  # fmt: skip


class BackgroundSpan(Span):
    """An operation that goes on when its call returns: whoever sees its end first writes its row.

    With the native core no Python code runs when a future tells of the end. On a thread that Python did not
    start, the first frame of each callback would have memory mapped and unmapped, which stops all cores.

    Attributes:
        ended_ns: when it was seen to end, on the axis of ``perf_counter_ns``; None before.
        value_of: returns the value of a future, or raises what went wrong: a class attribute.
    """

    __slots__ = ("_behind", "_blocked_from_ns", "ended_ns")

    ended_ns: int | None
    _blocked_from_ns: list[
        int
    ]  # of one instant, which the one who writes takes, in one step and without a lock
    _behind: BackgroundSpan | None
    value_of: Callable[[Any], object]

    def begin(self) -> None:
        """Begin the operation now."""
        self.ended_ns = self._behind = None
        self._blocked_from_ns = []
        self.start_ns = perf_counter_ns()
        self.leave_running()

    def end_at(self, end_ns: int, status: str) -> None:
        """Note that the operation ended; the first call writes the row, on any thread."""
        if self.ended_ns is None and self.claim():
            self.write(self.operation, self.start_ns, end_ns, status)
            self.ended_ns = end_ns
            self._write_wait()

    def end_of(self, future: object) -> None:
        """Note that the operation ended now, as ``future`` tells: to be called back by it."""
        end_ns = perf_counter_ns()  # first, as what follows takes time
        status = OK
        try:
            self.value_of(future)
        except Exception as error:
            status = f"error:{type(error).__name__}"
        self.end_at(end_ns, status)

    def block_from(self, instant_ns: int, behind: BackgroundSpan | None) -> None:
        """Have a ``WAIT`` row written when the operation has ended: its thread is blocked until then.

        Args:
            instant_ns: now.
            behind: the operation that the thread waits for first; None for none.
        """
        self._behind = behind
        self._blocked_from_ns.append(instant_ns)
        self._write_wait()

    def _write_wait(self) -> None:
        end_ns = self.ended_ns
        if end_ns is None:
            return
        try:
            start_ns = self._blocked_from_ns.pop()
        except IndexError:
            return
        behind = self._behind
        while behind is not None:
            start_ns = max(start_ns, end_ns if behind.ended_ns is None else min(behind.ended_ns, end_ns))
            behind = behind._behind
        self.write(WAIT, start_ns, max(start_ns, end_ns), OK)


class Unrecorded(Span):
    """A call in an iteration that sampling leaves out: it has a row only if the process hangs in it."""

    __slots__ = ()

    def write(self, *_: object) -> None:
        """Write nothing: the iteration is not recorded."""

    def write_open(self, status: str) -> None:
        """Write nothing either: only a process that hangs in it has its row, by ``open_records``."""

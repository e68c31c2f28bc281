"""Timed blocks: each is two readings of the clock and one record."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import repeat
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Protocol

from timing_logger.record import (
    DEVICE_CLOCK,
    END,
    HOST_CLOCK,
    NS_PER_MS,
    OK,
    SEQ,
    STATUS,
    UNRESOLVED,
    WAIT,
    RawRecord,
)
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.device.intervals import HostInterval, Interval, open_interval
from timing_logger.recording.open_calls import Caller, OpenCall
from timing_logger.recording.protocols import Waitable, has_ended

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


class Timer(Protocol):
    """The object that ``with logger.record_mpi_operation(...) as timer`` yields."""

    @property
    def elapsed_ms(self) -> float:
        """Duration of the block, in ms; NaN while it is open, and if it is not recorded."""

    def __enter__(self) -> Timer: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


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


class Unrecorded(Span):
    """A call in an iteration that sampling leaves out: it has a row only if the process hangs in it."""

    __slots__ = ()

    def write(self, *_: object) -> None:
        """Write nothing: the iteration is not recorded."""

    def write_open(self, status: str) -> None:
        """Write nothing either: only a process that hangs in it has its row, by ``open_records``."""


class TimedCall(OpenCall):
    """A call that is timed from outside; ``record`` is its row, as it will be written when it has ended."""

    __slots__ = ("record",)

    record: list[object]

    def open_records(self, status: str) -> Iterator[RawRecord]:
        """Yield the record of the call as it is now, without an end."""
        yield self.row(None, status)

    def row(self, end_ns: int | None, status: str) -> RawRecord:
        """Return the record of the call with this end and status."""
        columns = self.record.copy()
        columns[END], columns[STATUS] = end_ns, status
        return tuple(columns)

    def fail(self, error: BaseException, begun: Waitable | None, *, counts: bool) -> None:
        """It raised, perhaps while ``begun`` was waited for; ``counts``: its number is taken."""
        end_ns = self.leave()
        if not counts:
            self.record[SEQ] = None
        if begun is None or has_ended(begun):
            self.write(self.row(end_ns, f"error:{type(error).__name__}"))
        else:
            self.write(self.row(None, UNRESOLVED))

    def write(self, row: RawRecord) -> None:
        """Queue the record of the call."""
        self.caller.channel.put(row)


class UnrecordedCall(TimedCall):
    """The same in an iteration that sampling leaves out: a row only if the process hangs in it."""

    __slots__ = ()

    def write(self, row: RawRecord) -> None:
        """Write nothing: the iteration is not recorded."""

    def write_open(self, status: str) -> None:
        """Write nothing either: only a process that hangs in it has its row, by ``open_records``."""


class Wait(OpenCall):
    """A call that blocks its thread until operations that were left running have ended."""

    __slots__ = ("of", "thread")

    def __init__(self, of: Sequence[Span], caller: Caller) -> None:
        """Begin a wait of ``caller`` for these operations."""
        self.of = of
        self.caller = caller
        self.thread = caller.thread
        self.enter()

    def open_records(self, status: str) -> Iterator[RawRecord]:
        """Yield a record for each operation that is still waited for."""
        for span in self.of:
            if span in span.caller.running:
                yield span._record(WAIT, self.start_ns, None, status, self.thread)


class DeviceSpan(Span):
    """A block whose work a device does: timed by events in its stream where there is a device.

    Reading ``elapsed_ms`` waits until the device has passed the block's end.
    """

    __slots__ = ("interval", "stream")

    stream: torch.Stream | None
    interval: Interval | None

    @property
    def elapsed_ms(self) -> float:
        """Duration in ms; NaN while the block is open, and if the duration can never be known."""
        interval = getattr(self, "interval", None)
        if interval is None:
            return math.nan
        interval.wait()
        return math.nan if interval.elapsed_ns is None else interval.elapsed_ns / NS_PER_MS

    def __enter__(self) -> DeviceSpan:
        self.enter()
        self.interval = open_interval(self.stream)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end_interval(kind)
        self.leave()

    def open_records(self, status: str) -> Iterator[RawRecord]:
        """Yield the record of the block as it is now, by the clock that it is timed with."""
        interval = getattr(self, "interval", None)
        if isinstance(interval, HostInterval):
            yield self._record(self.operation, interval.start_ns, None, status)
        else:
            yield self._record(self.operation, self.start_ns, None, status, clock=DEVICE_CLOCK)

    def end_interval(self, kind: type[BaseException] | None) -> None:
        """Mark the end of the block in its stream, and put its record.

        Args:
            kind: the type of the exception that leaves the block, if one does.
        """
        interval = self.interval
        if interval is None:  # a graph is being captured: the work is queued but does not run now
            return
        interval.end(self.stream)
        start, end, clock = interval.columns
        record = (
            self.iteration, self.epoch, self.layer_name, self.operation, self.phase, self.message_size_bytes,
            start, end, clock, self.group, self.group_size, self.seq, self.peer,
            self.thread, OK if kind is None else "error:" + kind.__name__, "", None,
        )  # fmt: skip
        self.caller.channel.put(record)


class _NoSpan:
    """A block that is not recorded: one shared object, which may be nested and used by several threads."""

    __slots__ = ()

    elapsed_ms = math.nan

    __enter__: ClassVar[Callable[[], Timer]]
    __exit__: ClassVar[Callable[..., None]]


NO_SPAN: Timer = _NoSpan()

# These callables are in C, because a logger that is off must cost less than two clock readings. The
# first always returns NO_SPAN; the second takes the three arguments of __exit__ and returns "", which
# is false, so that exceptions propagate.
_NoSpan.__enter__ = repeat(NO_SPAN).__next__
_NoSpan.__exit__ = "".format  # type: ignore[assignment]

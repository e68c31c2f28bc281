"""A timed block: two readings of the clock and one record."""

from __future__ import annotations

import math
from itertools import repeat
from types import TracebackType
from typing import Any, Protocol

from timing_logger._channel import Channel
from timing_logger._clock import perf_counter_ns
from timing_logger._device.intervals import Interval, open_interval
from timing_logger.record import HOST_CLOCK, NS_PER_MS, OK


class Timer(Protocol):
    """What ``with logger.record_mpi_operation(...) as timer`` yields."""

    @property
    def elapsed_ms(self) -> float:
        """Duration of the block, in ms; NaN while it is open, and when it is not recorded."""

    def __enter__(self) -> Timer: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> Any: ...


class Span:
    """A block that will be recorded. Its maker sets the slots: that saves a call to __init__."""

    __slots__ = (
        "channel", "end_ns", "epoch", "group", "group_size", "iteration", "layer_name",
        "message_size_bytes", "operation", "peer", "phase", "seq", "start_ns", "thread",
    )  # fmt: skip

    channel: Channel
    thread: str
    operation: Any
    message_size_bytes: Any
    layer_name: Any
    phase: Any
    iteration: Any
    epoch: Any
    group: Any
    group_size: Any
    seq: Any
    peer: Any
    start_ns: int
    end_ns: int

    @property
    def elapsed_ms(self) -> float:
        """Duration of the block, in ms; NaN while it is open."""
        try:
            return (self.end_ns - self.start_ns) / NS_PER_MS
        except AttributeError:
            return math.nan

    def __enter__(self) -> Span:
        self.start_ns = perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end_ns = end_ns = perf_counter_ns()
        record = (
            self.iteration, self.epoch, self.layer_name, self.operation, self.phase, self.message_size_bytes,
            self.start_ns, end_ns, HOST_CLOCK, self.group, self.group_size, self.seq, self.peer,
            self.thread, OK if kind is None else "error:" + kind.__name__, "", None,
        )  # fmt: skip
        channel = self.channel  # Channel.put, written out: a call would cost a tenth of the whole
        if len(channel.queue) < channel.capacity:
            channel.queue.append(record)
        else:
            channel.count_overflow()

    def write(
        self, operation: Any, start_ns: int, end_ns: int | None, status: str, thread: str | None = None
    ) -> None:
        """A record with this one's columns, of a block that no ``with`` encloses.

        ``end_ns`` is None if the end is not known. ``thread`` is the name of the thread that the block
        belongs to; None for the one that made the span.
        """
        self.channel.put((
            self.iteration, self.epoch, self.layer_name, operation, self.phase, self.message_size_bytes,
            start_ns, end_ns, HOST_CLOCK, self.group, self.group_size, self.seq, self.peer,
            self.thread if thread is None else thread, status, "", None,
        ))  # fmt: skip


class DeviceSpan(Span):
    """A block whose work a device does: timed by events in its stream where there is a device.

    Reading ``elapsed_ms`` waits until the device has passed the block's end.
    """

    __slots__ = ("interval", "stream")

    stream: Any
    interval: Interval | None

    @property
    def elapsed_ms(self) -> float:
        """Duration in ms; NaN while the block is open, and of one that cannot be known."""
        interval = getattr(self, "interval", None)
        if interval is None:
            return math.nan
        interval.wait()
        return math.nan if interval.elapsed_ns is None else interval.elapsed_ns / NS_PER_MS

    def __enter__(self) -> DeviceSpan:
        self.interval = open_interval(self.stream)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        interval = self.interval
        if interval is None:  # a graph is being captured: what is queued now does not run now
            return
        interval.end(self.stream)
        start, end, clock = interval.columns
        record = (
            self.iteration, self.epoch, self.layer_name, self.operation, self.phase, self.message_size_bytes,
            start, end, clock, self.group, self.group_size, self.seq, self.peer,
            self.thread, OK if kind is None else "error:" + kind.__name__, "", None,
        )  # fmt: skip
        channel = self.channel
        if len(channel.queue) < channel.capacity:
            channel.queue.append(record)
        else:
            channel.count_overflow()


class _NoSpan:
    """A block that is not recorded: one shared object, safe to nest and to share by threads."""

    __slots__ = ()

    elapsed_ms = math.nan


NO_SPAN: Any = _NoSpan()

# Callables in C, because off must cost less than reading the clock twice: one that returns
# NO_SPAN for ever, and one that takes the three arguments of __exit__ and returns "", which is
# false, so that exceptions pass.
_NoSpan.__enter__ = repeat(NO_SPAN).__next__  # type: ignore[attr-defined]
_NoSpan.__exit__ = "".format  # type: ignore[attr-defined]

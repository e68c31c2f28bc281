"""Timed blocks of work that a device does, or the host, and in which stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

import timing_logger.recording.device.accelerator as accelerators
from timing_logger.recording.cores import chosen
from timing_logger.recording.cores.core import over
from timing_logger.recording.cores.protocols import Timer
from timing_logger.recording.cores.python.core import Span
from timing_logger.recording.device.intervals import HostInterval, Interval, open_interval
from timing_logger.schema.record import DEVICE_CLOCK, NS_PER_MS, OK, RawRecord, Stated

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

_WITHOUT_STREAMS = ("cpu", "meta")


class TimesBlocks(Protocol):
    """A recorder, as what is timed on a device or on the host needs it."""

    recording: bool

    @property
    def record_mpi_operation(self) -> Callable[..., Timer]:
        """Times a block by the clock of the host."""

    @property
    def record_device_operation(self) -> Callable[..., Timer]:
        """Times the work of a device for a block."""


def timed_block(
    recorder: TimesBlocks, operation: str, device: torch.device | None, **columns: Unpack[Stated]
) -> Timer:
    """Return a context manager that records its block as ``operation`` on the current stream of ``device``.

    Args:
        recorder: where the row goes.
        operation: the operation's name in the row.
        device: the device that does the work; the host, or None for it, is timed by its own clock.
        columns: further arguments of ``recorder.record_mpi_operation``.
    """
    if device is None or not (recorder.recording and has_streams(device)):
        return recorder.record_mpi_operation(operation, **columns)
    return recorder.record_device_operation(operation, stream=stream_elsewhere(device), **columns)


def has_streams(device: torch.device) -> bool:
    """Tell whether work on ``device`` is queued in a stream, and goes on after the call has returned."""
    return device.type not in _WITHOUT_STREAMS


def stream_elsewhere(device: torch.device | None) -> torch.Stream | None:
    """Return the current stream of ``device``, or None if it is the calling thread's current device.

    Also None if there is no accelerator, or ``device`` is None or has no number.
    """
    accelerator = accelerators.find_accelerator()
    if accelerator is None or device is None or device.index in (None, accelerator.current_index()):
        return None
    return accelerator.current_stream(device.index)


def stream_of_handle(handle: int, index: int) -> torch.Stream | None:
    """Return the stream of device ``index`` that has this ``cudaStream_t``; 0 is the default stream.

    None if torch has not used a device yet: then nothing can be marked in the stream.
    """
    accelerator = accelerators.find_accelerator()
    return None if accelerator is None else accelerator.stream_of_handle(handle, index)


if not TYPE_CHECKING:
    Span = object  # to be of a core: see `over`


class DeviceBlock(Span):
    """A block whose work a device does: timed by events in its stream where there is a device.

    Reading ``elapsed_ms`` waits until the device has passed the block's end.
    """

    OWN = ("interval", "stream")
    __slots__ = OWN if TYPE_CHECKING else ()

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

    def __enter__(self) -> DeviceBlock:
        self.enter()
        self.interval = open_interval(self.stream)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.is_open:
            self.mark_end()
            self.leave()  # before its record is put: see OpenCall.pass_to
            self.put_ended(kind)
        else:
            self.write_not_entered(kind)

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
        self.mark_end()
        self.put_ended(kind)

    def mark_end(self) -> None:
        """Mark the end of the block in its stream."""
        if self.interval is not None:
            self.interval.end(self.stream)

    def put_ended(self, kind: type[BaseException] | None) -> None:
        """Put the record of a block whose end is marked; ``kind`` as for :meth:`end_interval`."""
        interval = self.interval
        if interval is None:  # a graph is being captured: the work is queued but does not run now
            return
        start, end, clock = interval.columns
        status = OK if kind is None else "error:" + kind.__name__
        self.caller.channel.put(self._record(self.operation, start, end, status, clock=clock))


if TYPE_CHECKING:
    DeviceSpan = DeviceBlock
else:
    DeviceSpan = over(DeviceBlock, chosen.Span)

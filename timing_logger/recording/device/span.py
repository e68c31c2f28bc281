"""Timed blocks of work that a device does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from timing_logger.recording.cores import chosen
from timing_logger.recording.cores.core import over
from timing_logger.recording.cores.python.core import Span
from timing_logger.recording.device.intervals import HostInterval, Interval, open_interval
from timing_logger.schema.record import DEVICE_CLOCK, NS_PER_MS, OK, RawRecord

if TYPE_CHECKING:
    import torch

else:
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

"""An interval that somebody opens and ends: on the host's clock, or between a device's events.

What a device does has no duration yet when the call that queues it returns. So an interval is
asked: ``finished()`` never waits, ``wait()`` does, and ``elapsed_ns`` is None until it is known.
The events go back to their pool when nobody holds the interval any more.
"""

from __future__ import annotations

from typing import Any

from timing_logger import _accelerator
from timing_logger._accelerator import Event
from timing_logger._clock import perf_counter_ns
from timing_logger._devices import Device, device
from timing_logger.record import DEVICE_CLOCK, HOST_CLOCK, NS_PER_MS


class HostInterval:
    """Between two readings of the host's clock."""

    __slots__ = ("end_ns", "start_ns")

    lost = False

    def __init__(self) -> None:
        self.end_ns: int | None = None
        self.start_ns = perf_counter_ns()

    def end(self, stream: Any = None) -> None:
        """It ends now."""
        self.end_ns = perf_counter_ns()

    def finished(self) -> bool:
        """Whether it has ended."""
        return self.end_ns is not None

    def wait(self) -> None:
        """Nothing to wait for: the end is known when it has been."""

    @property
    def elapsed_ns(self) -> int | None:
        return None if self.end_ns is None else self.end_ns - self.start_ns

    @property
    def columns(self) -> tuple[Any, int | None, str]:
        """``start_ns``, ``end_ns`` and ``clock`` of its record."""
        return self.start_ns, self.end_ns, HOST_CLOCK


class DeviceInterval:
    """Between two events in a device's stream. Nothing here raises.

    Attributes:
        issued_ns: ``perf_counter_ns`` when it was opened: the device cannot have begun before.
        elapsed_ns: the duration, once it is known.
        ended: whether its end was marked.
        lost: the duration will never be known: the pool was exhausted, the device failed, or the end
            was captured into a graph.
    """

    __slots__ = ("_events", "device", "elapsed_ns", "ended", "issued_ns", "lost")

    device: Device
    elapsed_ns: int | None
    ended: bool
    issued_ns: int
    lost: bool
    _events: Any

    def __del__(self) -> None:
        if self._events is not None:
            self.device.pool.free.append(self._events)

    @property
    def columns(self) -> tuple[Any, int | None, str]:
        """``start_ns``, ``end_ns`` and ``clock`` of its record: the flush thread resolves it."""
        return self, None, DEVICE_CLOCK

    @property
    def start_event(self) -> Event:
        """The mark of its start; of a lost interval there may be none."""
        event: Event = self._events.start
        return event

    def end(self, stream: Any = None) -> None:
        """Mark the end in ``stream``; None for the calling thread's current one."""
        self.ended = True
        if self.lost:
            return
        accelerator = self.device.accelerator
        try:
            if accelerator.is_capturing() if stream is None else accelerator.look_at(stream)[0]:
                self.lost = True
            else:
                self._events[1].record(stream)
        except Exception as error:
            self._end_where_it_began(error)

    def _end_where_it_began(self, error: Exception) -> None:
        """The block may have left the thread with another current device."""
        try:
            self._events.end.record(self.device.accelerator.current_stream(self.device.index))
        except Exception:
            self.lose(error)

    def finished(self) -> bool:
        """Whether ``elapsed_ns`` is known, or the interval is lost. Does not wait.

        Where asking the device might break a graph capture, it is not asked: False.
        """
        if self.elapsed_ns is not None or self.lost:
            return True
        if not self.ended:
            return False
        try:
            with self.device.accelerator.asking(self.device.index) as harmless:
                return harmless and self.ask()
        except Exception as error:
            self.lose(error)
            return True

    def wait(self) -> None:
        """Wait until the device has passed the end, and for nothing else on it."""
        if self.elapsed_ns is not None or self.lost or not self.ended:
            return
        try:
            with self.device.accelerator.asking(self.device.index):
                self._events.end.synchronize()
                self.ask()
        except Exception as error:
            self.lose(error)

    def ask(self) -> bool:
        """:meth:`finished` of one that ended, by a caller that is :meth:`Accelerator.asking` already."""
        if self.elapsed_ns is not None or self.lost:
            return True
        try:
            if self.device.failed:
                self.lost = True
            elif self._events.end.query():
                self.elapsed_ns = max(0, round(self._events.start.elapsed_time(self._events.end) * NS_PER_MS))
            else:
                return False
        except Exception as error:
            self.lose(error)
        return True

    def lose(self, error: Exception) -> None:
        """The device did not do what it was asked: from now on nothing is asked of it."""
        self.lost = True
        self.device.failed = self.device.failed or repr(error)


Interval = HostInterval | DeviceInterval

_new_interval = object.__new__


def open_interval(stream: Any = None) -> Interval | None:
    """An interval that begins now, in ``stream`` or the calling thread's current one.

    Without a device, or where the device cannot be asked (in a forked child, say), it is the host
    clock's. While the stream is being captured into a graph there is none: None.
    """
    accelerator = _accelerator.find_accelerator()
    if accelerator is None:
        return HostInterval()
    issued_ns = perf_counter_ns()
    try:
        if stream is None:
            capturing, index = accelerator.is_capturing(), accelerator.current_index()
        else:
            capturing, index = accelerator.look_at(stream)
        on = device(accelerator, index)
        if capturing:
            on.captured.increment()
            return None
        return _begin(on, stream, issued_ns)
    except Exception:
        return HostInterval()


def _begin(on: Device, stream: Any, issued_ns: int) -> DeviceInterval:
    interval = _new_interval(DeviceInterval)  # slots set here: that saves a call to __init__
    interval.device = on
    interval.issued_ns = issued_ns
    interval.elapsed_ns = None
    interval.ended = False
    interval._events = events = None if on.failed else on.pool.take()
    interval.lost = events is None
    if events is not None:
        try:
            events[0].record(stream)
        except Exception as error:
            interval.lose(error)
    return interval


def wait_for_stream() -> None:
    """Wait until the device has passed what the current stream holds by now, and for nothing else."""
    mark = open_interval()
    if mark is not None:
        mark.end()
        mark.wait()

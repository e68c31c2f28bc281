"""An interval that somebody opens and ends: on the host's clock, or between a device's events.

What a device does has no duration yet when the call that queues it returns. So an interval is
asked: ``finished()`` never waits, ``wait()`` does, and ``elapsed_ns`` is None until it is known.
The events go back to their pool when nobody holds the interval any more.
"""

from __future__ import annotations

from typing import Any

import timing_logger.recording.device.accelerator as _accelerator
from timing_logger.record import DEVICE_CLOCK, HOST_CLOCK, NS_PER_MS
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.device.accelerator import Accelerator, Event
from timing_logger.recording.device.devices import Device, device, is_in_use

_BACKWARDS_NS = -1000
"""A shorter duration than this is none: the block began in one stream and ended in another."""

TORCH_ERRORS = (RuntimeError, ValueError)
"""What torch raises; see :func:`_pass_on_others`."""


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
    """Between two events in a device's stream. What torch raises is noted, and raised no further.

    Attributes:
        issued_ns: ``perf_counter_ns`` when it was opened: the device cannot have begun before.
        elapsed_ns: the duration, once it is known.
        ended: whether its end was marked.
        lost: the duration will never be known: the pool was exhausted, the stream full, the device
            failed, the end was captured into a graph, or came before the start, in another stream.
        stream: the ``torch.Stream`` that it occupies; None if that is not known.
    """

    __slots__ = (
        "__weakref__", "_events", "device", "elapsed_ns", "ended", "issued_ns", "lost", "stream",
    )  # fmt: skip

    device: Device
    elapsed_ns: int | None
    ended: bool
    issued_ns: int
    lost: bool
    stream: Any
    _events: Any

    def __del__(self) -> None:
        events = getattr(self, "_events", None)  # an exception may have come before it was set
        if events is not None:
            self.device.pool.free.append(events)

    @property
    def columns(self) -> tuple[Any, int | None, str]:
        """``start_ns``, ``end_ns`` and ``clock`` of its record: the flush thread resolves it."""
        return self, None, DEVICE_CLOCK

    @property
    def stream_name(self) -> str:
        """Device and stream, as ``cuda:0/7``; blank if the stream is not known."""
        number = getattr(self.stream, "stream_id", None)
        return "" if number is None else f"{self.device.name}/{number}"

    @property
    def start_event(self) -> Event:
        """The mark of its start; of a lost interval there may be none."""
        event: Event = self._events.start
        return event

    def has_begun(self) -> bool:
        """Whether the device has passed its start, or cannot be asked."""
        if self.lost:
            return True
        with self.device.accelerator.asking(self.device.index) as harmless:
            return not harmless or self.start_event.query()

    def end(self, stream: Any = None) -> None:
        """Mark the end in ``stream``; None for the calling thread's current one.

        A block that has left its thread on another device ends in the current stream of its own.
        """
        self.ended = True
        on = self.device
        accelerator = on.accelerator
        if self.lost:
            return
        try:
            if stream is not None:
                self._end_in(stream)
            elif accelerator.current_index() != on.index:
                self._end_in(accelerator.current_stream(on.index))
            elif accelerator.is_capturing():
                self.lost = True
            else:
                self._events[1].record()
        except TORCH_ERRORS as error:
            self.lose(error)

    def _end_in(self, stream: Any) -> None:
        accelerator = self.device.accelerator
        self.lost, index = accelerator.look_at(stream)
        if not self.lost:
            accelerator.mark(self._events[1], stream, index)

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
        except TORCH_ERRORS as error:
            self.lose(error)
            return True

    def wait(self) -> None:
        """Wait until the device has passed the end, and for nothing else on it."""
        if self.elapsed_ns is not None or self.lost or not self.ended:
            return
        try:
            with self.device.accelerator.asking(self.device.index):
                self._events.end.synchronize()
                if not self.ask():  # the start is in another stream
                    self._events.start.synchronize()
                    self.ask()
        except TORCH_ERRORS as error:
            self.lose(error)

    def ask(self) -> bool:
        """:meth:`finished` of one that ended, by a caller that is :meth:`Accelerator.asking` already."""
        if self.elapsed_ns is not None or self.lost:
            return True
        start, end = self._events
        try:
            if self.device.failed:
                self.lost = True
            elif end.query() and start.query():
                self._measure(start, end)
            else:
                return False
        except TORCH_ERRORS as error:
            self.lose(error)
        return True

    def _measure(self, start: Event, end: Event) -> None:
        elapsed_ns = round(start.elapsed_time(end) * NS_PER_MS)
        if elapsed_ns < _BACKWARDS_NS:
            self.lost = True
        else:
            self.elapsed_ns = max(0, elapsed_ns)

    def lose(self, error: Exception) -> None:
        """It will never be known. After a failure of the device nothing is asked of it any more.

        Raises:
            Exception: ``error`` itself, if it is not torch's.
        """
        self.lost = True
        _pass_on_others(error)
        self.device.note(error)


Interval = HostInterval | DeviceInterval

_new_interval = object.__new__


def open_interval(stream: Any = None) -> Interval | None:
    """An interval that begins now, in ``stream`` or the calling thread's current one.

    Without a device, before this process has used one, or where it cannot be asked (in a forked
    child, say), it is the host clock's. While the stream is being captured into a graph: None.
    """
    issued_ns = perf_counter_ns()
    accelerator: Accelerator | None = None
    try:
        accelerator = _accelerator.find_accelerator()
        if accelerator is None:
            return HostInterval()
        if accelerator.failed:
            return _begin(device(accelerator, 0), None, None, issued_ns)
        return _on_device(accelerator, stream, issued_ns)
    except TORCH_ERRORS as error:
        return _without_looking(accelerator, issued_ns, error)


def _on_device(accelerator: Accelerator, stream: Any, issued_ns: int) -> Interval | None:
    """An interval of the stream's device, or of the thread's; None while the stream is being captured."""
    if stream is None and not _is_used(accelerator, accelerator.current_index()):
        stream = _stream_of_the_only_device(accelerator)
        if stream is None:
            return HostInterval()
    if stream is None:
        capturing, index = accelerator.is_capturing(), accelerator.current_index()
    else:
        capturing, index = accelerator.look_at(stream)
    on = device(accelerator, index)
    if capturing:
        on.captured.increment()
        return None
    return _begin_unless_full(on, stream, issued_ns)


def _is_used(accelerator: Accelerator, index: int) -> bool:
    return is_in_use(index) or accelerator.has_context(index)


def _stream_of_the_only_device(accelerator: Accelerator) -> Any:
    """The current stream of the one device that this process uses; None if it uses several, or none.

    A thread that was just started has device 0 as its current one, though the process may work on another:
    a mark there would take some hundred MB of its memory for a context.
    """
    used = accelerator.used_devices()
    return accelerator.current_stream(used[0]) if len(used) == 1 else None


def _begin_unless_full(on: Device, stream: Any, issued_ns: int) -> DeviceInterval:
    """An interval in ``stream`` or the current one; without marks, and so lost, if that is full of them."""
    occupied = on.accelerator.current_stream(on.index) if stream is None else stream
    marks = on.marks_in(occupied)
    if marks.is_full(DeviceInterval.has_begun):
        on.full.increment()
        interval = _begin(on, None, stream, issued_ns)
    else:
        interval = _begin(on, on.pool.take(), stream, issued_ns)
        marks.note(interval)
    interval.stream = occupied
    return interval


def _begin(on: Device, events: Any, stream: Any, issued_ns: int) -> DeviceInterval:
    interval = _new_interval(DeviceInterval)  # slots set here: that saves a call to __init__
    interval._events = events
    interval.device = on
    interval.issued_ns = issued_ns
    interval.stream = stream
    interval.elapsed_ns = None
    interval.ended = False
    interval.lost = events is None
    if events is not None:
        try:
            if stream is None:
                events[0].record()
            else:
                on.accelerator.mark(events[0], stream, on.index)
        except TORCH_ERRORS as error:
            interval.lose(error)
    return interval


def _without_looking(accelerator: Accelerator | None, issued_ns: int, error: Exception) -> Interval | None:
    """What an interval is where not even the stream could be looked at."""
    _pass_on_others(error)
    if accelerator is None:
        return HostInterval()
    on = device(accelerator, 0)
    if _accelerator.is_about_capture(error):
        on.captured.increment()
        return None
    if not accelerator.is_failure(error):
        return HostInterval()
    on.note(error)
    return _begin(on, None, None, issued_ns)


def _pass_on_others(error: Exception) -> None:
    """A user's signal handler may raise in the middle of anything, and its exception is not ours to keep."""
    kind = type(error)
    if kind not in TORCH_ERRORS and not kind.__module__.startswith("torch"):
        raise error


def wait_for_stream() -> None:
    """Wait until the device has passed what the current stream holds by now, and for nothing else."""
    mark = open_interval()
    if mark is not None:
        mark.end()
        mark.wait()

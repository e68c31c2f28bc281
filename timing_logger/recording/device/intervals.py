"""Intervals that a block opens and ends: on the host's clock, or between two events of a device.

The duration of work on a device is not known yet when the call that queues it returns. An interval is
therefore queried: ``ask()`` never waits, ``wait()`` does, and ``elapsed_ns`` is None until it is known.
The events return to their pool when the last reference to the interval is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import timing_logger.recording.device.accelerator as _accelerator
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.device.accelerator import Accelerator, DeviceEvent
from timing_logger.recording.device.devices import Device, EventPair, device, is_in_use
from timing_logger.schema.defaults import MAX_BACKWARDS_NS
from timing_logger.schema.record import DEVICE_CLOCK, HOST_CLOCK, NS_PER_MS

if TYPE_CHECKING:
    import torch

TORCH_ERRORS = (RuntimeError, ValueError)
"""The exceptions that torch raises; see :func:`_pass_on_others`."""


class HostInterval:
    """The interval between two readings of the host's clock."""

    __slots__ = ("end_ns", "start_ns")

    def __init__(self) -> None:
        self.end_ns: int | None = None
        self.start_ns = perf_counter_ns()

    def end(self, stream: torch.Stream | None = None) -> None:
        """End the interval now."""
        self.end_ns = perf_counter_ns()

    def wait(self) -> None:
        """Return at once: the end of a host interval is known as soon as it has ended."""

    @property
    def elapsed_ns(self) -> int | None:
        """The duration in ns, None until the interval has ended."""
        return None if self.end_ns is None else self.end_ns - self.start_ns

    @property
    def columns(self) -> Columns:
        """The fields ``start_ns``, ``end_ns`` and ``clock`` of the interval's record."""
        return self.start_ns, self.end_ns, HOST_CLOCK


class DeviceInterval:
    """The interval between two events in a device's stream. Exceptions of torch are noted and not propagated.

    Attributes:
        device: the device of the stream.
        issued_ns: ``perf_counter_ns`` when it was opened: the device cannot have begun before.
        elapsed_ns: the duration in ns; None until it is known.
        ended: whether its end was marked.
        lost: whether the duration will never be known: the pool was exhausted, the stream full, the device
            failed, the end was captured into a graph, or the end came before the start, in another stream.
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
    stream: torch.Stream | None
    _events: Any  # an EventPair; None in a lost interval, whose events nobody asks for

    def __del__(self) -> None:
        events = getattr(self, "_events", None)  # an exception may have come before it was set
        if events is not None:
            self.device.pool.free.append(events)

    @property
    def columns(self) -> Columns:
        """The fields ``start_ns``, ``end_ns`` and ``clock`` of the interval's record.

        The interval itself stands in ``start_ns`` until the flush thread resolves it.
        """
        return self, None, DEVICE_CLOCK

    @property
    def stream_name(self) -> str:
        """The device and stream, such as ``cuda:0/7``; "" if the stream is not known."""
        number = getattr(self.stream, "stream_id", None)
        return "" if number is None else f"{self.device.name}/{number}"

    @property
    def start_event(self) -> DeviceEvent:
        """The event that marks the start; a lost interval may have none."""
        event: DeviceEvent = self._events.start
        return event

    def has_begun(self) -> bool:
        """Tell whether the device has passed the interval's start, or cannot be queried."""
        if self.lost:
            return True
        with self.device.accelerator.asking(self.device.index) as harmless:
            return not harmless or self.start_event.query()

    def end(self, stream: torch.Stream | None = None) -> None:
        """Mark the end in ``stream``; None for the calling thread's current one.

        If the block has left its thread on another device, the end is marked in the current stream of the
        interval's own device.
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

    def _end_in(self, stream: torch.Stream) -> None:
        accelerator = self.device.accelerator
        self.lost, index = accelerator.look_at(stream)
        if not self.lost:
            accelerator.mark(self._events[1], stream, index)

    def marked_in_c(self, issued_ns: int, lost: bool, in_background: bool) -> None:
        """Note what code in C++ did with an interval of ``reserved``: it opened and ended it.

        Args:
            issued_ns: see the class.
            lost: whether it could not mark both.
            in_background: whether the work ran in another stream than the marks.
        """
        self.issued_ns = issued_ns
        self.ended = True
        self.lost = self.lost or lost
        if in_background:
            self.stream = None

    def wait(self) -> None:
        """Wait until the device has passed the end of the interval, and for nothing else on it."""
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
        """Tell whether ``elapsed_ns`` of an interval that has ended is known, or it is lost. Does not wait.

        The caller must be inside a block of :meth:`Accelerator.asking`.
        """
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

    def _measure(self, start: DeviceEvent, end: DeviceEvent) -> None:
        elapsed_ns = round(start.elapsed_time(end) * NS_PER_MS)
        if elapsed_ns < -MAX_BACKWARDS_NS:
            self.lost = True
        else:
            self.elapsed_ns = max(0, elapsed_ns)

    def lose(self, error: Exception) -> None:
        """Mark the interval as lost. After a failure of the device it is not queried any more.

        Raises:
            Exception: ``error`` itself, if torch did not raise it.
        """
        self.lost = True
        _pass_on_others(error)
        self.device.note(error)


Interval = HostInterval | DeviceInterval

Columns: TypeAlias = tuple[int | DeviceInterval, int | None, str]
"""The fields ``start_ns``, ``end_ns`` and ``clock`` of a record, see ``schema/record.py``."""

_new_interval = object.__new__


def open_interval(stream: torch.Stream | None = None) -> Interval | None:
    """Return an interval that begins now, in ``stream`` or the calling thread's current one.

    It uses the host clock if there is no device, if this process has not used one yet, or if the device
    cannot be queried (in a forked child, for example).

    Returns:
        The interval; None while the stream is being captured into a graph.
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


def _on_device(accelerator: Accelerator, stream: torch.Stream | None, issued_ns: int) -> Interval | None:
    """Return an interval on the device of ``stream`` or of the thread; None while the stream is captured."""
    index = accelerator.current_index()
    if stream is None and not (is_in_use(index) or accelerator.has_context(index)):
        stream = _stream_of_the_only_device(accelerator)
        if stream is None:
            return HostInterval()
    if stream is None:
        capturing = accelerator.is_capturing()
    else:
        capturing, index = accelerator.look_at(stream)
    on = device(accelerator, index)
    if capturing:
        on.captured.increment()
        return None
    return _begin_unless_full(on, stream, issued_ns)


def _stream_of_the_only_device(accelerator: Accelerator) -> torch.Stream | None:
    """Return the current stream of the one device that this process uses; None if it uses several, or none.

    A new thread has device 0 as its current one, even if the process works on another. A mark on device 0
    would then take some hundred MB of its memory for a context.
    """
    used = accelerator.used_devices()
    return accelerator.current_stream(used[0]) if len(used) == 1 else None


def _begin_unless_full(on: Device, stream: torch.Stream | None, issued_ns: int) -> DeviceInterval:
    """Return an interval in ``stream`` or the current one; it is lost if the stream is full of marks."""
    occupied = on.accelerator.current_stream(on.index) if stream is None else stream
    marks = on.marks_in(occupied)
    if marks.is_full():
        on.full.increment()
        interval = _begin(on, None, stream, issued_ns)
    else:
        interval = _begin(on, on.pool.take(), stream, issued_ns)
        marks.note(interval)
    interval.stream = occupied
    return interval


def _begin(
    on: Device, events: EventPair | None, stream: torch.Stream | None, issued_ns: int
) -> DeviceInterval:
    interval = new_interval(on, events, stream, issued_ns)
    if events is not None:
        try:
            if stream is None:
                events[0].record()
            else:
                on.accelerator.mark(events[0], stream, on.index)
        except TORCH_ERRORS as error:
            interval.lose(error)
    return interval


def new_interval(
    on: Device, events: EventPair | None, stream: torch.Stream | None, issued_ns: int
) -> DeviceInterval:
    """Return an interval whose start is not marked; it is lost without events."""
    interval = _new_interval(DeviceInterval)  # setting the slots here saves a call to __init__
    interval._events = events
    interval.device = on
    interval.issued_ns = issued_ns
    interval.stream = stream
    interval.elapsed_ns = None
    interval.ended = False
    interval.lost = events is None
    return interval


def _without_looking(accelerator: Accelerator | None, issued_ns: int, error: Exception) -> Interval | None:
    """Return an interval for the case that even a look at the stream raised ``error``."""
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
    """Raise ``error`` again unless torch raised it: a user's signal handler may raise anywhere."""
    kind = type(error)
    if kind not in TORCH_ERRORS and not kind.__module__.startswith("torch"):
        raise error


def wait_for_stream() -> None:
    """Wait until the device has completed what the current stream holds now, and for nothing else."""
    mark = open_interval()
    if mark is not None:
        mark.end()
        mark.wait()


AT_ONCE = 16
"""How many intervals are made at a time: so many blocks share one turn at the interpreter's lock."""


def reserve(stream: torch.Stream) -> list[DeviceInterval]:
    """Return intervals for the next blocks in ``stream``: ``AT_ONCE``, or fewer if the pool lacks events.

    Returns:
        The intervals, none of them marked. A single lost one if no event may or can be recorded in the
        stream now; none while it is being captured into a graph, and if the accelerator is not known.
    """
    accelerator = _accelerator.find_accelerator()
    if accelerator is None:
        return []
    on = device(accelerator, stream.device.index)
    if accelerator.failed:
        return [new_interval(on, None, stream, 0)]
    try:
        capturing, _ = accelerator.look_at(stream)
    except TORCH_ERRORS as error:
        on.note(error)
        capturing = _accelerator.is_about_capture(error)
        if not capturing:
            return [new_interval(on, None, stream, 0)]
    if capturing:
        on.captured.increment()
        return []
    return _unless_full(on, stream)


def _unless_full(on: Device, stream: torch.Stream) -> list[DeviceInterval]:
    marks = on.marks_in(stream)
    if marks.is_full():
        on.full.increment()
        return [new_interval(on, None, stream, 0)]
    made = [new_interval(on, pair, stream, 0) for pair in on.pool.take_some(AT_ONCE)]
    if not made:
        return [new_interval(on, None, stream, 0)]
    marks.note(made[0], len(made))
    return made

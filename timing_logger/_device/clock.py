"""Where a device's instants stand on the ``perf_counter_ns`` axis.

An anchor is an event in a stream that holds nothing else: it passes within microseconds, between
the moment it was issued and the moment it was first seen done. Half of that span is its
uncertainty. Nothing is synchronised, and the training's streams are left alone.

CUDA gives the time between two events as a float32 of milliseconds, whose resolution is 0.25 ms
after an hour and 0.5 us after five seconds: so anchors are renewed every few seconds, and an instant
is placed by the one that is nearest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from timing_logger._clock import perf_counter_ns
from timing_logger._device.accelerator import is_about_capture
from timing_logger._device.devices import Device
from timing_logger._device.intervals import TORCH_ERRORS, DeviceInterval
from timing_logger.record import NS_PER_MS
from timing_logger.run_info import DeviceAnchor, DeviceClockInfo

RENEW_NS = 2_000_000_000
"""Age at which an anchor gets a successor."""

_TRIES = 4
_PATIENCE_NS = 200_000
_MARKS_KEPT = 16
_ANCHORS_KEPT = 100
_DRIFT = 20e-6  # what an old anchor may have gone wrong by: a bad new one is no better


class _Mark(NamedTuple):
    """An event, and when it passed."""

    event: Any
    at_ns: int
    uncertainty_ns: int


class DeviceClock:
    """The mapping for one device; used by one thread at a time, and only while it is asking."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._stream: Any = None
        self._issued: tuple[Any, int] | None = None
        self._refused = ""
        self._marks: list[_Mark] = []
        self._anchors: list[DeviceAnchor] = []
        self._worst_uncertainty_ns = 0
        self._worst_miss_ns = 0
        self._farthest_ns = 0

    def renew(self) -> None:
        """Set a new anchor if the last one is old. On a device too busy for it, look again next time."""
        if self._refused or (self._marks and perf_counter_ns() - self._marks[-1].at_ns < RENEW_NS):
            return
        try:
            self._set_anchor()
        except TORCH_ERRORS as error:
            self._note(error)

    def place(self, interval: DeviceInterval) -> int | None:
        """Start of a finished interval in ``perf_counter_ns``; None as long as no anchor has been set.

        Where torch will set none, it is the moment at which the interval was issued.
        """
        if self._marks:
            mark = min(self._marks, key=lambda mark: abs(mark.at_ns - interval.issued_ns))
            try:
                distance_ns = _ns_between(mark.event, interval.start_event)
            except TORCH_ERRORS as error:
                self._note(error)
                return interval.issued_ns
            self._farthest_ns = max(self._farthest_ns, abs(distance_ns))
            return max(0, mark.at_ns + distance_ns)
        return interval.issued_ns if self._refused else None

    def info(self) -> DeviceClockInfo:
        """What the sidecar says of it."""
        device = self._device
        return DeviceClockInfo(
            device=device.name,
            anchors=list(self._anchors),
            worst_uncertainty_ns=self._worst_uncertainty_ns,
            worst_miss_ns=self._worst_miss_ns,
            farthest_from_anchor_ns=self._farthest_ns,
            event_pairs=device.pool.made,
            captured=device.captured.value,
            exhausted=device.pool.exhausted.value,
            failure=device.failed or self._refused,
        )

    def _set_anchor(self) -> None:
        found = []
        for _ in range(_TRIES):
            mark = self._try_to_mark()
            if mark is None:
                break
            found.append(mark)
        if found:
            self._accept(min(found, key=lambda mark: mark.uncertainty_ns))

    def _note(self, error: Exception) -> None:
        """A clock that gets no anchor is no reason to lose durations; one that has some goes on with them."""
        self._issued = None
        self._device.note(error)
        if not self._marks and not is_about_capture(error):
            self._refused = repr(error)

    def _try_to_mark(self) -> _Mark | None:
        """A mark; None if it does not pass at once, and then it is looked at again the next time."""
        event, before_ns = self._issued or self._issue()
        now_ns = begun_ns = perf_counter_ns()
        while event is not None and now_ns - begun_ns < _PATIENCE_NS:
            passed = event.query()
            now_ns = perf_counter_ns()
            if passed:
                self._issued = None
                return _Mark(event, (before_ns + now_ns) // 2, (now_ns - before_ns + 1) // 2)
        return None

    def _issue(self) -> tuple[Any, int]:
        accelerator, index = self._device.accelerator, self._device.index
        if self._stream is None:
            self._stream = accelerator.new_stream(index)
        if accelerator.look_at(self._stream)[0]:  # somebody was given the same, and captures it
            return None, 0
        event = accelerator.new_event()
        self._issued = event, perf_counter_ns()
        event.record(self._stream)
        return self._issued

    def _accept(self, mark: _Mark) -> None:
        last = self._marks[-1] if self._marks else None
        missed_by_ns = 0
        if last is not None:
            age_ns = mark.at_ns - last.at_ns
            if mark.uncertainty_ns > last.uncertainty_ns + age_ns * _DRIFT:
                return
            missed_by_ns = age_ns - _ns_between(last.event, mark.event)
        self._marks = [*self._marks[1 - _MARKS_KEPT :], mark]
        self._anchors.append(DeviceAnchor(mark.at_ns, mark.uncertainty_ns, missed_by_ns))
        del self._anchors[:-_ANCHORS_KEPT]
        self._worst_uncertainty_ns = max(self._worst_uncertainty_ns, mark.uncertainty_ns)
        self._worst_miss_ns = max(self._worst_miss_ns, abs(missed_by_ns))


def _ns_between(first: Any, second: Any) -> int:
    elapsed_ms: float = first.elapsed_time(second)
    return round(elapsed_ms * NS_PER_MS)

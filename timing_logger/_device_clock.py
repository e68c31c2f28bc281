"""Where a device's instants stand on the ``perf_counter_ns`` axis.

An anchor is an event in a stream that holds nothing else: it passes within microseconds, between
the moment it was issued and the moment it was first seen done. Half of that span is its
uncertainty. Nothing is synchronised, and the training's streams are left alone.

CUDA gives the time between two events as a float32 of milliseconds, whose resolution is 0.25 ms
after an hour and 0.5 us after five seconds: so anchors are renewed every few seconds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from timing_logger._clock import perf_counter_ns
from timing_logger._devices import Device
from timing_logger._intervals import DeviceInterval
from timing_logger.record import NS_PER_MS
from timing_logger.run_info import DeviceAnchor, DeviceClockInfo

RENEW_NS = 2_000_000_000
"""Age at which an anchor is replaced."""

_TRIES = 4
_PATIENCE_NS = 200_000
_KEPT = 100


class _Mark(NamedTuple):
    """An event, and when it passed."""

    event: Any
    at_ns: int
    uncertainty_ns: int


class DeviceClock:
    """The mapping for one device; used by one thread at a time."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._stream: Any = None
        self._mark: _Mark | None = None
        self._anchors: list[DeviceAnchor] = []
        self._worst_uncertainty_ns = 0
        self._worst_miss_ns = 0

    def renew(self) -> None:
        """Set a new anchor if the last one is old; on a device too busy for it, next time.

        Raises:
            Exception: what the device said.
        """
        last = self._mark
        if last is not None and perf_counter_ns() - last.at_ns < RENEW_NS:
            return
        if self._stream is None:
            self._stream = self._device.accelerator.new_stream(self._device.index)
        marks = [found for _ in range(_TRIES) if (found := self._try_to_mark()) is not None]
        if marks:
            self._mark = min(marks, key=lambda found: found.uncertainty_ns)
            self._note(last, self._mark)

    def place(self, interval: DeviceInterval) -> tuple[int, int] | None:
        """Start and end of a finished interval in ``perf_counter_ns``; None before the first anchor.

        Raises:
            Exception: what the device said.
        """
        if self._mark is None or interval.elapsed_ns is None:
            return None
        start_ns = max(0, self._mark.at_ns + _ns_between(self._mark.event, interval.start_event))
        return start_ns, start_ns + interval.elapsed_ns

    def info(self) -> DeviceClockInfo:
        """What the sidecar says of it."""
        device = self._device
        return DeviceClockInfo(
            device=device.name,
            anchors=list(self._anchors),
            worst_uncertainty_ns=self._worst_uncertainty_ns,
            worst_miss_ns=self._worst_miss_ns,
            event_pairs=device.pool.made,
            captured=device.captured.value,
            exhausted=device.pool.exhausted.value,
            failure=device.failed,
        )

    def _try_to_mark(self) -> _Mark | None:
        event = self._device.accelerator.new_event()
        before_ns = now_ns = perf_counter_ns()
        event.record(self._stream)
        while now_ns - before_ns < _PATIENCE_NS:
            passed = event.query()
            now_ns = perf_counter_ns()
            if passed:
                return _Mark(event, (before_ns + now_ns) // 2, (now_ns - before_ns + 1) // 2)
        return None

    def _note(self, last: _Mark | None, mark: _Mark) -> None:
        missed_by_ns = 0 if last is None else mark.at_ns - last.at_ns - _ns_between(last.event, mark.event)
        self._anchors.append(DeviceAnchor(mark.at_ns, mark.uncertainty_ns, missed_by_ns))
        del self._anchors[:-_KEPT]
        self._worst_uncertainty_ns = max(self._worst_uncertainty_ns, mark.uncertainty_ns)
        self._worst_miss_ns = max(self._worst_miss_ns, abs(missed_by_ns))


def _ns_between(first: Any, second: Any) -> int:
    elapsed_ms: float = first.elapsed_time(second)
    return round(elapsed_ms * NS_PER_MS)

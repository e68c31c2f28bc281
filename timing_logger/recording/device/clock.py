"""Map a device's instants to the ``perf_counter_ns`` axis.

An anchor is an event in a stream that holds nothing else. It passes within microseconds, between the moment
it was issued and the moment it was first seen done. Half of that span is its uncertainty. Nothing is
synchronised, and the training's streams are left alone.

CUDA states the time between two events as a float32 of milliseconds, whose resolution is 0.25 ms after an
hour and 0.5 us after five seconds. Anchors are therefore renewed every few seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.device.accelerator import DeviceEvent, is_about_capture
from timing_logger.recording.device.devices import Device
from timing_logger.recording.device.intervals import TORCH_ERRORS, DeviceInterval
from timing_logger.schema.defaults import (
    DEVICE_ANCHOR_EVERY_NS,
    DEVICE_CLOCK_DRIFT,
    GOOD_ANCHOR_NS,
    MAX_DEVICE_CLOCK_DRIFT,
)
from timing_logger.schema.record import NS_PER_MS
from timing_logger.schema.sidecar import DeviceAnchor, DeviceClockInfo

if TYPE_CHECKING:
    import torch

_FIRST_RENEWAL_NS = 250_000_000
_TRIES = 4
_PATIENCE_NS = 200_000
_PATIENT_LOOKS = 3  # how often a worse first anchor is left in the hope of a better one
_ANCHORS_KEPT = 100


class DeviceClock:
    """The clock mapping of one device, for one thread at a time, and only while that is asking the device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._stream: torch.Stream | None = None
        self._issued: tuple[DeviceEvent, int] | None = None
        self._refused = ""
        self._line = AnchorLine()
        self._first_ones: list[Mark] = []  # candidates for the first anchor, none good enough so far
        self._looks = 0
        self._anchors: list[DeviceAnchor] = []
        self._worst_uncertainty_ns = 0
        self._worst_miss_ns = 0
        self._farthest_ns = 0

    def renew(self) -> None:
        """Set a new anchor if the last one is old. A device too busy for it is tried again next time."""
        if self._refused or not self._is_due():
            return
        try:
            self._set_anchor()
        except TORCH_ERRORS as error:
            self._note(error)

    def place(self, interval: DeviceInterval) -> int | None:
        """Return the start of a finished interval in ``perf_counter_ns``; None while no anchor has been set.

        The start is never before the interval was issued. If torch cannot set or use anchors, it is that
        moment.
        """
        if not self._line.marks:
            return interval.issued_ns if self._refused else None
        try:
            start_ns, distance_ns = self._line.place(interval.start_event, interval.issued_ns)
        except TORCH_ERRORS as error:
            self._note(error)
            return interval.issued_ns
        self._farthest_ns = max(self._farthest_ns, abs(distance_ns))
        return max(interval.issued_ns, start_ns)

    def info(self) -> DeviceClockInfo:
        """Return the content of the sidecar for this clock."""
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
            full=device.full.value,
            failure=device.failed or self._refused,
        )

    def _is_due(self) -> bool:
        """Tell whether a new anchor is due: soon after the first, then ever later, up to 2 s."""
        marks = self._line.marks
        if not marks:
            return True
        known_for_ns = marks[-1].at_ns - marks[0].at_ns
        return perf_counter_ns() - marks[-1].at_ns >= min(
            DEVICE_ANCHOR_EVERY_NS, max(_FIRST_RENEWAL_NS, known_for_ns)
        )

    def _set_anchor(self) -> None:
        found = []
        for _ in range(_TRIES):
            mark = self._try_to_mark()
            if mark is None:
                break
            found.append(mark)
        if not self._line.marks:
            self._accept_first(found)
        elif found:
            self._accept_unless_poor(min(found, key=lambda mark: mark.uncertainty_ns))

    def _note(self, error: Exception) -> None:
        """Drop the pending anchor and remember the error.

        A clock without any anchor is marked as refused, so that durations are still written; one that has
        anchors continues with them.
        """
        self._issued = None
        self._device.note(error)
        if not self._line.marks and not is_about_capture(error):
            self._refused = repr(error)

    def _try_to_mark(self) -> Mark | None:
        """Return a mark; None if its event does not pass at once. It is then checked again next time."""
        event, before_ns = self._issued or self._issue()
        now_ns = begun_ns = perf_counter_ns()
        while event is not None and now_ns - begun_ns < _PATIENCE_NS:
            passed = event.query()
            now_ns = perf_counter_ns()
            if passed:
                self._issued = None
                return Mark(event, (before_ns + now_ns) // 2, (now_ns - before_ns + 1) // 2)
        return None

    def _issue(self) -> tuple[DeviceEvent | None, int]:
        accelerator, index = self._device.accelerator, self._device.index
        if self._stream is None:
            self._stream = accelerator.new_stream(index)
        if accelerator.look_at(self._stream)[0]:  # torch gave other code the same stream, and it is captured
            return None, 0
        event = accelerator.new_event()
        self._issued = event, perf_counter_ns()
        event.record(self._stream)
        return self._issued

    def _accept_first(self, found: list[Mark]) -> None:
        """Accept the best of the first marks if it is good, or after several looks without a good one.

        A busy host may see a mark long after it passed, so a poor one is not accepted at once.
        """
        self._first_ones += found
        self._looks += bool(self._first_ones)
        best = min(self._first_ones, key=lambda mark: mark.uncertainty_ns, default=None)
        if best is not None and (best.uncertainty_ns <= GOOD_ANCHOR_NS or self._looks > _PATIENT_LOOKS):
            self._accept(best)
            self._first_ones.clear()

    def _accept_unless_poor(self, mark: Mark) -> None:
        """Accept ``mark`` unless the last mark, extrapolated to that time, is less uncertain."""
        last = self._line.marks[-1]
        if mark.uncertainty_ns <= last.uncertainty_ns + (mark.at_ns - last.at_ns) * DEVICE_CLOCK_DRIFT:
            self._accept(mark)

    def _accept(self, mark: Mark) -> None:
        missed_by_ns = self._line.add(mark)
        self._anchors.append(DeviceAnchor(mark.at_ns, mark.uncertainty_ns, missed_by_ns))
        del self._anchors[:-_ANCHORS_KEPT]
        self._worst_uncertainty_ns = max(self._worst_uncertainty_ns, mark.uncertainty_ns)
        self._worst_miss_ns = max(self._worst_miss_ns, abs(missed_by_ns))


# -- anchors: moments known on a device's clock and on ``perf_counter``, and the line through them -------
# The two clocks run at slightly different rates. Between two anchors an instant is interpolated; after the
# last one it is extrapolated at the rate measured so far.


_KEPT = 16


class Mark(NamedTuple):
    """An event that has passed.

    Attributes:
        at_ns: when it passed, in ``perf_counter_ns``.
        uncertainty_ns: the uncertainty of ``at_ns``.
        device_ns: the same moment on the device's axis, on which the first anchor is at 0.
    """

    event: DeviceEvent
    at_ns: int
    uncertainty_ns: int
    device_ns: int = 0


class AnchorLine:
    """The latest anchors of one device, in ascending order, by which its instants are mapped to the host."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self._rate = 1.0

    def add(self, mark: Mark) -> int:
        """Add a later mark. Return by how many ns the line, extrapolated to the mark, was off."""
        missed_by_ns = 0
        if self.marks:
            last = self.marks[-1]
            mark = mark._replace(device_ns=last.device_ns + ns_between(last.event, mark.event))
            missed_by_ns = mark.at_ns - self._host_ns(mark.device_ns)
        self.marks = [*self.marks[1 - _KEPT :], mark]
        self._rate = _best_rate(self.marks)
        return missed_by_ns

    def place(self, event: DeviceEvent, issued_ns: int) -> tuple[int, int]:
        """Return when ``event`` passed, in ``perf_counter_ns``, and its distance in ns from the anchor used.

        Args:
            issued_ns: when the event was issued: the device passed it then, or later.
        """
        nearest = min(self.marks, key=lambda mark: abs(mark.at_ns - issued_ns))
        distance_ns = ns_between(nearest.event, event)
        device_ns = nearest.device_ns + distance_ns
        # A float32 of ms is coarse over long distances: an event that waited for long is measured again
        # from the anchor closest to when it passed.
        beside = min(self.marks, key=lambda mark: abs(mark.device_ns - device_ns))
        if beside is not nearest:
            distance_ns = ns_between(beside.event, event)
            device_ns = beside.device_ns + distance_ns
        return self._host_ns(device_ns), distance_ns

    def _host_ns(self, device_ns: int) -> int:
        after = bisect_right(self.marks, device_ns, key=lambda mark: mark.device_ns)
        last = self.marks[max(0, after - 1)]
        rate = self._rate if after in (0, len(self.marks)) else _rate(last, self.marks[after])
        return last.at_ns + round((device_ns - last.device_ns) * rate)


def ns_between(first: DeviceEvent, second: DeviceEvent) -> int:
    """Return the time in ns from one event to another, on the device's clock."""
    elapsed_ms: float = first.elapsed_time(second)
    return round(elapsed_ms * NS_PER_MS)


def _best_rate(marks: list[Mark]) -> float:
    """Return the host's ns per ns of the device, from the earlier anchor that gives the least error.

    The rate is that from this anchor to the last. It is 1 if there is one anchor only, or if the error
    exceeds ``DEVICE_CLOCK_DRIFT``.
    """
    *earlier, last = marks
    first = min(earlier, key=lambda mark: _rate_error(mark, last), default=None)
    return 1.0 if first is None or _rate_error(first, last) > DEVICE_CLOCK_DRIFT else _rate(first, last)


def _rate(first: Mark, second: Mark) -> float:
    rate = (second.at_ns - first.at_ns) / max(1, second.device_ns - first.device_ns)
    return rate if abs(rate - 1) <= MAX_DEVICE_CLOCK_DRIFT else 1.0


def _rate_error(first: Mark, second: Mark) -> float:
    return (first.uncertainty_ns + second.uncertainty_ns) / max(1, second.at_ns - first.at_ns)

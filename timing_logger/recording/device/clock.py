"""Map a device's instants to the ``perf_counter_ns`` axis.

An anchor is an event in a stream that holds nothing else. It passes within microseconds, between the moment
it was issued and the moment it was first seen done. Half of that span is its uncertainty. Nothing is
synchronised, and the training's streams are left alone.

CUDA states the time between two events as a float32 of milliseconds, whose resolution is 0.25 ms after an
hour and 0.5 us after five seconds. Anchors are therefore renewed every few seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.device.accelerator import Event, is_about_capture
from timing_logger.recording.device.anchors import DRIFT, AnchorLine, Mark
from timing_logger.recording.device.devices import Device
from timing_logger.recording.device.intervals import TORCH_ERRORS, DeviceInterval
from timing_logger.run_info import DeviceAnchor, DeviceClockInfo

if TYPE_CHECKING:
    import torch

RENEW_NS = 2_000_000_000
"""Age in ns at which an anchor is followed by a new one."""

_FIRST_RENEWAL_NS = 250_000_000
_TRIES = 4
_PATIENCE_NS = 200_000
_GOOD_NS = 100_000  # the largest uncertainty of a first anchor that is accepted at once
_PATIENT_LOOKS = 3  # how often a worse first anchor is left in the hope of a better one
_ANCHORS_KEPT = 100


class DeviceClock:
    """The clock mapping of one device, for one thread at a time, and only while that is asking the device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._stream: torch.Stream | None = None
        self._issued: tuple[Event, int] | None = None
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
        return perf_counter_ns() - marks[-1].at_ns >= min(RENEW_NS, max(_FIRST_RENEWAL_NS, known_for_ns))

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
            self._accept_unless_poor(min(found, key=_uncertainty_ns))

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

    def _issue(self) -> tuple[Event | None, int]:
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
        best = min(self._first_ones, key=_uncertainty_ns, default=None)
        if best is not None and (best.uncertainty_ns <= _GOOD_NS or self._looks > _PATIENT_LOOKS):
            self._accept(best)
            self._first_ones.clear()

    def _accept_unless_poor(self, mark: Mark) -> None:
        """Accept ``mark`` unless the last mark, extrapolated to that time, is less uncertain."""
        last = self._line.marks[-1]
        if mark.uncertainty_ns <= last.uncertainty_ns + (mark.at_ns - last.at_ns) * DRIFT:
            self._accept(mark)

    def _accept(self, mark: Mark) -> None:
        missed_by_ns = self._line.add(mark)
        self._anchors.append(DeviceAnchor(mark.at_ns, mark.uncertainty_ns, missed_by_ns))
        del self._anchors[:-_ANCHORS_KEPT]
        self._worst_uncertainty_ns = max(self._worst_uncertainty_ns, mark.uncertainty_ns)
        self._worst_miss_ns = max(self._worst_miss_ns, abs(missed_by_ns))


def _uncertainty_ns(mark: Mark) -> int:
    return mark.uncertainty_ns

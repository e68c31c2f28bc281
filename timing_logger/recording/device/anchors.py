"""Anchors, which are moments known on a device's clock and on ``perf_counter``, and the line through them.

The two clocks run at slightly different rates. Between two anchors an instant is interpolated; after the last
one it is extrapolated at the rate measured so far.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from timing_logger.record import NS_PER_MS
from timing_logger.recording.device.accelerator import Event

DRIFT = 20e-6
"""The assumed difference between the rates of two clocks until a better value is known: 20 us per second."""

_MOST_OFF = 1e-3
"""The largest plausible difference between the rates, even of a clock slewed by NTP.

A larger one means that one of the two clocks stood still for a while, as in a suspended machine, and says
nothing about their rates.
"""

_KEPT = 16


class Mark(NamedTuple):
    """An event that has passed.

    Attributes:
        at_ns: when it passed, in ``perf_counter_ns``.
        uncertainty_ns: the uncertainty of ``at_ns``.
        device_ns: the same moment on the device's axis, on which the first anchor is at 0.
    """

    event: Event
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

    def place(self, event: Event, issued_ns: int) -> tuple[int, int]:
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


def ns_between(first: Event, second: Event) -> int:
    """Return the time in ns from one event to another, on the device's clock."""
    elapsed_ms: float = first.elapsed_time(second)
    return round(elapsed_ms * NS_PER_MS)


def _best_rate(marks: list[Mark]) -> float:
    """Return the host's ns per ns of the device, from the earlier anchor that gives the least error.

    The rate is that from this anchor to the last. It is 1 if there is one anchor only, or if the error
    exceeds :data:`DRIFT`.
    """
    *earlier, last = marks
    first = min(earlier, key=lambda mark: _rate_error(mark, last), default=None)
    return 1.0 if first is None or _rate_error(first, last) > DRIFT else _rate(first, last)


def _rate(first: Mark, second: Mark) -> float:
    rate = (second.at_ns - first.at_ns) / max(1, second.device_ns - first.device_ns)
    return rate if abs(rate - 1) <= _MOST_OFF else 1.0


def _rate_error(first: Mark, second: Mark) -> float:
    return (first.uncertainty_ns + second.uncertainty_ns) / max(1, second.at_ns - first.at_ns)

"""Anchors: moments known on a device's clock and on ``perf_counter``, and the line through them.

The two clocks run at slightly different rates, so between two anchors an instant is interpolated, and
after the last one the rate goes on that was measured so far.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, NamedTuple

from timing_logger.record import NS_PER_MS

DRIFT = 20e-6
"""What the rates of two clocks differ by, as long as nothing better is known: 20 us in a second."""

_MOST_OFF = 1e-3
"""No clock is off by more, slewed by NTP or not: one of the two stood still for a while, as in a suspended
machine, and that says nothing of their rates."""

_KEPT = 16


class Mark(NamedTuple):
    """An event that has passed.

    Attributes:
        at_ns: when, in ``perf_counter_ns``.
        uncertainty_ns: of that.
        device_ns: the same moment on the device's axis, on which the first anchor is at 0.
    """

    event: Any
    at_ns: int
    uncertainty_ns: int
    device_ns: int = 0


class AnchorLine:
    """The latest anchors of one device, ascending, and where an instant stands that was seen beside them."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self._rate = 1.0

    def add(self, mark: Mark) -> int:
        """Take a later mark in. Returns by how many ns the line, carried on to it, was off."""
        missed_by_ns = 0
        if self.marks:
            last = self.marks[-1]
            mark = mark._replace(device_ns=last.device_ns + ns_between(last.event, mark.event))
            missed_by_ns = mark.at_ns - self._host_ns(mark.device_ns)
        self.marks = [*self.marks[1 - _KEPT :], mark]
        self._rate = _best_rate(self.marks)
        return missed_by_ns

    def place(self, event: Any, issued_ns: int) -> tuple[int, int]:
        """When ``event`` passed, in ``perf_counter_ns``, and how far from the anchor that was asked.

        Args:
            issued_ns: when it was issued: the device passed it then, or later.
        """
        nearest = min(self.marks, key=lambda mark: abs(mark.at_ns - issued_ns))
        distance_ns = ns_between(nearest.event, event)
        device_ns = nearest.device_ns + distance_ns
        # A float32 of ms is coarse far away: what waited for long is asked of the anchor beside it.
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


def ns_between(first: Any, second: Any) -> int:
    """From one event to another, on the device's clock."""
    elapsed_ms: float = first.elapsed_time(second)
    return round(elapsed_ms * NS_PER_MS)


def _best_rate(marks: list[Mark]) -> float:
    """Nanoseconds of the host for one of the device, from that anchor to the last which tells it best."""
    *earlier, last = marks
    first = min(earlier, key=lambda mark: _rate_error(mark, last), default=None)
    return 1.0 if first is None or _rate_error(first, last) > DRIFT else _rate(first, last)


def _rate(first: Mark, second: Mark) -> float:
    rate = (second.at_ns - first.at_ns) / max(1, second.device_ns - first.device_ns)
    return rate if abs(rate - 1) <= _MOST_OFF else 1.0


def _rate_error(first: Mark, second: Mark) -> float:
    return (first.uncertainty_ns + second.uncertainty_ns) / max(1, second.at_ns - first.at_ns)

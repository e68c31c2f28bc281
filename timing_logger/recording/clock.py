"""The host clock: durations from ``perf_counter_ns``, and wall-clock time mapped from it.

A step of the wall clock therefore changes later timestamps, and never a duration.
"""

from __future__ import annotations

import time

from timing_logger.schema.defaults import CLOCK_STEP_NS
from timing_logger.schema.sidecar import ClockAnchor

perf_counter_ns = time.perf_counter_ns
unix_ns = time.time_ns

_MAX_ANCHORS = 1000


def read_anchor(tries: int = 5) -> ClockAnchor:
    """Read both clocks at one moment: of ``tries`` readings, return the one that took the least time."""
    return min((_read_pair() for _ in range(tries)), key=lambda anchor: anchor.uncertainty_ns)


def _read_pair() -> ClockAnchor:
    before = perf_counter_ns()
    wall = unix_ns()
    after = perf_counter_ns()
    return ClockAnchor((before + after) // 2, wall, (after - before + 1) // 2)


class WallClock:
    """Maps ``perf_counter_ns`` to Unix time, and detects steps of the wall clock.

    Attributes:
        anchors: the first anchor read, and one for every later step of more than 1 ms (the latest 1000 of
            all).
    """

    def __init__(self) -> None:
        self.anchors = [read_anchor()]

    def wall_offset_ns(self) -> int:
        """Return Unix time minus ``perf_counter_ns``, in nanoseconds, as of now."""
        anchor = read_anchor()
        if (
            abs(anchor.wall_offset_ns - self.anchors[-1].wall_offset_ns)
            > CLOCK_STEP_NS + anchor.uncertainty_ns
        ):
            self.anchors.append(anchor)
            del self.anchors[1 : max(1, len(self.anchors) - _MAX_ANCHORS + 1)]
        return self.anchors[-1].wall_offset_ns

"""Axes of charts: from a value to a place, and where labels are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

_MOST_TICKS = 6
_LEAST_SPAN = 1e-9


class Tick(NamedTuple):
    """A label of an axis, and where it is."""

    at: float
    label: str


class ChartAxis(NamedTuple):
    """A linear axis.

    Attributes:
        low, high: the values at its ends.
        start, end: the places of its ends, in percent of the width or in pixels.
    """

    low: float
    high: float
    start: float = 0.0
    end: float = 100.0

    @classmethod
    def around(
        cls, values: Sequence[float], start: float = 0.0, end: float = 100.0, part: float = 0.05
    ) -> ChartAxis:
        """Return the axis of some values, with a part of their span left free at both ends.

        Values that are all alike stand in the middle.
        """
        low, high = min(values), max(values)
        free = part * (high - low) or max(abs(high), 1.0) * 0.05
        return cls(low - free, high + free, start, end)

    def at(self, value: float) -> float:
        """Return the place of a value; what lies beyond an end is at that end."""
        span = max(self.high - self.low, _LEAST_SPAN)
        within = min(max((value - self.low) / span, 0.0), 1.0)
        return round(self.start + within * (self.end - self.start), 3)

    def ticks(self, signed: bool = False) -> list[Tick]:
        """Return the labels: round numbers, at most six."""
        span = self.high - self.low
        magnitude = 10.0 ** math.floor(math.log10(max(span, _LEAST_SPAN)))
        by = next(at for f in (0.1, 0.2, 0.5, 1, 2, 5) if span / (at := f * magnitude) <= _MOST_TICKS)
        numbers = range(math.ceil(self.low / by), math.floor(self.high / by) + 1)
        return [Tick(self.at(number * by), _label(number * by, signed)) for number in numbers]


def _label(value: float, signed: bool) -> str:
    shown = f"{value:+,.6g}" if signed else f"{value:,.6g}"
    return "0" if float(shown.replace(",", "")) == 0 else shown

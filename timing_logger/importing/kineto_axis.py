"""When things were, on the axis of the rows, and in which step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from timing_logger.importing.kineto_events import Kept, Launches, Span

Floats = npt.NDArray[np.float64]


class Axis:
    """Maps instants of a trace, in us, to those of rows, in ns, and to steps.

    Args:
        offset_ns: the instant of a row where the trace has 0.
        steps: the steps of the profiler by number.
    """

    def __init__(self, offset_ns: int, steps: dict[int, Span]) -> None:
        self._offset_ns = offset_ns
        in_order = sorted(steps.items(), key=lambda step: step[1].start_us)
        self._numbers = [number for number, _ in in_order]
        self._starts_us = np.array([span.start_us for _, span in in_order])
        self._ends_us = np.array([span.end_us for _, span in in_order])

    def interval_ns(self, span: Span) -> tuple[int, int]:
        """Return start and end of a span in ns; none is before the beginning of the axis."""
        start_ns = max(0, self._offset_ns + round(span.start_us * 1e3))
        return start_ns, max(start_ns, self._offset_ns + round(span.end_us * 1e3))

    def steps_at(self, at_us: Sequence[float] | Floats) -> list[int | None]:
        """Return the number of the step at each instant; None outside of any."""
        instants = np.asarray(at_us, np.float64)
        place = np.searchsorted(self._starts_us, instants, side="right") - 1
        if not len(self._numbers):
            return [None] * len(instants)
        inside = (place >= 0) & (instants <= self._ends_us[place])
        return [self._numbers[i] if within else None for i, within in zip(place, inside, strict=True)]

    def step_at(self, at_us: float) -> int | None:
        """Return the number of the step at an instant; None outside of any."""
        return self.steps_at([at_us])[0]


class LaunchTimes:
    """When work for devices was launched."""

    def __init__(self, launches: Launches) -> None:
        correlations = np.array(launches.correlations, np.int64)
        order = np.argsort(correlations, kind="stable")
        self._correlations, self._at_us = correlations[order], np.array(launches.at_us)[order]

    def of(self, correlations: Sequence[int], started_us: Sequence[float]) -> Floats:
        """Return when each was launched; where that is not known, when it started."""
        wanted, started = np.asarray(correlations, np.int64), np.asarray(started_us, np.float64)
        if not len(self._correlations):
            return started
        place = np.searchsorted(self._correlations, wanted).clip(max=len(self._correlations) - 1)
        return np.where(self._correlations[place] == wanted, self._at_us[place], started)


def first_instant_us(kept: Kept) -> float:
    """Return the first instant of what was kept of a trace; 0 if nothing was."""
    spans = [*kept.steps.values(), *(one.span for one in kept.annotations)]
    spans += [one.span for one in (*kept.gloo, *kept.kernels)]
    starts = [lane.starts_us for lane in kept.threads.values()]
    starts += [lane.starts_us for lane in kept.streams.values()]
    return min([*(span.start_us for span in spans), *map(min, starts)], default=0.0)

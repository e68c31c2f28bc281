"""Count the marks in a stream that the device has not passed: another mark in a full stream would block.

A stream takes about a thousand launches and marks. The next call then waits until the device makes progress.
Torch holds the interpreter's lock during that wait, so every thread of the process would stand still.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Protocol
from weakref import ref

MOST_INTERVALS = 256
"""The most intervals, of two marks each, that wait in one stream; the rest is left to the training."""

_MILESTONE = 32


class _Interval(Protocol):
    """An interval in a stream, between two marks."""

    def has_begun(self) -> bool:
        """Query the device whether it has passed the first mark."""


class StreamMarks:
    """Counts the intervals of one stream. Threads that use a stream at once may miscount by a few."""

    def __init__(self) -> None:
        self._begun = 0
        self._passed = 0
        self._milestones: deque[tuple[int, ref[_Interval]]] = deque()

    def note(self, interval: _Interval, count: int = 1) -> None:
        """Count ``interval`` as begun, and so many in all: the others follow it in the stream."""
        before, self._begun = self._begun, self._begun + count
        if before // _MILESTONE != self._begun // _MILESTONE:
            self._milestones.append((before + 1, ref(interval)))

    def is_full(self) -> bool:
        """Tell whether the number of waiting intervals has reached its limit."""
        if self._begun - self._passed < MOST_INTERVALS:
            return False
        with suppress(IndexError):  # another thread was quicker
            # The device was asked about an interval without references when it was resolved: it has begun.
            while (interval := self._milestones[0][1]()) is None or interval.has_begun():
                self._passed = self._milestones.popleft()[0]
        return self._begun - self._passed >= MOST_INTERVALS

"""How many marks a stream holds that the device has not passed: one more in a full stream blocks.

A stream takes about a thousand launches and marks. Then the next call waits until the device gets on, and
torch's mark holds the interpreter's lock meanwhile: every thread of the process would stand still.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import ref

MOST_INTERVALS = 256
"""At most so many intervals, of two marks each, wait in one stream; the rest is left to the training."""

_MILESTONE = 32


class StreamMarks:
    """The intervals of one stream, counted; threads that use one stream at once may miscount by a few."""

    def __init__(self) -> None:
        self._begun = 0
        self._passed = 0
        self._milestones: deque[tuple[int, ref[Any]]] = deque()

    def note(self, interval: Any) -> None:
        """One more has begun."""
        self._begun += 1
        if self._begun % _MILESTONE == 0:
            self._milestones.append((self._begun, ref(interval)))

    def is_full(self, has_begun: Callable[[Any], bool]) -> bool:
        """Whether as many wait as may.

        Args:
            has_begun: asks the device whether it has passed the first mark of an interval.
        """
        if self._begun - self._passed < MOST_INTERVALS:
            return False
        with suppress(IndexError):  # another thread was quicker
            while self._has_passed(self._milestones[0][1](), has_begun):
                self._passed = self._milestones.popleft()[0]
        return self._begun - self._passed >= MOST_INTERVALS

    def _has_passed(self, interval: Any, has_begun: Callable[[Any], bool]) -> bool:
        """One that nobody holds any more was asked for its duration."""
        return interval is None or has_begun(interval)

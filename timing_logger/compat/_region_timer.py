"""The timer of one named region of a program; ``RegionTimers`` creates them."""

from __future__ import annotations

import functools
import math
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

from timing_logger.compat._interval_sums import IntervalSums
from timing_logger.compat._region_settings import Settings, check_timeable
from timing_logger.errors import ConfigurationError, TimerNotStartedError
from timing_logger.recording.cores.channel import AtomicCounter
from timing_logger.recording.device.intervals import HostInterval, Interval, open_interval, wait_for_stream
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import NS_PER_MS, NS_PER_S, OK

REGION = "REGION"
"""The operation of a region's row.

The region's name is the row's ``layer_name``, because a region that is named ``send`` must not count as
communication.
"""

MOST_OPEN = 1024
"""The most calls of one thread that are started and not ended.

Beyond that the oldest is forgotten, since it would keep its events for ever.
"""

P = ParamSpec("P")
R = TypeVar("R")


class Rows:
    """The destination of the rows of a registry's timers, and how another process finds such a timer.

    Attributes:
        logger: the logger that gets the rows; None for no rows.
        find: returns the timer with a name and settings in a process that unpickles one; None if timers
            cannot be pickled.
    """

    __slots__ = ("find", "logger")

    def __init__(self) -> None:
        self.find: Callable[..., RegionTimer] | None = None
        self.logger: TimingLogger | None = None


class _Open(threading.local):
    """The intervals that the calling thread has started and not ended, the innermost last.

    None stands for a call that is not timed: the timer was off, or a graph was being captured.
    """

    def __init__(self) -> None:
        self.intervals: deque[Interval | None] = deque(maxlen=MOST_OPEN)
        self.push = self.intervals.append
        self.pop = self.intervals.pop


class RegionTimer:
    """The timer of one region, which a call of a :class:`RegionTimers` creates, or finds by its name.

    Use it as ``with timer:``, as the decorator ``@timer``, or by ``start()`` and ``end()``. Calls may nest
    and recur: each is an interval of its own, and ``end`` ends the innermost of its thread. Threads may share
    a timer. Calls made while a CUDA graph is captured are not timed, only counted.

    Attributes:
        name: the name of the region.
        timer_type: ``"cuda"`` or ``"cpu"``.
        cuda_sync: whether the timer waits for the current stream at start and end.
        sums: the sums over the intervals that ended.

    Args:
        settings: all settings, none of them left open.
        rows: the destination of a row for each interval.
    """

    __slots__ = (
        "__weakref__", "_captured", "_forgotten", "_open", "_rows", "_settings", "cuda_sync", "name", "sums",
        "timer_type",
    )  # fmt: skip

    def __init__(self, name: str, settings: Settings, rows: Rows) -> None:
        self.name = name
        self.timer_type = str(settings.timer_type)
        self.cuda_sync = bool(settings.cuda_sync)
        self.sums = IntervalSums()
        self._settings = settings
        self._rows = rows
        self._open = _Open()
        self._captured = AtomicCounter()
        self._forgotten = AtomicCounter()
        self.enabled = bool(settings.enabled)

    @property
    def enabled(self) -> bool:
        """Whether calls are timed. A call that has started is ended in any case."""
        return not isinstance(self, _Off)

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        Settings(enabled=enabled).check()
        self.__class__ = RegionTimer if enabled else _Off

    # -- timing -----------------------------------------------------------------------------------

    def start(self) -> RegionTimer:
        """Begin an interval, and return the timer."""
        if len(self._open.intervals) == MOST_OPEN:
            self._forgotten.increment()
        self._open.push(self._begin())
        return self

    def end(self) -> None:
        """End the interval that this thread started last. Read ``elapsed`` for its duration.

        Raises:
            TimerNotStartedError: this thread has no open interval.
        """
        try:
            interval = self._open.pop()
        except IndexError:
            raise TimerNotStartedError(
                f"end() of the timer {self.name!r} without start(): this thread has no open interval of it. "
                "Call start() first, on the thread that calls end()."
            ) from None
        if interval is not None:
            self._finish(interval, OK)

    def __enter__(self) -> RegionTimer:
        self._open.push(self._begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            interval = self._open.pop()
        except IndexError:  # end() was called inside the block
            return
        if interval is not None:
            self._finish(interval, OK if kind is None else "error:" + kind.__name__)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function that times each call of ``function``.

        Raises:
            ConfigurationError: it is not a function, or its body does not run when it is called.
        """
        check_timeable(function)

        @functools.wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return timed

    def _begin(self) -> Interval | None:
        if self.cuda_sync:
            wait_for_stream()
        if self.timer_type == "cpu":
            return HostInterval()
        interval = open_interval()
        if interval is None:
            self._captured.increment()
        return interval

    def _finish(self, interval: Interval, status: str) -> None:
        if self.cuda_sync:
            _end_and_wait(interval)
        else:
            interval.end()
        self.sums.add(interval)
        logger = self._rows.logger
        if logger is not None:
            start, end, clock = interval.columns
            logger.record_interval(REGION, start, end, layer_name=self.name, clock=clock, status=status)

    # -- reading ----------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """Duration in seconds of the interval that ended last, 0.0 before the first; waits for the device.

        NaN if it cannot be known: the pool of events was exhausted, or the device failed.
        """
        last = self.sums.last
        if last is None:
            return 0.0
        last.wait()
        return math.nan if last.elapsed_ns is None else last.elapsed_ns / NS_PER_S

    @property
    def total_time(self) -> float:
        """Seconds of all intervals whose duration is known; waits for the device."""
        self.sums.wait()
        return self.sums.read().total_ns / NS_PER_S

    @property
    def average_time(self) -> float:
        """Mean seconds of the intervals whose duration is known; waits for the device.

        0.0 before the first interval; NaN if there are intervals and none has a known duration.
        """
        self.sums.wait()
        sums = self.sums.read()
        if sums.known:
            return sums.total_ns / sums.known / NS_PER_S
        return math.nan if sums.unresolved else 0.0

    @property
    def call_count(self) -> int:
        """The number of intervals that ended, without those captured into a graph."""
        sums = self.sums.read()
        return sums.known + sums.unresolved + sums.waiting

    @property
    def unresolved_count(self) -> int:
        """The number of calls whose duration will never be known.

        They are calls in ``call_count`` that were lost, and calls that were started and never ended.
        """
        return self.sums.read().unresolved + self._forgotten.value

    @property
    def captured_count(self) -> int:
        """The number of calls not timed because their stream was being captured into a graph."""
        return self._captured.value

    def reset(self) -> None:
        """Forget the intervals that have ended. An interval that is open now counts when it ends."""
        self.sums.clear()
        self._captured = AtomicCounter()
        self._forgotten = AtomicCounter()

    def describe(self) -> str:
        """Return one line with calls, total and average in ms, and calls not timed; waits for the device."""
        average_ms = self.average_time * 1000
        sums = self.sums.read()
        parts = [
            f"{self.call_count} calls",
            f"total {sums.total_ns / NS_PER_MS:.3f} ms",
            f"average {average_ms:.3f} ms",
        ]
        if sums.unresolved:
            parts.append(f"{sums.unresolved} of them unresolved")
        if self._forgotten.value:
            parts.append(f"{self._forgotten.value} more started and never ended")
        if self.captured_count:
            parts.append(f"{self.captured_count} more captured into a graph and not timed")
        return f"region {self.name!r} ({self.timer_type}): {', '.join(parts)}"

    def check_asked(self, asked: Settings) -> None:
        """Check that the settings asked for are those of the timer.

        Raises:
            ConfigurationError: the timer was created with another value of a setting that is asked for.
        """
        for setting, has, wanted in zip(Settings._fields, self._settings, asked, strict=True):
            if wanted is not None and wanted != has:
                raise ConfigurationError(
                    f"{setting} is {wanted!r}, and the timer {self.name!r} was made with {self._settings}. "
                    "Leave the settings out to get that timer, or take another name."
                )

    def __copy__(self) -> RegionTimer:
        """Return the timer itself, so that the copy of a model that holds a timer continues to use it."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> RegionTimer:
        return self

    def __reduce__(self) -> tuple[Callable[[str, str, bool], RegionTimer], tuple[str, str, bool]]:
        """Pickle the timer as a reference to the timer of the same name in the other process."""
        if self._rows.find is None:
            raise TypeError(
                f"the timer {self.name!r} belongs to a RegionTimers that no other process has: only timers "
                "of region_timer can be pickled."
            )
        return self._rows.find, (self.name, self.timer_type, self.cuda_sync)

    def __repr__(self) -> str:
        return f"<RegionTimer {self.name!r}: {self._settings}>"


class _Off(RegionTimer):
    """A timer that is off: its methods do nothing, which saves a check in every call.

    A ``with`` block looks up ``__exit__`` when it begins, so it ends as it began, even if the timer is
    switched in between. ``start`` must leave a mark for its ``end``.
    """

    __slots__ = ()

    def start(self) -> RegionTimer:
        self._open.push(None)
        return self

    def __enter__(self) -> RegionTimer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass


def _end_and_wait(interval: Interval) -> None:
    if isinstance(interval, HostInterval):
        wait_for_stream()
    interval.end()
    interval.wait()

"""The timer of one named region of a program; ``RegionTimers`` creates them."""

from __future__ import annotations

import functools
import inspect
import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from timing_logger.compat._intervals import IntervalSums, begin, check_switches, elapsed, end, status_of
from timing_logger.errors import ConfigurationError, TimerNotStartedError
from timing_logger.recording.cores.channel import AtomicCounter
from timing_logger.recording.device.intervals import Interval
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import NS_PER_MS, NS_PER_S

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


class TimerSettings(NamedTuple):
    """The settings of a timer; in a call, None for a setting that is left open."""

    timer_type: str | None = None
    cuda_sync: bool | None = None
    enabled: bool | None = None

    def check(self) -> None:
        """Check the values of the settings.

        Raises:
            ConfigurationError: a value is not one of those allowed for its setting.
        """
        if self.timer_type not in (None, "cuda", "cpu"):
            raise ConfigurationError(f"timer_type must be 'cuda' or 'cpu', and is {self.timer_type!r}.")
        stated = {"cuda_sync": self.cuda_sync, "enabled": self.enabled}
        check_switches(**{name: value for name, value in stated.items() if value is not None})

    def check_asked(self, asked: TimerSettings, name: str) -> None:
        """Check that the settings asked for are these, of the timer ``name``.

        Raises:
            ConfigurationError: the timer was created with another value of a setting that is asked for.
        """
        for setting, has, wanted in zip(self._fields, self, asked, strict=True):
            if wanted is not None and wanted != has:
                raise ConfigurationError(
                    f"{setting} is {wanted!r}, and the timer {name!r} was made with {self}. "
                    "Leave the settings out to get that timer, or take another name."
                )

    def __str__(self) -> str:
        return ", ".join(f"{setting}={value!r}" for setting, value in self._asdict().items())


class _Open(threading.local):
    """The intervals that the calling thread has started and not ended, the innermost last.

    None stands for a call that is not timed: the timer was off, or a graph was being captured.
    """

    def __init__(self) -> None:
        self.intervals: deque[Interval | None] = deque(maxlen=MOST_OPEN)
        self.push = self.intervals.append
        self.pop = self.intervals.pop


class Registry(Protocol):
    """What creates timers.

    Attributes:
        timing_logger: gets a row for each interval; None for no rows.
    """

    timing_logger: TimingLogger | None

    def __call__(self, name: Any, timer_type: str | None = None, cuda_sync: bool | None = None) -> Any:
        """Return the timer of this name."""


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
        settings: the settings that it was created with.

    Args:
        settings: all settings, none of them left open.
        registry: whose logger gets a row for each interval.
    """

    __slots__ = (
        "__weakref__", "_captured", "_enabled", "_forgotten", "_on_host", "_open", "_registry", "cuda_sync",
        "name", "settings", "sums", "timer_type",
    )  # fmt: skip

    def __init__(self, name: str, settings: TimerSettings, registry: Registry) -> None:
        self.name = name
        self.settings = settings
        self.timer_type = str(settings.timer_type)
        self.cuda_sync = bool(settings.cuda_sync)
        self._on_host = settings.timer_type == "cpu"
        self.sums = IntervalSums()
        self._enabled = bool(settings.enabled)
        self._registry = registry
        self._open = _Open()
        self._captured = AtomicCounter()
        self._forgotten = AtomicCounter()

    @property
    def enabled(self) -> bool:
        """Whether calls are timed. A call that has started is ended in any case."""
        return self._enabled

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        check_switches(enabled=enabled)
        self._enabled = enabled

    # -- timing -----------------------------------------------------------------------------------

    def start(self) -> RegionTimer:
        """Begin an interval, and return the timer."""
        if len(self._open.intervals) == MOST_OPEN:
            self._forgotten.increment()
        return self.__enter__()

    def end(self) -> None:
        """End the interval that this thread started last. Read ``elapsed`` for its duration.

        Raises:
            TimerNotStartedError: this thread has no open interval.
        """
        if not self._open.intervals:
            raise TimerNotStartedError(
                f"end() of the timer {self.name!r} without start(): this thread has no open interval of it. "
                "Call start() first, on the thread that calls end()."
            )
        self.__exit__(None)

    def __enter__(self) -> RegionTimer:
        self._open.push(self._begin() if self._enabled else None)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            interval = self._open.pop()
        except IndexError:  # end() was called inside the block
            return
        if interval is not None:
            self._finish(interval, status_of(kind))

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function that times each call of ``function``.

        Raises:
            ConfigurationError: it is not a function, or its body does not run when it is called.
        """
        _check_timeable(function)

        @functools.wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return timed

    def _begin(self) -> Interval | None:
        interval = begin(None, self.cuda_sync, self._on_host)
        if interval is None:
            self._captured.increment()
        return interval

    def _finish(self, interval: Interval, status: str) -> None:
        end(interval, None, self.cuda_sync)
        self.sums.add(interval)
        logger = self._registry.timing_logger
        if logger is not None:
            start_ns, end_ns, clock = interval.columns
            logger.record_interval(REGION, start_ns, end_ns, layer_name=self.name, clock=clock, status=status)

    # -- reading ----------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """Duration in seconds of the interval that ended last, 0.0 before the first; waits for the device.

        NaN if it cannot be known: the pool of events was exhausted, or the device failed.
        """
        return elapsed(self.sums.last, NS_PER_S)

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
        not_timed = {
            "of them unresolved": sums.unresolved,
            "more started and never ended": self._forgotten.value,
            "more captured into a graph and not timed": self.captured_count,
        }
        parts += [f"{count} {what}" for what, count in not_timed.items() if count]
        return f"region {self.name!r} ({self.timer_type}): {', '.join(parts)}"

    # -- copies -----------------------------------------------------------------------------------

    def __copy__(self) -> RegionTimer:
        """Return the timer itself, so that the copy of a model that holds a timer continues to use it."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> RegionTimer:
        return self

    def __reduce__(self) -> tuple[Registry, tuple[str, str, bool]]:
        """Pickle the timer as a reference to the timer of the same name in the other process."""
        return self._registry, (self.name, self.timer_type, self.cuda_sync)

    def __repr__(self) -> str:
        return f"<RegionTimer {self.name!r}: {self.settings}>"


def _check_timeable(function: object) -> None:
    """Check that calls of ``function`` can be timed.

    Raises:
        ConfigurationError: it is no function, or its body does not run when it is called.
    """
    if isinstance(function, (staticmethod, classmethod)):
        decorator = type(function).__name__
        raise ConfigurationError(
            f"a {decorator} object cannot be timed: put @{decorator} above the timer's line."
        )
    if isinstance(function, type) or not callable(function):
        raise ConfigurationError(f"a timer decorates functions and methods, and this is {function!r}.")
    late = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    if any(kind(function) for kind in late):
        raise ConfigurationError(
            f"the body of {function!r} does not run in the call, but later and in pieces: "
            "put a `with` block into it, around what runs without a pause."
        )

"""What all timers of this package do with intervals: begin, end, read and sum them, on device or host.

Nothing here waits for a device but :func:`elapsed`, ``wait`` of sums, and what is asked to synchronise.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

from timing_logger.errors import ConfigurationError
from timing_logger.recording.device.devices import Device
from timing_logger.recording.device.intervals import (
    TORCH_ERRORS,
    Columns,
    DeviceInterval,
    HostInterval,
    Interval,
    open_interval,
    wait_for_stream,
)
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import OK

if TYPE_CHECKING:
    import torch

FOLD_EVERY = 32
"""The number of new intervals between two attempts to fold, which cost as much as a query of the device."""

KEPT = 2048
"""The most intervals that wait for a device; beyond that the newest are counted as unresolved."""

_PAUSE_S = 0.0002
_PATIENCE_S = 0.1  # limits the wait of a signal handler that interrupted a fold of its own thread


def begin(
    stream: torch.Stream | None = None, synchronize: bool = False, on_host: bool = False
) -> Interval | None:
    """Begin an interval.

    Args:
        stream: the stream that does the work; None for the calling thread's current one.
        synchronize: whether to wait first for what the current stream holds.
        on_host: whether the host's clock times it, even if there is a device.

    Returns:
        The interval; None while a graph is captured: the work is queued and does not run now.
    """
    if synchronize:
        wait_for_stream()
    return HostInterval() if on_host else open_interval(stream)


def end(interval: Interval, stream: torch.Stream | None = None, synchronize: bool = False) -> None:
    """End an interval in ``stream``; with ``synchronize``, when its work is done."""
    if synchronize and isinstance(interval, HostInterval):
        wait_for_stream()
    interval.end(stream)
    if synchronize:
        interval.wait()


def elapsed(interval: Interval | None, unit_ns: float) -> float:
    """Return the duration of an interval that has ended; waits until the device has passed its end.

    0.0 for None; NaN if it cannot be known: the pool of events was exhausted, or the device failed.
    """
    if interval is None:
        return 0.0
    interval.wait()
    return math.nan if interval.elapsed_ns is None else interval.elapsed_ns / unit_ns


def status_of(kind: type[BaseException] | None) -> str:
    """Return the status of a block that an exception of this type left; None for none."""
    return OK if kind is None else f"error:{kind.__name__}"


def check_switches(**switches: object) -> None:
    """Check that arguments are True or False.

    Raises:
        ConfigurationError: one is not.
    """
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise ConfigurationError(f"{name} must be True or False, and is {value!r}.")


def check_logger(timing_logger: object) -> None:
    """Check that the argument ``timing_logger`` is a logger or None.

    Raises:
        ConfigurationError: it is something else.
    """
    if not isinstance(timing_logger, TimingLogger | None):
        raise ConfigurationError(f"timing_logger must be a TimingLogger or None, and is {timing_logger!r}.")


class TimedBlock:
    """A ``with`` block whose work is timed.

    Args:
        record: takes the columns and the status of the block when it ends.
        stream, synchronize: as in :func:`begin`.
    """

    __slots__ = ("_interval", "_record", "_stream", "_synchronize")

    def __init__(
        self,
        record: Callable[[Columns, str], None],
        stream: torch.Stream | None = None,
        *,
        synchronize: bool = False,
    ) -> None:
        self._record, self._stream, self._synchronize = record, stream, synchronize
        self._interval: Interval | None = None

    def __enter__(self) -> None:
        self._interval = begin(self._stream, self._synchronize)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        interval, self._interval = self._interval, None
        if interval is not None:  # None if nobody entered it, or a graph is being captured
            end(interval, self._stream, self._synchronize)
            self._record(interval.columns, status_of(kind))


# -- sums ------------------------------------------------------------------------------------------------


class Sums(NamedTuple):
    """The state of the intervals so far.

    Attributes:
        known: the number of intervals whose duration is known.
        total_ns: the sum of those durations, in ns.
        unresolved: the number of intervals whose duration will never be known.
        waiting: the number of intervals that their device has not finished, or that are not folded yet.
    """

    known: int
    total_ns: int
    unresolved: int
    waiting: int


class IntervalSums:
    """Sums over intervals that have ended, in constant memory and without waiting for a device.

    Any thread may add an interval. When enough have gathered, the adding thread folds the finished ones into
    the sums. Only folding takes a lock, and adding never waits for it: intervals that could not be folded are
    left for the next fold.

    Attributes:
        last: the interval added last, by any thread; None before the first.
    """

    __slots__ = ("_ended", "_fold_at", "_folding", "_known", "_total_ns", "_unresolved", "last")

    last: Interval | None

    def __init__(self) -> None:
        self._folding = threading.Lock()
        self._clear()

    def add(self, interval: Interval) -> None:
        """Count an interval that has ended. Never blocks or raises."""
        self.last = interval
        self._ended.append(interval)
        if len(self._ended) >= self._fold_at:
            self.fold()

    def fold(self) -> None:
        """Fold the finished intervals, unless another thread is doing so; never wait for the device."""
        # Not acquire(): an exception from a signal handler just after it would leave the lock held for ever.
        if not self._folding.locked():
            with self._folding:
                self._fold()

    def wait(self) -> None:
        """Wait until devices have finished the intervals added before the call."""
        for interval in self._ended.copy():
            interval.wait()

    def read(self) -> Sums:
        """Return the current sums, without waiting for a device."""
        if self._is_free():
            with self._folding:
                self._fold()
        return Sums(self._known, self._total_ns, self._unresolved, len(self._ended))

    def clear(self) -> None:
        """Forget all intervals that were added."""
        with self._folding if self._is_free() else nullcontext():
            self._clear()

    def detach(self) -> None:
        """Replace the lock in a forked child: a thread that exists only in the parent may have held it."""
        self._folding = threading.Lock()

    def _is_free(self) -> bool:
        """Wait briefly until no thread folds, and return whether that is so.

        The wait is in vain if the caller interrupted a fold of its own thread.
        """
        deadline_s = time.monotonic() + _PATIENCE_S
        while self._folding.locked():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_PAUSE_S)
        return True

    # -- under the lock ---------------------------------------------------------------------------

    def _clear(self) -> None:
        self.last = None
        self._ended: deque[Interval] = deque()
        self._fold_at = FOLD_EVERY
        self._known = self._total_ns = self._unresolved = 0

    def _fold(self) -> None:
        ended = self._ended
        while ended and self._fold_run(ended):
            pass
        while len(ended) > KEPT:
            ended.pop()
            self._unresolved += 1
        self._fold_at = len(ended) + FOLD_EVERY

    def _fold_run(self, ended: deque[Interval]) -> bool:
        """Fold intervals of one clock from the oldest on; return False if the oldest is not finished."""
        first = ended[0]
        if isinstance(first, HostInterval):
            return self._fold_host(ended)
        try:  # a single asking() block for all intervals
            with first.device.accelerator.asking(first.device.index) as harmless:
                return self._fold_device(ended, first.device, ask=harmless)
        except TORCH_ERRORS as error:
            first.lose(error)
            return self._fold_device(ended, first.device, ask=False)

    def _fold_host(self, ended: deque[Interval]) -> bool:
        while ended and isinstance(first := ended[0], HostInterval):
            ended.popleft()
            self._known += 1
            self._total_ns += (first.end_ns or 0) - first.start_ns
        return True

    def _fold_device(self, ended: deque[Interval], device: Device, *, ask: bool) -> bool:
        folded = False
        while ended and isinstance(first := ended[0], DeviceInterval) and first.device is device:
            if not (first.ask() if ask else first.lost or first.elapsed_ns is not None):
                break
            ended.popleft()
            if first.elapsed_ns is None:
                self._unresolved += 1
            else:
                self._known += 1
                self._total_ns += first.elapsed_ns
            folded = True
        return folded

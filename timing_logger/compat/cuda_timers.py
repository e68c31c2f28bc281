"""Timers that are started and stopped: a single one, and a collection for a fixed set of regions.

    timers = CUDATimerCollection(["forward", "backward"])
    timers.start("forward")
    ...
    timers.stop("forward")
    timers.elapsed_all()  # {"forward": 12.3, "backward": 0.0}; reading waits for the device

Durations are those of the device, measured by events in the current stream; without a device the host's clock
is used.
"""

from __future__ import annotations

from collections.abc import Iterable

from timing_logger.compat._intervals import begin, check_switches, elapsed, end
from timing_logger.errors import ConfigurationError, TimerNotStartedError
from timing_logger.recording.device.intervals import Interval
from timing_logger.schema.record import NS_PER_MS


class CUDATimer:
    """A timer that may be started and stopped repeatedly, by one thread at a time.

    Attributes:
        running: whether it has been started and not stopped.
    """

    def __init__(self) -> None:
        self._open: Interval | None = None
        self._last: Interval | None = None
        self.running = False

    def start(self) -> None:
        """Begin an interval; an interval that is still open is discarded."""
        self.running = True
        self._open = begin()

    def stop(self) -> None:
        """End the interval. An interval captured into a graph did not run, and leaves no duration.

        Raises:
            TimerNotStartedError: there is no open interval.
        """
        if not self.running:
            raise TimerNotStartedError("stop() without start(): call start() first.")
        interval, self._open, self.running = self._open, None, False
        if interval is not None:
            end(interval)
            self._last = interval

    def elapsed_ms(self) -> float:
        """Return the milliseconds between the last start and its stop; waits for the device to pass the stop.

        While the timer runs, the result is that of the previous interval; 0.0 if there is none. NaN if it
        cannot be known: the pool of events was exhausted, or the device failed.
        """
        return elapsed(self._last, NS_PER_MS)


class CUDATimerCollection:
    """A collection of timers, one for each of a fixed set of regions.

    Args:
        regions: the names of the regions.
        enabled: False for a collection whose ``start`` and ``stop`` do nothing and whose durations are all
            0.0; it creates no events.

    Raises:
        ConfigurationError: ``regions`` are not names or contain one twice, or ``enabled`` is no bool.
    """

    def __init__(self, regions: Iterable[str], enabled: bool = True) -> None:
        check_switches(enabled=enabled)
        self._enabled = enabled
        self._timers = {region: CUDATimer() for region in _names(regions)}

    @property
    def enabled(self) -> bool:
        """Whether anything is timed."""
        return self._enabled

    def start(self, region: str) -> None:
        """Begin an interval of ``region``.

        Raises:
            ConfigurationError: there is no such region.
        """
        if self._enabled:
            self._timer(region).start()

    def stop(self, region: str) -> None:
        """End the interval of ``region``.

        Raises:
            ConfigurationError: there is no such region.
            TimerNotStartedError: the region was not started.
        """
        if not self._enabled:
            return
        timer = self._timer(region)
        if not timer.running:
            raise TimerNotStartedError(f"stop({region!r}) without start({region!r}): call start first.")
        timer.stop()

    def elapsed_ms(self, region: str) -> float:
        """Return the milliseconds of the region, see :meth:`CUDATimer.elapsed_ms`.

        Raises:
            ConfigurationError: there is no such region.
        """
        return self._timer(region).elapsed_ms()

    def elapsed_all(self) -> dict[str, float]:
        """Return the milliseconds of each region, 0.0 for regions that never ran; waits for the device."""
        return {region: timer.elapsed_ms() for region, timer in self._timers.items()}

    def _timer(self, region: str) -> CUDATimer:
        timer = self._timers.get(region)
        if timer is None:
            raise ConfigurationError(f"region is {region!r}, and must be one of {list(self._timers)}.")
        return timer


def _names(regions: Iterable[str]) -> list[str]:
    names = None if isinstance(regions, (str, bytes)) or not isinstance(regions, Iterable) else list(regions)
    if names is None or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(
            f"regions must be names, such as ['forward', 'backward'], and is {regions!r}."
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(
            f"regions has {', '.join(map(repr, twice))} more than once: give each one name."
        )
    return names

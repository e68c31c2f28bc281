"""Named regions of a program: how often each ran, and how long it took.

    with region_timer("forward"):
        ...
    region_timer("forward").average_time  # seconds; reading waits for the device

A region's duration is the device's time for it, measured by events in the current stream, or the host's time
(``timer_type="cpu"``, or no device). Timing does not wait; only reading does.
"""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import Callable
from typing import Any, overload

from timing_logger.compat._intervals import check_logger, check_switches
from timing_logger.compat._region_timer import REGION, P, R, RegionTimer, TimerSettings
from timing_logger.errors import ConfigurationError
from timing_logger.recording.device.devices import when_events_are_low
from timing_logger.recording.lifecycle import detach_in_forked_children
from timing_logger.recording.logger import TimingLogger

__all__ = ["REGION", "RegionTimer", "RegionTimers", "region_timer"]

log = logging.getLogger("timing_logger")


class RegionTimers:
    """A registry of timers by name. ``region_timer`` is the process's own; a library may create another one.

    Args:
        enabled: whether timers are on if they are created without this setting.
        timing_logger: gets a row for each interval that ended, of operation ``REGION`` and with the timer's
            name as ``layer_name``; None for no rows. Also an attribute that can be set.

    Raises:
        ConfigurationError: ``timing_logger`` is no TimingLogger, or ``enabled`` is no bool.
    """

    def __init__(self, *, enabled: bool = True, timing_logger: TimingLogger | None = None) -> None:
        check_switches(enabled=enabled)
        self._enabled = enabled
        self._timers: dict[str, RegionTimer] = {}
        self.timing_logger = timing_logger
        _registries.add(self)
        detach_in_forked_children(self)

    @property
    def timing_logger(self) -> TimingLogger | None:
        """The logger that gets a row for each interval; None for no rows."""
        return self._logger

    @timing_logger.setter
    def timing_logger(self, logger: TimingLogger | None) -> None:
        check_logger(logger)
        self._logger = logger

    # -- timers -----------------------------------------------------------------------------------

    @overload
    def __call__(
        self,
        name: str,
        timer_type: str | None = None,
        cuda_sync: bool | None = None,
        enabled: bool | None = None,
    ) -> RegionTimer: ...

    @overload
    def __call__(self, name: Callable[P, R]) -> Callable[P, R]: ...

    def __call__(
        self,
        name: Any,
        timer_type: str | None = None,
        cuda_sync: bool | None = None,
        enabled: bool | None = None,
    ) -> RegionTimer | Callable[..., object]:
        """Return the timer of a name; the first call creates it.

        Args:
            name: the timer's name; or a function, which is decorated with the timer of its qualified name.
            timer_type: ``"cuda"`` for events in the device's current stream, which is the default (without a
                device the host's clock is used), or ``"cpu"`` for the host's clock.
            cuda_sync: wait for the current stream before the start and at the end. That stops the host from
                running ahead of the device, and is costly. Default False.
            enabled: whether the timer is on; the default is the registry's. ``enable`` and ``disable`` change
                it later.

        Raises:
            ConfigurationError: a setting is invalid, or differs from the one that the timer was created with.
        """
        try:
            timer = self._timers[name]
        except (KeyError, TypeError):
            return self._first(name, TimerSettings(timer_type, cuda_sync, enabled))
        if timer_type is not None or cuda_sync is not None or enabled is not None:
            timer.settings.check_asked(TimerSettings(timer_type, cuda_sync, enabled), name)
        return timer

    def items(self) -> list[tuple[str, RegionTimer]]:
        """Return the names and timers, in the order of their creation."""
        return list(self._timers.items())

    # -- on and off -------------------------------------------------------------------------------

    def enable(self, name: str | None = None) -> None:
        """Switch one timer on; without a name, all existing timers and those created later."""
        self._switch(name, True)

    def disable(self, name: str | None = None) -> None:
        """Switch one timer off; without a name, all existing timers and those created later."""
        self._switch(name, False)

    def is_enabled(self, name: str | None = None) -> bool:
        """Tell whether the timer ``name`` is on; without a name, whether timers created later will be."""
        return self._enabled if name is None else self._known(name).enabled

    # -- results ----------------------------------------------------------------------------------

    def reset(self, name: str) -> None:
        """Forget the measurements of the timer ``name``."""
        self._known(name).reset()

    def reset_all(self) -> None:
        """Forget the measurements of all timers; the timers themselves stay."""
        for _, timer in self.items():
            timer.reset()

    def log(self, name: str, logger: logging.Logger | None = None) -> None:
        """Log one line about a timer: name, calls, total and average. Waits for the device.

        Args:
            name: the timer.
            logger: gets the line, level INFO; default ``logging.getLogger("timing_logger")``.
        """
        (logger or log).info("%s", self._known(name).describe())

    def log_all(self, logger: logging.Logger | None = None) -> None:
        """Log one line, as :meth:`log` does, for each timer that has been called. Waits for the device."""
        for _, timer in self.items():
            if timer.call_count or timer.captured_count:
                (logger or log).info("%s", timer.describe())

    # -- parts ------------------------------------------------------------------------------------

    def detach(self) -> None:
        """Replace the timers' locks in a forked child: a thread of the parent may have held one."""
        for _, timer in self.items():
            timer.sums.detach()

    def __reduce__(self) -> str:
        """Pickle the process's own registry as a reference to that of the other process."""
        if self is not region_timer:
            raise TypeError(
                "this RegionTimers is in no other process: only timers of region_timer can be pickled."
            )
        return "region_timer"

    def _first(self, name: object, asked: TimerSettings) -> RegionTimer | Callable[..., object]:
        asked.check()
        if not isinstance(name, str):
            return self._decorated(name)
        if not name:
            raise ConfigurationError("name is empty: a timer is found again by its name.")
        settings = TimerSettings(
            timer_type=asked.timer_type or "cuda",
            cuda_sync=bool(asked.cuda_sync),
            enabled=self._enabled if asked.enabled is None else asked.enabled,
        )
        timer = self._timers.setdefault(name, RegionTimer(name, settings, self))
        timer.settings.check_asked(asked, name)  # another thread may have created it first
        return timer

    def _decorated(self, function: object) -> Callable[..., object]:
        name = getattr(function, "__qualname__", None)
        if not callable(function) or not isinstance(name, str):
            raise ConfigurationError(
                f"name must be a string, or a function to be timed, and is {function!r}."
            )
        return self(name)(function)

    def _known(self, name: str) -> RegionTimer:
        timer = self._timers.get(name)
        if timer is None:
            raise ConfigurationError(
                f"name is {name!r}, and no timer is called so: there are {sorted(self._timers)}. "
                "A timer exists after the first call with its name."
            )
        return timer

    def _switch(self, name: str | None, enabled: bool) -> None:
        if name is not None:
            self._known(name).enabled = enabled
            return
        self._enabled = enabled
        for _, timer in self.items():
            timer.enabled = enabled


_registries: weakref.WeakSet[RegionTimers] = weakref.WeakSet()


def _fold_all() -> None:
    """Return the events that finished intervals still hold to their pools: each timer lets a few gather."""
    with contextlib.suppress(RuntimeError):  # another thread is creating a registry
        for registry in list(_registries):
            for _, timer in registry.items():
                timer.sums.fold()


when_events_are_low.append(_fold_all)


region_timer = RegionTimers()
"""The registry of the timers of this process."""

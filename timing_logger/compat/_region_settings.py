"""The settings of a region timer, and the check that a function can be timed."""

from __future__ import annotations

import inspect
from typing import NamedTuple

from timing_logger.errors import ConfigurationError


class Settings(NamedTuple):
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
        for name, value in (("cuda_sync", self.cuda_sync), ("enabled", self.enabled)):
            if value is not None and not isinstance(value, bool):
                raise ConfigurationError(f"{name} must be True or False, and is {value!r}.")

    def __str__(self) -> str:
        return ", ".join(f"{setting}={value!r}" for setting, value in self._asdict().items())


def check_timeable(function: object) -> None:
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

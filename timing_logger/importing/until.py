"""When an import that follows growing files (``--follow``) ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from timing_logger.errors import ConfigurationError

INTERVAL_S = 1.0
"""From one look at the sources to the next."""

_ASKED_S = 0.1


class Until(NamedTuple):
    """When an import of what grows ends.

    Attributes:
        idle_s: after so many seconds in which nothing was added; None for never.
        is_stopped: tells, ten times a second, whether to end at once; None if nobody does. Such as
            ``threading.Event().is_set``.
        interval_s: from one look at the sources to the next, in s.
    """

    idle_s: float | None = None
    is_stopped: Callable[[], bool] | None = None
    interval_s: float = INTERVAL_S

    def checked(self) -> Until:
        """Return it, if its values are possible.

        Raises:
            ConfigurationError: they are not; or nothing ever ends the import.
        """
        for name, value in (("idle_s", self.idle_s), ("interval_s", self.interval_s)):
            if value is not None and not value > 0:
                raise ConfigurationError(f"until: {name}={value!r} must be more than 0.")
        if self.idle_s is None and self.is_stopped is None:
            raise ConfigurationError(
                "until: nothing ends this import. Give idle_s, in seconds, or is_stopped, a function."
            )
        return self

    @property
    def is_now(self) -> bool:
        """Whether it is to end at once."""
        return self.is_stopped is not None and self.is_stopped()

    def wait(self) -> None:
        """Wait for the next look, or until it is to end."""
        next_s = time.monotonic() + self.interval_s
        while (left_s := next_s - time.monotonic()) > 0 and not self.is_now:
            time.sleep(min(left_s, _ASKED_S))

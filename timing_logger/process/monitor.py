"""``Monitor``: that a run is judged while it goes on, how often, and who is told.

The process that does it is ``timing_logger.live``'s, and reads only files; ``monitor_process.py``
starts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from timing_logger.errors import ConfigurationError
from timing_logger.schema.defaults import MONITOR_EVERY_S, MONITOR_WINDOW_S

Event = dict[str, Any]
"""What changes, as plain values; ``docs/events.md`` has its keys."""

_LONGEST_S = 3600.0


class Plain(Protocol):
    """Options that can be handed to another process, such as a ``Webhook`` or ``Prometheus``."""

    def to_json(self) -> dict[str, Any]:
        """Return them as values that JSON can hold."""


@dataclass(frozen=True, kw_only=True)
class Monitor:
    """A run is judged while it goes on: in a process of its own on each host, which reads the timing files.

    Attributes:
        every_s: how often it looks, in s. Who is named is told, if they were named or likely slow at the look
            before; a hang is told at once.
        window_s: how much of the run is judged each time, back from now, in s.
        on_verdict: called with an event when somebody is found slow, when that changes, when it is over, and
            if the run hangs; on rank 0, in a thread of its own. What it raises is logged. Where another
            monitor judges the run, such as that of ``run --monitor``, it gets what that one tells.
        webhooks: addresses that the same events are posted to.
        show_in: where the figures of the run are shown, such as ``Prometheus()``.

    Raises:
        ConfigurationError: a value is of a wrong type or out of range.
    """

    every_s: float = MONITOR_EVERY_S
    window_s: float = MONITOR_WINDOW_S
    on_verdict: Callable[[Event], object] | None = None
    webhooks: Sequence[Plain] = ()
    show_in: Sequence[Plain] = ()

    def __post_init__(self) -> None:
        for name in ("every_s", "window_s"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 1 <= value <= _LONGEST_S:
                raise ConfigurationError(
                    f"{name} must be seconds from 1 to {_LONGEST_S:g}, and is {value!r}."
                )
        if self.window_s < 2 * self.every_s:
            raise ConfigurationError(
                f"window_s={self.window_s!r} is less than two looks, every_s={self.every_s!r} apart: what is "
                "judged would not be the same time twice. Take a longer window."
            )
        if self.on_verdict is not None and not callable(self.on_verdict):
            raise ConfigurationError(
                f"on_verdict must be a function of an event, and is {self.on_verdict!r}."
            )

    def settings(self, log_dir: str, since_unix_s: float = 0.0) -> MonitorSettings:
        """Return what the monitor's process is told.

        Args:
            log_dir, since_unix_s: as of ``MonitorSettings``.
        """
        return MonitorSettings(
            log_dir=log_dir, since_unix_s=since_unix_s, every_s=self.every_s, window_s=self.window_s,
            webhooks=[one.to_json() for one in self.webhooks],
            show_in=[one.to_json() for one in self.show_in],
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MonitorSettings:
    """What the process of a monitor is told when it starts.

    Attributes:
        log_dir: the folder of the timing files.
        since_unix_s: files of processes that began before that are of other runs.
        every_s, window_s: as of ``Monitor``.
        webhooks, show_in: likewise, as JSON.
    """

    log_dir: str
    since_unix_s: float = 0.0
    every_s: float = MONITOR_EVERY_S
    window_s: float = MONITOR_WINDOW_S
    webhooks: Sequence[Mapping[str, Any]] = ()
    show_in: Sequence[Mapping[str, Any]] = ()

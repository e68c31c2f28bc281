"""``Monitor``: that a run is judged while it goes on, how often, and who is told.

The process that does it is ``timing_logger.live``'s, and reads only files; :class:`MonitorProcess` starts it,
for a logger :class:`RunMonitor`.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from timing_logger.errors import ConfigurationError
from timing_logger.process.launchers import local_rank
from timing_logger.schema.defaults import MONITOR_EVERY_S, MONITOR_WINDOW_S

log = logging.getLogger("timing_logger")

Event = dict[str, Any]
"""What changes, as plain values; ``docs/events.md`` has its keys."""

_LONGEST_S = 3600.0
_GRACE_S = 0.5
"""Seconds that the end of the logger waits for what the monitor still says."""


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


class RunMonitor:
    """The monitor that one rank of each host starts; on all others nothing.

    Args:
        monitor: its options.
        log_dir: the folder of the timing files.
        rank: the rank of this process.
    """

    def __init__(self, monitor: Monitor, log_dir: Path, rank: int) -> None:
        self._on_verdict = monitor.on_verdict if rank == 0 else None
        self._process: MonitorProcess | None = None
        self._closing = False
        if rank == 0 or local_rank(os.environ) == "0":
            settings = monitor.settings(str(log_dir.absolute()))
            try:
                self._process = MonitorProcess(settings, self._hear)
            except OSError as error:
                log.warning("timing logger: the monitor of the run cannot be started: %s", error)

    @property
    def pid(self) -> int | None:
        """The number of the monitor's process; None where this rank starts none."""
        return self._process.pid if self._process else None

    def close(self) -> None:
        """Let the monitor end. It may go on for some seconds, for what others are still to be told."""
        self._closing = True
        if self._process is not None:
            self._process.close(_GRACE_S)

    def _hear(self, content: Mapping[str, Any]) -> None:
        if "event" in content and self._on_verdict is not None:
            try:
                self._on_verdict(content["event"])
            except Exception:
                log.exception("timing logger: on_verdict raised; the run goes on")
        if "said" in content:
            log.warning("timing logger: monitor: %s", content["said"])
        if content.get("ended") is not None and not self._closing:
            log.warning(
                "timing logger: the monitor has ended (%s); the run goes on without", content["ended"]
            )


# -- the process ---------------------------------------------------------------------------------------------

_SITE = str(Path(__file__).parents[1] / "autologging" / "site")
_NOT_PASSED_ON = ("LD_PRELOAD", "TIMING_LOGGER_AUTOLOG")  # it is no rank, and not timed
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

Heard = Callable[[Mapping[str, Any]], object]


class MonitorProcess:
    """The process of a monitor.

    Args:
        settings: what it is to do.
        heard: called with each object that it says, ``{"event": ...}`` or ``{"said": ...}``, in a thread of
            its own; at last with ``{"ended": status}``.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, settings: MonitorSettings, heard: Heard) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "timing_logger.live"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=_environment(), start_new_session=True,
        )  # fmt: skip
        self._heard = heard
        self._listener = threading.Thread(target=self._listen, name="timing-logger-monitor", daemon=True)
        self._listener.start()
        with suppress(OSError):  # it is gone already; the listener says so
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(asdict(settings)).encode() + b"\n")
            self._process.stdin.flush()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def close(self, within_s: float) -> None:
        """Let it look a last time and end; do not wait longer than this for what it still says."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._listener.join(within_s)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError):
                self._heard(json.loads(line))
        self._heard({"ended": self._process.wait()})


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    path = os.pathsep.join(folder for folder in sys.path if folder and folder != _SITE)
    return {**kept, **_ONE_THREAD, "PYTHONPATH": path}

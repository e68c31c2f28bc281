"""Start the monitor of a logger's run on this host, and tell the program what it says."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from timing_logger.process.launchers import local_rank
from timing_logger.process.monitor import Monitor, MonitorProcess

log = logging.getLogger("timing_logger")

_GRACE_S = 0.5
"""Seconds that the end of the logger waits for what the monitor still says."""


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

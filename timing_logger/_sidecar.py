"""Keeps the sidecar beside a timing file current, at a cost that no file system notices."""

from __future__ import annotations

import time
from pathlib import Path

from timing_logger._clock import WallClock, unix_ns
from timing_logger.run_info import Counters, RunInfo

_REFRESH_S = 10.0


class Sidecar:
    """Writes ``info`` to ``path`` when it is due; used by the flush thread."""

    def __init__(self, path: Path, info: RunInfo, clock: WallClock) -> None:
        self._path = path
        self._info = info
        self._clock = clock
        self._written_s = float("-inf")

    def refresh(self, counters: Counters, written_bytes: int, cpu_ns: int, error: str) -> None:
        """Write if the counters moved and the last time was 10 s ago, or records began to drop."""
        started_dropping = counters.dropped > 0 and self._info.counters.dropped == 0
        due = counters != self._info.counters and time.monotonic() - self._written_s >= _REFRESH_S
        if started_dropping or due:
            self.write(counters, written_bytes, cpu_ns, error)

    def write(
        self, counters: Counters, written_bytes: int, cpu_ns: int, error: str, *, closed: bool = False
    ) -> None:
        """Replace the file now.

        Raises:
            OSError: as the file system says.
        """
        self._info.counters = counters
        self._info.written_bytes = written_bytes
        self._info.logger_cpu_ns = cpu_ns
        self._info.last_error = error
        self._info.closed = closed
        self._info.updated_unix_ns = unix_ns()
        self._info.clock_anchors = list(self._clock.anchors)
        self._info.write(self._path)
        self._written_s = time.monotonic()

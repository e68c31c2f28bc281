"""Keeps the sidecar beside a timing file current, at a cost that no file system notices."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

from timing_logger._clock import WallClock, unix_ns
from timing_logger.errors import LogPathError
from timing_logger.run_info import Counters, RunInfo, TimingFile, sidecar_path

log = logging.getLogger("timing_logger")

_REFRESH_S = 10.0


class Sidecar:
    """The sidecar of one timing file; after the first time only the flush thread writes it."""

    def __init__(
        self, timing_file: Path, name: TimingFile, clock: WallClock, constants: dict[str, Any]
    ) -> None:
        """Write the first one, before anything is recorded.

        Args:
            constants: the fields of :class:`RunInfo` that the logger's options fill.

        Raises:
            LogPathError: it cannot be written.
        """
        self._path = sidecar_path(timing_file)
        self._clock = clock
        self._info = RunInfo(
            file=timing_file.name,
            incarnation=name.incarnation,
            started_unix_ns=clock.anchors[0].unix_ns,
            **constants,
        )
        try:
            self.write(self._info.counters, 0, 0, "")
        except OSError as error:
            raise LogPathError(f"log_dir: {str(self._path)!r} cannot be written: {error}.") from error
        if name.incarnation > 1:
            log.warning("timing logger: rank %d has files here; this run writes %s", name.rank, timing_file)

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

"""Keeps the sidecar beside a timing file current, at a cost that no file system notices."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from timing_logger._clock import WallClock, unix_ns
from timing_logger.errors import LogPathError
from timing_logger.run_info import (
    ClockOffset,
    Counters,
    DeviceClockInfo,
    FilePart,
    RunInfo,
    TimingFile,
    sidecar_path,
)

log = logging.getLogger("timing_logger")

_REFRESH_S = 10.0


class Account(NamedTuple):
    """What a sidecar says that changes; the fields of :class:`RunInfo` explain them."""

    counters: Counters
    written_bytes: int
    cpu_ns: int
    device_clocks: list[DeviceClockInfo]
    error: str
    parts: Sequence[FilePart] = ()
    name: TimingFile | None = None


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
        self._clock_offsets: list[ClockOffset] = []
        self._info = RunInfo(
            file=timing_file.name,
            incarnation=name.incarnation,
            started_unix_ns=clock.anchors[0].unix_ns,
            **constants,
        )
        try:
            self.write(Account(self._info.counters, 0, 0, [], ""))
        except OSError as error:
            raise LogPathError(f"log_dir: {str(self._path)!r} cannot be written: {error}.") from error
        if name.incarnation > 1:
            log.warning("timing logger: rank %d has files here; this run writes %s", name.rank, timing_file)

    def add_clock_offset(self, offset: ClockOffset) -> None:
        """Have the next refresh write ``offset`` too; from any thread."""
        self._clock_offsets.append(offset)

    def refresh(self, account: Account) -> None:
        """Write if a clock offset came, records began to drop, rows go to another file or are gone; or if
        the counters moved 10 s after the last."""
        counters = account.counters
        started_dropping = counters.dropped > 0 and self._info.counters.dropped == 0
        due = counters != self._info.counters and time.monotonic() - self._written_s >= _REFRESH_S
        measured = len(self._clock_offsets) > len(self._info.clock_offsets)
        moved = _extent(account.parts) != _extent(self._info.parts)
        if started_dropping or due or measured or moved:
            self.write(account)

    def write(self, account: Account, *, closed: bool = False) -> None:
        """Replace the file now.

        Raises:
            OSError: as the file system says.
        """
        self._info.counters = account.counters
        self._info.written_bytes = account.written_bytes
        self._info.logger_cpu_ns = account.cpu_ns
        self._info.device_clocks = account.device_clocks
        self._info.last_error = account.error
        self._info.parts = list(account.parts)
        if account.name is not None and account.name.incarnation != self._info.incarnation:
            self._path = sidecar_path(self._path.with_name(account.name.name))
            self._info.file, self._info.incarnation = account.name.name, account.name.incarnation
        self._info.closed = closed
        self._info.updated_unix_ns = unix_ns()
        self._info.clock_anchors = list(self._clock.anchors)
        self._info.clock_offsets = list(self._clock_offsets)
        self._info.write(self._path, self._info.options.get("file_mode", 0o644))
        self._written_s = time.monotonic()


def _extent(parts: Sequence[FilePart]) -> tuple[int, int]:
    """What a refresh does not wait for: a new part, or rows that are gone."""
    return len(parts), sum(part.lost for part in parts)

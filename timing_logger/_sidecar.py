"""Keeps the sidecar beside a timing file current, at a cost that no file system notices."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any, NamedTuple

from timing_logger._clock import WallClock, unix_ns
from timing_logger._hang_watch import Standing
from timing_logger.errors import LogPathError
from timing_logger.run_info import ClockOffset, Counters, DeviceClockInfo, RunInfo, TimingFile, sidecar_path

log = logging.getLogger("timing_logger")

_REFRESH_S = 10.0


class Account(NamedTuple):
    """What a sidecar says that changes; the fields of :class:`RunInfo` explain them."""

    counters: Counters
    written_bytes: int
    cpu_ns: int
    device_clocks: list[DeviceClockInfo]
    error: str
    standing: Standing


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
            self.write(Account(self._info.counters, 0, 0, [], "", Standing([], [], [], 0)))
        except OSError as error:
            raise LogPathError(f"log_dir: {str(self._path)!r} cannot be written: {error}.") from error
        if name.incarnation > 1:
            log.warning("timing logger: rank %d has files here; this run writes %s", name.rank, timing_file)

    def add_clock_offset(self, offset: ClockOffset) -> None:
        """Have the next refresh write ``offset`` too; from any thread."""
        self._clock_offsets.append(offset)

    def refresh(self, account: Account) -> None:
        """Write if a clock offset came, records began to drop, or the counters moved 10 s after the last."""
        counters = account.counters
        started_dropping = counters.dropped > 0 and self._info.counters.dropped == 0
        due = counters != self._info.counters and time.monotonic() - self._written_s >= _REFRESH_S
        measured = len(self._clock_offsets) > len(self._info.clock_offsets)
        hangs_otherwise = _what_hangs(account.standing) != _what_hangs(self._info)
        if started_dropping or due or measured or hangs_otherwise:
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
        for name, value in account.standing._asdict().items():
            setattr(self._info, name, value)
        self._info.closed = closed
        self._info.updated_unix_ns = unix_ns()
        self._info.clock_anchors = list(self._clock.anchors)
        self._info.clock_offsets = list(self._clock_offsets)
        self._info.write(self._path)
        self._written_s = time.monotonic()


def _what_hangs(state: Standing | RunInfo) -> tuple[object, ...]:
    return state.open_calls, bool(state.idle_stack), state.signal

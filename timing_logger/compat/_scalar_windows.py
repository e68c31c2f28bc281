"""The recording side of :class:`~timing_logger.sinks.scalars.ScalarsSink`: a logger of its own.

Only ``flush`` and ``close`` wait: the means are computed and written by the logger's flush thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from timing_logger.recording.cores.channel import AtomicCounter
from timing_logger.recording.device.intervals import Columns
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import DEVICE_CLOCK, HOST_CLOCK, Record
from timing_logger.sinks.scalars import CLOSE_WINDOW, ScalarsSink, ScalarWriter, closes_window, in_window

log = logging.getLogger("timing_logger")

FLUSH_INTERVAL_S = 0.2
MAX_WAITING = {HOST_CLOCK: 40_000, DEVICE_CLOCK: 2_000}
"""The most records that wait to be averaged while a writer is stuck, by clock; further ones are left out.

Each record of a device holds a pair of events. There are 4096 pairs, which other timing code uses, too.
"""


class _OpenWindow:
    """A window that is filling, as the recording side counts it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.records = AtomicCounter()
        self.metadata = in_window(number)


class ScalarWindows:
    """Takes intervals; when a phase's window is closed, their means go to the writers.

    Args:
        writers, tag: see :class:`~timing_logger.sinks.scalars.ScalarsSink`.
        phases: names of the phases.
    """

    def __init__(
        self, writers: Sequence[ScalarWriter], tag: Callable[[Record], str], phases: Sequence[str]
    ) -> None:
        self._sink = ScalarsSink(writers, tag)
        self._logger = TimingLogger(0, log_dir=None, sinks=[self._sink], flush_interval=FLUSH_INTERVAL_S)
        self._recorded = AtomicCounter()
        self._left_out = AtomicCounter()
        self._open = {phase: _OpenWindow(0) for phase in phases}

    def record(self, operation: str, name: str, phase: str, columns: Columns, status: str) -> None:
        """Add an interval to the open window of ``phase``; ``columns`` are its start, end and clock."""
        start, end, clock = columns
        if self._recorded.value - self._sink.taken >= MAX_WAITING[clock]:
            self._left_out.increment()
            return
        window = self._open[phase]
        self._logger.record_interval(
            operation, start, end, None, name, phase, clock=clock, status=status, metadata=window.metadata
        )
        # Only after the record is put: an interrupt in between must not leave a window that waits for ever.
        window.records.increment()
        self._recorded.increment()

    def close_window(self, phase: str, step: int) -> None:
        """Have the means of what was recorded in ``phase`` since the last time written, for ``step``."""
        window = self._open[phase]
        if window.records.value:
            metadata = closes_window(window.number, records=window.records.value, step=step)
            self._logger.record_interval(CLOSE_WINDOW, 0, 0, None, "", phase, metadata=metadata)
            self._open[phase] = _OpenWindow(window.number + 1)

    def flush(self, timeout_s: float) -> bool:
        """Wait until the windows closed before the call are written.

        Returns:
            Whether that was done within ``timeout_s`` seconds.
        """
        return self._logger.flush(timeout_s)

    def close(self) -> None:
        """Write the closed windows and stop."""
        self._logger.close()
        if self._left_out.value:
            log.warning(
                "timing logger: %d times are in no scalar: the writers did not keep up", self._left_out.value
            )

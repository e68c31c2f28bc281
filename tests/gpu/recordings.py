"""A logger in memory for tests on a GPU, and what its rows say."""

from __future__ import annotations

from collections.abc import Callable

from timing_logger import TimingLogger
from timing_logger.schema.record import Record
from timing_logger.schema.sidecar import DeviceClockInfo
from timing_logger.sinks.memory import MemorySink

Figure = Callable[[str, str], None]
"""The fixture ``figure``."""


class Recording:
    """A logger in memory that flushes often, and its rows since it was last told to forget."""

    def __init__(self) -> None:
        self._sink = MemorySink()
        self.logger = TimingLogger(0, None, sinks=[self._sink], flush_interval=0.005, device_timeout=30.0)

    def forget(self) -> None:
        assert self.logger.flush(timeout=60)
        self._sink.records.clear()

    @property
    def rows(self) -> list[Record]:
        """As they were written; those of a group by number, and an operation before the wait for it."""
        assert self.logger.flush(timeout=60)
        return sorted(self._sink.records, key=_number)

    @property
    def clock(self) -> DeviceClockInfo:
        """What the sidecar would say of device 0."""
        clocks = {clock.device: clock for clock in self.logger._flusher._device_rows.info()}
        return clocks["cuda:0"]


def _number(row: Record) -> tuple[int, str]:
    return (0, "") if row.seq is None else (row.seq, row.operation)


def elapsed_ms(row: Record) -> float:
    assert row.end_ns is not None, row
    return (row.end_ns - row.start_ns) / 1e6

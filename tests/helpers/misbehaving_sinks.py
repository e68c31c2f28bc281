"""Sinks that fail or stall on purpose."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence

from timing_logger.schema.record import RawRecord
from timing_logger.sinks.memory import MemorySink


class StalledSink(MemorySink):
    """A sink whose writes all wait on a real pipe until :meth:`resume`, as on a stalled disk."""

    def __init__(self) -> None:
        super().__init__()
        self.stalled = threading.Event()
        self._gate, self._key = os.pipe()

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        self.stalled.set()
        os.read(self._gate, 1)
        super().write(batch, wall_offset_ns)

    def resume(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._key)  # end of file: every read returns from now on


class PoisonedSink(MemorySink):
    """A sink that raises for records whose layer is called ``poison``."""

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        if any(record[2] == "poison" for record in batch):
            raise ValueError("poison")
        super().write(batch, wall_offset_ns)


class FullDiskSink(MemorySink):
    """A sink whose writes fail with ENOSPC until ``full`` is set to False.

    Attributes:
        syncs: how often it was asked to make safe what it has.
    """

    def __init__(self) -> None:
        super().__init__()
        self.full = True
        self.syncs = 0

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        super().write(batch, wall_offset_ns)

    def sync(self) -> None:
        self.syncs += 1

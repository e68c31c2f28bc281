"""The interface of sinks, the destinations of records. Only the flush thread calls a sink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from timing_logger.record import RawRecord


class PartlyWritten(OSError):
    """A sink took the first records of a batch, and cannot take the rest for now.

    Attributes:
        records: the number of records that it took.
    """

    def __init__(self, records: int, cause: BaseException) -> None:
        super().__init__(f"only {records} records of a batch could be written: {cause!r}")
        self.records = records


class Sink(Protocol):
    """A destination that takes records. All calls come from one thread at a time.

    A sink that may take longer than a second for a batch should have an attribute ``progress``, a number that
    grows while the sink makes progress: ``close`` gives up on a sink whose number does not grow.

    A sink whose records may be removed from outside may have a method ``look_after()``, called after every
    drain, which returns messages about what it found, and an attribute ``lost``, the number of records that
    it took and that are gone.
    """

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        """Take all of ``batch`` or none of it, or report how much was taken.

        Args:
            batch: records in the order of :class:`timing_logger.record.Record`, unchecked.
            wall_offset_ns: Unix time minus ``perf_counter_ns``, in ns.

        Raises:
            PartlyWritten: the rest cannot be taken now; it is kept and offered again.
            OSError: the batch cannot be taken now; it is kept and offered again.
            Exception: the batch can never be taken; it is offered record by record, and records that still
                raise are counted as dropped.
        """

    def sync(self) -> None:
        """Make everything that was written survive a crash of the machine."""

    def close(self) -> None:
        """Release the resource. Nothing is written after it."""

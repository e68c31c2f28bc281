"""The interface of sinks, the destinations of records. Only the flush thread calls a sink.

One contract holds for all of them, the timing file and each of the logger's ``sinks``: every record is
offered to each sink, in order, until the sink has taken it, or counts as dropped for this sink, which the log
states once for each sink and the sidecar counts. What one sink refuses costs no other sink a record.

What they share is the thread, and so the time: while one sink writes, no other does, and records wait in the
queue. A sink that may need longer for its records than the program for making them (a database on another
machine, say) hands them to a thread of its own; else the queue fills, and records are dropped for all sinks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from timing_logger.schema.record import RawRecord


class PartlyWritten(OSError):
    """A sink took the first records of a batch, and cannot take the rest for now.

    Attributes:
        records: the number of records that it took.
    """

    def __init__(self, records: int, cause: BaseException) -> None:
        super().__init__(f"only {records} records of a batch could be written: {cause!r}")
        self.records = records


class Sink(Protocol):
    """A destination that takes records. All calls come from one thread at a time, and not from yours.

    Methods may raise anything: that is reported, and the other sinks are served as before.

    A sink that may take longer than a second for a batch should have an attribute ``progress``, a number that
    grows while the sink makes progress: ``close`` gives up on a sink whose number does not grow.

    A sink whose records may be removed from outside may have a method ``look_after()``, called after every
    drain, which returns messages about what it found, and an attribute ``lost``, the number of records that
    it took and that are gone.
    """

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        """Take all of ``batch`` or none of it, or report how much was taken.

        Args:
            batch: records in the order of :class:`timing_logger.schema.record.Record`, unchecked.
            wall_offset_ns: Unix time minus ``perf_counter_ns``, in ns.

        Raises:
            PartlyWritten: the rest cannot be taken now; it is kept and offered again.
            OSError: the batch cannot be taken now; it is kept and offered again. While it waits, the timing
                file (or the first sink, if there is no file) has the records that follow wait in the queue;
                for each other sink as many are kept as the queue holds, and the newest count as dropped.
            Exception: the batch can never be taken; it is offered record by record, and records that still
                raise are counted as dropped.
        """

    def sync(self) -> None:
        """Make everything that was written survive a crash of the machine: with the option ``fsync``."""

    def close(self) -> None:
        """Release the resource. Nothing is written after it."""

"""Where records go: a sink takes batches on the flush thread, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from timing_logger.record import RawRecord


class PartlyWritten(OSError):
    """A sink took the first records of a batch, and cannot take the rest for now.

    Attributes:
        records: how many it took.
    """

    def __init__(self, records: int, cause: BaseException) -> None:
        super().__init__(f"only {records} records of a batch could be written: {cause!r}")
        self.records = records


class Sink(Protocol):
    """A resource that takes records. All calls come from one thread at a time.

    A sink that may take longer than a second for a batch should have an attribute ``progress``, a number
    that grows while it gets on: ``close`` gives up on one that does not.

    A sink whose records somebody may take away again may have a method ``look_after()``, called after
    every drain, that returns in words what it found, and ``lost``, how many of those that it took are gone.
    """

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        """Hand all of ``batch`` over, or none of it, or say how much.

        Args:
            batch: records in the order of :class:`timing_logger.record.Record`, unchecked.
            wall_offset_ns: Unix time minus ``perf_counter_ns``.

        Raises:
            PartlyWritten: the rest not now; that is kept and offered again.
            OSError: not now; the batch is kept and offered again.
            Exception: never; the batch is offered record by record, and what still raises is
                counted as dropped.
        """

    def sync(self) -> None:
        """Make what was written survive a crash of the machine."""

    def close(self) -> None:
        """Release the resource; nothing is written after it."""

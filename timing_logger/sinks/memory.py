"""A sink that keeps records in memory, for tests of instrumented code."""

from __future__ import annotations

from collections.abc import Sequence

from timing_logger.schema.record import RawRecord, Record


class MemorySink:
    """Collects every record as a :class:`~timing_logger.schema.record.Record`.

    ``TimingLogger(0, log_dir=None, sinks=[sink])`` writes to no other place; call ``logger.flush()`` before
    looking at ``sink.records``.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []

    def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
        """Append a batch to ``records``."""
        self.records.extend(Record(*record) for record in batch)

    def sync(self) -> None:
        """Do nothing: memory survives no crash."""

    def close(self) -> None:
        """Do nothing: ``records`` stay."""

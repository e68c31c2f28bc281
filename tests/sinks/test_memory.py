"""Records that are kept in memory are those that were written, by the names of their fields."""

from __future__ import annotations

from timing_files import record

from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink


def test_records_are_kept_in_order_also_after_the_sink_is_closed() -> None:
    sink = MemorySink()
    first, second, third = record("BARRIER"), record(), record(start_s=2.0)
    sink.write([tuple(first), second], 7)
    sink.sync()
    sink.write([third], 8)
    sink.close()
    assert sink.records == [first, second, third]
    assert all(isinstance(one, Record) for one in sink.records)
    assert MemorySink().records == []

"""Blocks of work on a device whose end is told apart from the thread that began them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from both_cores import BuiltCore
from scripted_device import ScriptedAccelerator

from timing_logger import TimingLogger
from timing_logger.schema.record import NOT_ENTERED, Record
from timing_logger.sinks.memory import MemorySink


@pytest.mark.parametrize(("failure", "status"), [(None, "ok"), (KeyError, "error:KeyError")])
def test_an_end_that_is_told_is_marked_in_the_stream_and_is_a_row(
    each_core: BuiltCore, scripted_device: ScriptedAccelerator, logger: TimingLogger, sink: MemorySink,
    failure: type[BaseException] | None, status: str,
) -> None:  # fmt: skip
    span: Any = logger.record_device_operation("ALLREDUCE").__enter__()
    assert math.isnan(span.elapsed_ms)
    span.leave()
    span.end_interval(failure)
    assert scripted_device.asks == ["record", "record"]
    logger.close()
    (row,) = sink.records
    assert (row.status, row.clock) == (status, "device")
    assert row.end_ns is not None
    assert row.end_ns - row.start_ns == scripted_device.work_ns


def test_a_block_in_a_graph_under_capture_is_no_row(
    each_core: BuiltCore, scripted_device: ScriptedAccelerator, logger: TimingLogger, sink: MemorySink
) -> None:
    scripted_device.capturing = True
    span: Any = logger.record_device_operation("ALLREDUCE").__enter__()
    span.leave()
    span.end_interval(None)
    logger.close()
    assert sink.records == []
    assert scripted_device.asks == []


@pytest.mark.parametrize("clock", ["device", "host"])
def test_a_block_that_is_open_is_told_by_the_clock_that_it_is_timed_with(
    each_core: BuiltCore, request: pytest.FixtureRequest, logger: TimingLogger, clock: str
) -> None:
    if clock == "device":
        request.getfixturevalue("scripted_device")
    with logger.record_device_operation("FORWARD"):
        (call,) = logger._open_calls
        (row,) = (Record._make(raw) for raw in call.open_records("inflight"))
        assert (row.operation, row.end_ns, row.clock, row.status) == ("FORWARD", None, clock, "inflight")
    assert list(logger._open_calls) == []
    logger.close()


def test_a_block_that_is_left_without_being_entered_is_a_row_that_says_so(
    each_core: BuiltCore, scripted_device: ScriptedAccelerator, logger: TimingLogger, sink: MemorySink
) -> None:
    span: Any = logger.record_device_operation("ALLREDUCE")
    assert math.isnan(span.elapsed_ms)
    span.__exit__(None, None, None)
    span.__enter__()
    span.__exit__(KeyError, None, None)
    span.__exit__(ValueError, None, None)
    logger.close()
    assert {(row.status, row.clock, row.end_ns is None) for row in sink.records} == {
        (NOT_ENTERED, "host", True),
        ("error:KeyError", "device", False),
        ("error:ValueError", "host", True),
    }
    assert len(sink.records) == 3
    assert scripted_device.asks[:2] == ["record", "record"]


def test_to_read_how_long_a_block_took_waits_for_its_device(
    each_core: BuiltCore, scripted_device: ScriptedAccelerator, logger: TimingLogger
) -> None:
    scripted_device.busy = True
    with logger.record_device_operation("ALLREDUCE") as span:
        pass
    assert "synchronize" not in "".join(scripted_device.asks)
    assert span.elapsed_ms == scripted_device.work_ns / 1e6
    logger.close()


def test_how_long_a_block_took_that_was_lost_is_never_known(
    each_core: BuiltCore, scripted_device: ScriptedAccelerator, logger: TimingLogger
) -> None:
    block: Any = logger.record_device_operation("ALLREDUCE")
    with block:
        block.interval.lost = True
    assert math.isnan(block.elapsed_ms)
    logger.close()

"""Timed blocks that are left without being entered, twice, or elsewhere: no error, no invented duration."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from timing_logger import TimingLogger
from timing_logger.recording.cores.protocols import Timer
from timing_logger.sinks.memory import MemorySink

OUT = (None, None, None)

pytestmark = pytest.mark.usefixtures("each_core")


@pytest.fixture
def sink() -> MemorySink:
    return MemorySink()


@pytest.fixture
def logger(sink: MemorySink) -> TimingLogger:
    return TimingLogger(0, log_dir=None, sinks=[sink], flush_interval=3600)


@pytest.fixture(params=["record_mpi_operation", "record_device_operation"])
def block(request: pytest.FixtureRequest, logger: TimingLogger) -> Callable[[str], Timer]:
    """Makes a timed block of either clock."""
    made: Callable[[str], Timer] = getattr(logger, request.param)
    return made


def written(logger: TimingLogger, sink: MemorySink) -> list[tuple[Any, ...]]:
    """Operation, whether there is a duration, and status of each row, after the logger was closed."""
    assert not list(logger._open_calls)
    logger.close()
    assert logger.stats.pending == logger.stats.dropped == 0
    return [(record.operation, record.end_ns is not None, record.status) for record in sink.records]


def test_a_block_that_nobody_entered_has_a_row_without_a_duration(
    block: Callable[[str], Timer], logger: TimingLogger, sink: MemorySink
) -> None:
    span = block("A")
    with ExitStack() as stack:
        stack.push(span)  # in place of enter_context
    assert math.isnan(span.elapsed_ms)
    assert written(logger, sink) == [("A", False, "error:NotEntered")]


def test_an_exception_that_leaves_a_block_that_nobody_entered_is_told(
    block: Callable[[str], Timer], logger: TimingLogger, sink: MemorySink
) -> None:
    def leave() -> None:
        with ExitStack() as stack:
            stack.push(block("A"))
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        leave()
    assert written(logger, sink) == [("A", False, "error:ValueError")]


def test_a_block_that_is_left_twice_took_time_once(
    block: Callable[[str], Timer], logger: TimingLogger, sink: MemorySink
) -> None:
    with block("A") as span:
        pass
    elapsed_ms = span.elapsed_ms
    span.__exit__(*OUT)
    assert span.elapsed_ms == elapsed_ms
    assert written(logger, sink) == [("A", True, "ok"), ("A", False, "error:NotEntered")]


def test_a_block_may_be_entered_again_after_it_was_left(
    block: Callable[[str], Timer], logger: TimingLogger, sink: MemorySink
) -> None:
    span = block("A")
    for _ in range(2):
        with span:
            assert math.isnan(span.elapsed_ms)
            assert list(logger._open_calls) == [span]
    assert written(logger, sink) == [("A", True, "ok")] * 2


def test_a_block_that_is_entered_again_while_it_is_open_begins_anew(
    block: Callable[[str], Timer], logger: TimingLogger, sink: MemorySink
) -> None:
    span, between = block("A"), block("B")
    with span, between, span:
        assert list(logger._open_calls) == [between, span]
    with block("C"):
        pass
    assert written(logger, sink) == [
        ("A", True, "ok"), ("B", True, "ok"), ("A", False, "error:NotEntered"), ("C", True, "ok"),
    ]  # fmt: skip


def test_a_block_may_be_left_by_another_thread(
    block: Callable[[str], Timer], logger: TimingLogger, sink: MemorySink
) -> None:
    span = block("A").__enter__()
    with block("B"):
        thread = threading.Thread(target=span.__exit__, args=OUT)
        thread.start()
        thread.join()
    span.__exit__(*OUT)
    assert written(logger, sink) == [("A", True, "ok"), ("B", True, "ok"), ("A", False, "error:NotEntered")]


def test_blocks_of_a_logger_that_was_closed_meanwhile_are_dropped(
    block: Callable[[str], Timer], logger: TimingLogger, sink: MemorySink
) -> None:
    never_entered, left_later, entered_later = block("A"), block("B"), block("C")
    with left_later:
        logger.close()
    with entered_later:
        pass
    never_entered.__exit__(*OUT)
    assert [(record.operation, record.status) for record in sink.records] == [("B", "unresolved")]
    assert logger.stats.pending == 0

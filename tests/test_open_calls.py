"""Calls that block: a row each, also if nobody sees their end."""

from __future__ import annotations

import threading

import pytest

from timing_logger import TimingLogger
from timing_logger._recorder import SEQ
from timing_logger.record import Record
from timing_logger.sinks.memory import MemorySink


@pytest.fixture
def sink() -> MemorySink:
    return MemorySink()


@pytest.fixture
def logger(sink: MemorySink) -> TimingLogger:
    return TimingLogger(0, log_dir=None, sinks=[sink])


def begin(logger: TimingLogger, operation: str, seq: int | None = None) -> None:
    logger.begin_call(operation, 8, None, "world", 2, None)[SEQ] = seq


def written(logger: TimingLogger, sink: MemorySink) -> list[Record]:
    logger.close()
    return sink.records


def test_a_call_is_a_row_with_what_was_known_at_its_begin_and_its_number(
    logger: TimingLogger, sink: MemorySink
) -> None:
    logger.set_current_iteration(3)
    with logger.label("layer1", "dense"):
        begin(logger, "ALLREDUCE", 7)
    logger.set_current_iteration(4)
    logger.end_call()
    (row,) = written(logger, sink)
    assert row[:6] == (3, None, "layer1", "ALLREDUCE", "dense", 8)
    assert (row.group, row.group_size, row.seq, row.peer, row.status) == ("world", 2, 7, None, "ok")
    assert row.end_ns is not None
    assert row.end_ns >= row.start_ns > 0


def test_a_call_within_a_call_ends_first(logger: TimingLogger, sink: MemorySink) -> None:
    begin(logger, "OUTER")
    begin(logger, "INNER")
    logger.end_call("error:OSError")
    logger.end_call()
    assert [(row.operation, row.status) for row in written(logger, sink)] == [
        ("INNER", "error:OSError"),
        ("OUTER", "ok"),
    ]


def test_a_call_whose_end_nobody_will_see_is_unresolved_at_once(
    logger: TimingLogger, sink: MemorySink
) -> None:
    begin(logger, "ALLREDUCE", 1)
    logger.lose_call()
    (row,) = written(logger, sink)
    assert (row.operation, row.seq, row.end_ns, row.status) == ("ALLREDUCE", 1, None, "unresolved")


def test_what_other_threads_are_blocked_in_is_written_once_when_the_logger_is_closed(
    logger: TimingLogger, sink: MemorySink
) -> None:
    inside, closed = threading.Event(), threading.Event()

    def block() -> None:
        begin(logger, "OUTER", 1)
        begin(logger, "INNER", 2)
        inside.set()
        assert closed.wait(30)
        logger.end_call()
        logger.end_call()

    thread = threading.Thread(target=block, name="blocked")
    thread.start()
    assert inside.wait(30)
    begin(logger, "MINE", 3)
    rows = written(logger, sink)
    closed.set()
    thread.join()
    logger.end_call()
    assert sorted((row.operation, row.seq, row.end_ns, row.status) for row in rows) == [
        ("INNER", 2, None, "unresolved"),
        ("MINE", 3, None, "unresolved"),
        ("OUTER", 1, None, "unresolved"),
    ]
    assert {row.thread for row in rows} == {"MainThread", "blocked"}
    assert sink.records == rows
    assert logger.stats.dropped == 0

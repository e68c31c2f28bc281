"""Calls that block: a row each, also if nobody sees their end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from both_cores import BuiltCore
from limits import LIMIT_S

from timing_logger import TimingLogger
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

pytestmark = pytest.mark.usefixtures("each_core")


class Group:
    """Two ranks that have made seven collectives."""

    name, size = "world", 2

    def __init__(self) -> None:
        self.collectives = 7

    def next_collective(self) -> int:
        self.collectives += 1
        return self.collectives - 1

    def take_back(self, error: BaseException) -> bool:
        self.collectives -= 1
        return True


class Work:
    """What a call has begun; ``wait`` calls ``waiting``."""

    def __init__(self, waiting: Callable[[], object] = int, *, ends: bool = True) -> None:
        self.wait = waiting
        self.is_completed: Callable[[], object] = lambda: ends


def timed(logger: TimingLogger, operation: str, call: Callable[..., object], *args: Any) -> Any:
    return logger.time_call(operation, 8, None, None, Group(), Work, call, args)


def fail(*_: object) -> None:
    raise ConnectionError


def written(logger: TimingLogger, sink: MemorySink) -> list[Record]:
    logger.close()
    return sink.records


def test_a_call_is_a_row_with_what_was_known_at_its_begin_and_its_number(
    logger: TimingLogger, sink: MemorySink
) -> None:
    logger.set_current_iteration(3)
    with logger.label("layer1", "dense"):
        assert timed(logger, "ALLREDUCE", logger.set_current_iteration, 4) is None
    (row,) = written(logger, sink)
    assert row[:6] == (3, None, "layer1", "ALLREDUCE", "dense", 8)
    assert (row.group, row.group_size, row.seq, row.peer, row.status) == ("world", 2, 7, None, "ok")
    assert row.end_ns is not None
    assert row.end_ns >= row.start_ns > 0


def test_a_call_lasts_until_what_it_began_is_complete(logger: TimingLogger, sink: MemorySink) -> None:
    seen: list[str] = []
    work = Work(lambda: seen.append("waited"))
    assert timed(logger, "ALLREDUCE", lambda: work) is work
    assert seen == ["waited"]
    assert [row.status for row in written(logger, sink)] == ["ok"]


def test_a_call_within_a_call_ends_first(logger: TimingLogger, sink: MemorySink) -> None:
    def inner() -> None:
        with pytest.raises(ConnectionError):
            timed(logger, "INNER", fail)

    timed(logger, "OUTER", inner)
    assert [(row.operation, row.status, row.seq) for row in written(logger, sink)] == [
        ("INNER", "error:ConnectionError", None),
        ("OUTER", "ok", 7),
    ]


@pytest.mark.parametrize(("ends", "status"), [(True, "error:ConnectionError"), (False, "unresolved")])
def test_a_wait_that_fails_ends_the_call_if_its_work_has_ended(
    logger: TimingLogger, sink: MemorySink, ends: bool, status: str
) -> None:
    with pytest.raises(ConnectionError):
        timed(logger, "ALLREDUCE", lambda: Work(fail, ends=ends))
    (row,) = written(logger, sink)
    assert (row.seq, row.status, row.end_ns is None) == (7, status, not ends)


def test_a_handle_that_cannot_say_whether_it_has_ended_hides_no_error(
    logger: TimingLogger, sink: MemorySink
) -> None:
    work = Work(fail)
    work.is_completed = lambda: 1 // 0
    with pytest.raises(ConnectionError):
        timed(logger, "ALLREDUCE", lambda: work)
    assert [(row.status, row.end_ns) for row in written(logger, sink)] == [("unresolved", None)]


def test_nor_does_that_of_an_operation_in_the_background(
    each_core: BuiltCore, logger: TimingLogger, sink: MemorySink
) -> None:
    operation: Any = logger.begin_operation(
        each_core.classes.BackgroundSpan, "IALLREDUCE", 8, None, "world", 2, None
    )
    operation.begin(True, logger)
    work: Any = Work(fail)
    work.is_completed = lambda: 1 // 0
    with pytest.raises(ConnectionError):
        operation.wait(work)
    operation.lose()
    assert [(row.operation, row.status) for row in written(logger, sink)] == [
        ("WAIT", "error:ConnectionError"),
        ("IALLREDUCE", "unresolved"),
    ]


def test_what_other_threads_are_blocked_in_is_written_once_when_the_logger_is_closed(
    logger: TimingLogger, sink: MemorySink
) -> None:
    inside, closed = threading.Event(), threading.Event()

    def block() -> None:
        inside.set()
        assert closed.wait(LIMIT_S)

    outer = threading.Thread(
        target=timed, args=(logger, "OUTER", timed, logger, "INNER", block), name="blocked"
    )
    outer.start()
    assert inside.wait(LIMIT_S)
    rows: list[Record] = []
    timed(logger, "MINE", lambda: rows.extend(written(logger, sink)))
    closed.set()
    outer.join()
    assert sorted((row.operation, row.seq, row.end_ns, row.status) for row in rows) == [
        ("INNER", 7, None, "unresolved"),
        ("MINE", 7, None, "unresolved"),
        ("OUTER", 7, None, "unresolved"),
    ]
    assert {row.thread for row in rows} == {"MainThread", "blocked"}
    assert sink.records == rows
    assert logger.stats.dropped == 0


def test_a_failed_call_is_written_once_if_the_logger_was_closed_in_it(
    logger: TimingLogger, sink: MemorySink
) -> None:
    def close_and_fail() -> None:
        logger.close()
        raise ConnectionError

    with pytest.raises(ConnectionError):
        timed(logger, "ALLREDUCE", close_and_fail)
    assert [row.status for row in sink.records] == ["unresolved"]
    assert logger.stats.dropped == 0


def test_a_forked_child_has_none_of_its_parents_calls(
    each_core: BuiltCore, logger: TimingLogger, sink: MemorySink
) -> None:
    operation: Any = logger.begin_operation(
        each_core.classes.BackgroundSpan, "IALLREDUCE", 8, None, "world", 2, None
    )
    operation.begin(True, logger)
    with logger.record_mpi_operation("STEP"):
        assert len(list(logger._open_calls)) == 2
        logger._open_calls.forget()
        assert list(logger._open_calls) == []
    operation.end(None)
    assert "IALLREDUCE" not in [row.operation for row in written(logger, sink)]


def test_what_was_left_running_is_written_at_the_end_and_only_then(
    each_core: BuiltCore, logger: TimingLogger, sink: MemorySink
) -> None:
    operation: Any = logger.begin_operation(
        each_core.classes.BackgroundSpan, "IALLREDUCE", 8, None, "world", 2, None
    )
    operation.begin(True, logger)
    logger._open_calls.write_all("unresolved")
    operation.end(None)
    assert [(row.operation, row.status) for row in written(logger, sink)] == [("IALLREDUCE", "unresolved")]
    assert list(logger._open_calls) == []

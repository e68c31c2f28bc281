"""Operations that calls begin and that go on, as instrumentation records them over each core."""

from __future__ import annotations

from typing import Any

import pytest
from both_cores import BuiltCore

from timing_logger import TimingLogger
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

pytestmark = pytest.mark.usefixtures("each_core")


class Group:
    """Two ranks that have made seven collectives; a call that raised had not ``begun`` one."""

    name, size = "world", 2

    def __init__(self, *, begun: bool = False) -> None:
        self.collectives = 7
        self._begun = begun

    def next_collective(self) -> int:
        self.collectives += 1
        return self.collectives - 1

    def take_back(self, error: BaseException) -> bool:
        self.collectives -= not self._begun
        return not self._begun


def fail(*_: object) -> None:
    raise ConnectionError


def written(logger: TimingLogger, sink: MemorySink) -> list[Record]:
    logger.close()
    return sink.records


def issue(logger: TimingLogger, core: BuiltCore, group: Group, numbered: bool, *call: Any) -> tuple[Any, Any]:
    kind = core.classes.BackgroundSpan
    function, *args = call
    return logger.issue_call(kind, "IALLREDUCE", 8, "layer1", 1, group, numbered, True, function, tuple(args))


@pytest.mark.parametrize(("numbered", "seq", "collectives"), [(True, 7, 8), (False, None, 7)])
def test_what_a_call_begins_is_a_row_when_it_has_ended(
    each_core: BuiltCore, logger: TimingLogger, sink: MemorySink,
    numbered: bool, seq: int | None, collectives: int,
) -> None:  # fmt: skip
    group = Group()
    operation, returned = issue(logger, each_core, group, numbered, max, 3, 5)
    assert (returned, group.collectives) == (5, collectives)
    assert logger.flush()
    assert sink.records == []
    operation.end(None)
    (row,) = written(logger, sink)
    assert (row.operation, row.message_size_bytes, row.layer_name, row.peer) == ("IALLREDUCE", 8, "layer1", 1)
    assert (row.group, row.group_size, row.seq, row.status) == ("world", 2, seq, "ok")


@pytest.mark.parametrize(
    ("numbered", "begun", "seq", "collectives"),
    [(True, False, None, 7), (True, True, 7, 8), (False, False, None, 7)],
    ids=["not begun", "begun", "without a number"],
)
def test_a_call_that_fails_is_a_row_with_a_number_if_it_had_begun(
    each_core: BuiltCore, logger: TimingLogger, sink: MemorySink,
    numbered: bool, begun: bool, seq: int | None, collectives: int,
) -> None:  # fmt: skip
    group = Group(begun=begun)
    with pytest.raises(ConnectionError):
        issue(logger, each_core, group, numbered, fail)
    assert group.collectives == collectives
    assert [(row.seq, row.status) for row in written(logger, sink)] == [(seq, "error:ConnectionError")]


def test_the_number_is_there_before_the_call_which_may_hang(
    each_core: BuiltCore, logger: TimingLogger
) -> None:
    open_then: list[Any] = []

    def look() -> None:
        for call in logger._open_calls:
            open_then.extend(Record._make(record) for record in call.open_records("inflight"))

    issue(logger, each_core, Group(), True, look)[0].end(None)
    assert [(row.operation, row.seq) for row in open_then] == [("IALLREDUCE", 7)]
    logger.close()


def test_an_operation_that_was_begun_elsewhere_has_the_start_and_the_number_that_are_stated(
    logger: TimingLogger, sink: MemorySink
) -> None:
    operation = logger.begin_background("IRECV", 8, 1, Group(), 5, None, 1234)
    operation.end(None)
    (row,) = written(logger, sink)
    assert (row.operation, row.message_size_bytes, row.peer, row.start_ns) == ("IRECV", 8, 1, 1234)
    assert (row.group, row.group_size, row.seq, row.status) == ("world", 2, 5, "ok")


class Work:
    """What a call has begun, and of which 77 bytes came."""

    n_bytes = 77

    def wait(self) -> None: ...

    def is_completed(self) -> bool:
        return True


def test_what_is_learnt_at_its_end_is_in_its_row(logger: TimingLogger, sink: MemorySink) -> None:
    def learn(operation: Any, told: Any) -> str:
        operation.message_size_bytes = told.n_bytes
        return "ok"

    logger.begin_background("IRECV", None, 1, Group(), None, learn, 1).wait(Work())
    assert [(row.operation, row.message_size_bytes) for row in written(logger, sink)] == [
        ("IRECV", 77), ("WAIT", 77),
    ]  # fmt: skip


def test_one_that_sampling_leaves_out_is_no_row(logger: TimingLogger, sink: MemorySink) -> None:
    logger.begin_background("IRECV", 8, 1, Group(), 5, None, 1, False).end(None)
    assert written(logger, sink) == []


def test_what_the_sidecar_states_of_groups_and_calls_is_noted(logger: TimingLogger) -> None:
    group = Group()
    logger.add_group(group, "mine")
    logger.note_process_group("native")
    for name in ("Ibarrier", "Probe", "Probe"):
        logger.count_untimed(name)
    noted = logger._open_calls
    assert noted.groups() == [(group, "mine")]
    assert noted.process_group == "native"
    assert noted.untimed == {"Ibarrier": 1, "Probe": 2}
    logger.close()


def test_a_logger_that_is_off_counts_no_calls() -> None:
    logger = TimingLogger(0, None, sinks=[MemorySink()], ranks=[1])
    logger.count_untimed("Probe")
    assert logger._open_calls.untimed == {}
    logger.close()

"""How a call of NCCL is counted and named, whether or not it has a row."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from stub_nccl import nccl

from allreduce_instrumentation._operation_counts import OperationCounts
from allreduce_instrumentation.nccl import _calls
from allreduce_instrumentation.nccl._calls import NcclCalls
from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

__all__ = ["nccl"]


@pytest.fixture
def calls(logger: TimingLogger, monkeypatch: pytest.MonkeyPatch) -> NcclCalls:
    monkeypatch.setattr(_calls, "stream_of_handle", lambda handle, index: None)
    return NcclCalls(logger, OperationCounts("nccl", 4, 1), 0)


def nothing() -> None:
    """A call that succeeds."""


def fails() -> None:
    raise KeyError


def time(calls: NcclCalls, operation: str, peer: int | None = None, call: Callable[[], Any] = nothing) -> Any:
    return calls.time(call, operation, 8, peer, operation not in ("SEND", "RECV", "PUT"), 0)


def test_messages_count_by_direction_and_peer(
    calls: NcclCalls, logger: TimingLogger, sink: MemorySink
) -> None:
    for operation, peer in (("SEND", 2), ("SEND", 2), ("RECV", 2), ("SEND", 3), ("PUT", 2), ("RECV", None)):
        time(calls, operation, peer)
    logger.flush()
    assert [row.seq for row in sink.records] == [0, 1, 0, 0, None, None]


def test_what_raises_counts_for_nothing(calls: NcclCalls, logger: TimingLogger, sink: MemorySink) -> None:
    for operation in ("SEND", "ALLREDUCE"):
        with pytest.raises(KeyError):
            time(calls, operation, 2, fails)
        time(calls, operation, 2)
    logger.flush()
    assert [(row.status, row.seq) for row in sink.records] == [
        ("error:KeyError", None), ("unresolved", 0), ("error:KeyError", None), ("unresolved", 0),
    ]  # fmt: skip


def test_what_has_no_row_counts_as_well_and_hands_its_result_on(sink: MemorySink) -> None:
    logger = TimingLogger(0, None, sinks=[sink], record_every_n_steps=2)
    calls = NcclCalls(logger, OperationCounts("nccl", 4, 1), 0)
    logger.set_current_iteration(1)
    for operation in ("SEND", "RECV", "ALLREDUCE"):
        assert time(calls, operation, 2, lambda: "done") == "done"
        with pytest.raises(KeyError):
            time(calls, operation, 2, fails)
    assert calls.identity.collectives == 1
    assert (calls.identity.next_sent(2), calls.identity.next_received(2)) == (1, 1)
    logger.close()
    assert sink.records == []


def test_a_collective_under_way_has_its_number(calls: NcclCalls, logger: TimingLogger) -> None:
    seen: list[int | None] = []
    time(calls, "ALLREDUCE")
    rows: Any = logger._open_calls.running
    time(calls, "ALLREDUCE", call=lambda: seen.extend(row.seq for row in rows))
    assert seen == [1]


def test_the_logger_knows_the_communicator_by_its_name() -> None:
    known: list[object] = []
    stub: Any = SimpleNamespace(add_group=lambda *group: known.append(group))
    identity = OperationCounts("nccl 1234", 4, 1)
    NcclCalls(stub, identity, 0)
    assert known == [(identity, "nccl 1234")]


def test_a_stream_is_looked_for_until_it_is_found(
    calls: NcclCalls, logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    found: list[Any] = [None, "a stream"]

    def stream_of_handle(*of: object) -> Any:
        asked.append(of)
        return found.pop(0)

    monkeypatch.setattr(_calls, "stream_of_handle", stream_of_handle)
    assert calls._found_stream(7) is None
    assert calls._streams == {}
    assert calls._found_stream(7) == "a stream"
    assert calls._streams == {7: "a stream"}
    assert asked == [(7, 0), (7, 0)]


# -- communicators ---------------------------------------------------------------------------------------


def test_a_communicator_has_the_ranks_that_it_is_initialised_with(
    nccl: ModuleType, logger: TimingLogger
) -> None:
    from allreduce_instrumentation.nccl import TimedCommunicator

    comm = TimedCommunicator.init(2, 0, b"id", timing_logger=logger)
    assert (comm.nranks, comm.rank) == (2, 0)


def test_of_several_unique_ids_the_first_gives_the_name(nccl: ModuleType, logger: TimingLogger) -> None:
    from allreduce_instrumentation.nccl import TimedCommunicator

    names = [
        TimedCommunicator.init(2, 0, unique, timing_logger=logger).timing_name
        for unique in ([b"one", b"two"], (b"one", b"three"), b"one", b"two")
    ]
    assert names[0] == names[1] == names[2] != names[3]


def test_a_communicator_is_split_by_the_arguments_that_are_given(
    nccl: Any, logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    from allreduce_instrumentation.nccl import TimedCommunicator

    asked: list[object] = []

    def split(self: Any, *args: object) -> Any:
        asked.append(args)
        return type(self)()

    monkeypatch.setattr(nccl.Communicator, "split", split)
    comm = TimedCommunicator.init(2, 0, b"id", timing_logger=logger)
    comm.split()
    assert comm.split(5, 3, "config").timing_name == f"{comm.timing_name}, split 2, 5"
    assert asked == [(None, 0, None), (5, 3, "config")]


def test_what_is_shrunk_by_no_rank_or_is_not_timed_has_no_ranks_in_its_name(
    nccl: Any, logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    from allreduce_instrumentation.nccl import TimedCommunicator

    comm = TimedCommunicator.init(2, 0, b"id", timing_logger=logger)
    rest: Any = comm.shrink()
    assert rest.timing_name == f"{comm.timing_name}, without"
    plain = nccl.Communicator()
    monkeypatch.setattr(nccl.Communicator, "split", lambda self, *_: plain)
    assert comm.split(0) is plain
    assert not hasattr(plain, "timing_name")


def test_a_group_that_is_only_simulated_ends_its_calls_too(nccl: Any, logger: TimingLogger) -> None:
    from nccl.bindings import nccl as bindings

    from allreduce_instrumentation.nccl import TimedCommunicator

    TimedCommunicator.init(2, 0, b"id", timing_logger=logger)
    bindings.group_start()
    open_groups = sys.modules["allreduce_instrumentation.nccl._calls"].OPEN_GROUPS
    assert open_groups._depth == 1
    bindings.group_simulate_end()
    assert open_groups._depth == 0


def test_streams_are_looked_for_on_the_device_of_the_communicator(nccl: Any, logger: TimingLogger) -> None:
    from allreduce_instrumentation.nccl import TimedCommunicator

    comm: Any = TimedCommunicator.init(2, 0, b"id", timing_logger=logger)
    comm.device = SimpleNamespace(device_id=3)
    assert comm._calls()._device_index == 3

"""Communicators of CuPy that time themselves: over a stand-in for CuPy, on a scripted device."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from scripted_device import ScriptedAccelerator

from timing_logger import TimingLogger
from timing_logger.errors import ConfigurationError
from timing_logger.schema.record import DEVICE_CLOCK, Record
from timing_logger.sinks.memory import MemorySink

FLOAT32, SUM, STREAM = 7, 0, 77
MODULE = "allreduce_instrumentation.nccl.cupy"

# name -> how it is called by rank 1 of 4, and its row: operation, bytes, peer
CALLS: dict[str, tuple[tuple[int, ...], tuple[str, int, int | None]]] = {
    "allReduce": ((1, 1, 8, FLOAT32, SUM, STREAM), ("ALLREDUCE", 32, None)),
    "allGather": ((1, 1, 8, FLOAT32, STREAM), ("ALLGATHER", 32, None)),
    "reduce": ((1, 1, 8, FLOAT32, SUM, 2, STREAM), ("REDUCE", 32, 2)),
    "reduceScatter": ((1, 1, 8, FLOAT32, SUM, STREAM), ("REDUCE_SCATTER", 128, None)),
    "broadcast": ((1, 1, 8, FLOAT32, 3, STREAM), ("BCAST", 32, 3)),
    "bcast": ((1, 8, FLOAT32, 3, STREAM), ("BCAST", 32, 3)),
    "send": ((1, 8, FLOAT32, 2, STREAM), ("SEND", 32, 2)),
    "recv": ((1, 8, FLOAT32, 0, STREAM), ("RECV", 32, 0)),
}


class NcclCommunicator:
    """As ``cupy.cuda.nccl.NcclCommunicator`` of CuPy 14."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[int, ...]]] = []

    def size(self) -> int:
        return 4

    def rank_id(self) -> int:
        return 1

    def device_id(self) -> int:
        return 0

    def commSplit(self, color: int, key: int, config: Any = None) -> NcclCommunicator | None:
        return None if color < 0 else NcclCommunicator()

    def allReduce(self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, stream: int) -> None:
        if datatype < 0:
            raise ValueError(datatype)
        self.asked.append(("allReduce", (sendbuf, recvbuf, count, datatype, op, stream)))

    def allGather(self, sendbuf: int, recvbuf: int, count: int, datatype: int, stream: int) -> None: ...

    def reduce(
        self, sendbuf: int, recvbuf: int, count: int, datatype: int, op: int, root: int, stream: int
    ) -> None: ...

    def reduceScatter(
        self, sendbuf: int, recvbuf: int, recvcount: int, datatype: int, op: int, stream: int
    ) -> None: ...

    def broadcast(
        self, sendbuff: int, recvbuff: int, count: int, datatype: int, root: int, stream: int
    ) -> None: ...

    def bcast(self, buff: int, count: int, datatype: int, root: int, stream: int) -> None: ...

    def send(self, sendbuf: int, count: int, datatype: int, peer: int, stream: int) -> None: ...

    def recv(self, recvbuf: int, count: int, datatype: int, peer: int, stream: int) -> None: ...


@pytest.fixture
def nccl(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """``cupy.cuda.nccl`` of the stand-in, for one test."""
    modules = {name: ModuleType(name) for name in ("cupy", "cupy.cuda", "cupy.cuda.nccl")}
    stub: Any = modules["cupy.cuda.nccl"]
    stub.NcclCommunicator = NcclCommunicator
    stub.groupStart = stub.groupEnd = lambda: None
    modules["cupy.cuda"].nccl = stub  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield stub
    sys.modules.pop(MODULE, None)


@pytest.fixture
def comm(nccl: Any, scripted_device: ScriptedAccelerator, logger: TimingLogger) -> Any:
    from allreduce_instrumentation.nccl import TimedNcclCommunicator

    return TimedNcclCommunicator(nccl.NcclCommunicator(), "gradients", timing_logger=logger)


def rows(logger: TimingLogger, sink: MemorySink) -> list[Record]:
    logger.flush()
    return sink.records


@pytest.mark.parametrize("name", CALLS)
def test_each_method_is_a_row_on_the_clock_of_the_device(
    comm: Any, logger: TimingLogger, sink: MemorySink, scripted_device: ScriptedAccelerator, name: str
) -> None:
    scripted_device.work_ns = 3_000_000
    arguments, expected = CALLS[name]
    getattr(comm, name)(*arguments)
    (row,) = rows(logger, sink)
    assert (row.operation, row.message_size_bytes, row.peer) == expected
    assert (row.group, row.group_size, row.seq, row.clock) == ("gradients", 4, 0, DEVICE_CLOCK)
    assert row.end_ns is not None
    assert row.end_ns - row.start_ns == pytest.approx(3_000_000, abs=1000)
    assert row.stream.endswith(f"/{STREAM}")


def test_arguments_may_be_given_by_name(comm: Any, logger: TimingLogger, sink: MemorySink) -> None:
    comm.send(1, count=8, datatype=FLOAT32, peer=2, stream=STREAM)
    (row,) = rows(logger, sink)
    assert (row.operation, row.message_size_bytes, row.peer) == ("SEND", 32, 2)


def test_with_a_logger_that_is_off_only_cupy_is_called(nccl: Any) -> None:
    from allreduce_instrumentation.nccl import TimedNcclCommunicator

    off = TimedNcclCommunicator(nccl.NcclCommunicator(), timing_logger=TimingLogger(0, None, enabled=False))
    arguments, _ = CALLS["allReduce"]
    off.allReduce(*arguments)
    assert off.asked == [("allReduce", arguments)]
    assert off._calls.identity.collectives == 0


def test_ranks_and_the_device_are_those_of_cupys_communicator(nccl: Any, logger: TimingLogger) -> None:
    from allreduce_instrumentation.nccl import TimedNcclCommunicator

    own: Any = nccl.NcclCommunicator()
    own.device_id = lambda: 3
    calls = TimedNcclCommunicator(own, timing_logger=logger)._calls
    assert (calls.identity.rank, calls.identity.size, calls._device_index) == (1, 4, 3)


def test_bytes_follow_from_the_number_of_the_type_in_nccls_header(
    comm: Any, logger: TimingLogger, sink: MemorySink
) -> None:
    # int8 uint8, int32 uint32, int64 uint64, float16 float32 float64, bfloat16, and two floats of 8 bits
    for datatype in range(12):
        comm.send(1, 10, datatype, 2, STREAM)
    found = [row.message_size_bytes for row in rows(logger, sink)]
    assert found == [10, 10, 40, 40, 80, 80, 20, 40, 80, 20, 10, 10]


def test_cupy_gets_the_arguments_as_they_are(comm: Any) -> None:
    comm.allReduce(1, 2, 8, FLOAT32, SUM, STREAM)
    assert comm.asked == [("allReduce", (1, 2, 8, FLOAT32, SUM, STREAM))]


def test_calls_in_a_group_end_with_it(comm: Any, nccl: Any, logger: TimingLogger, sink: MemorySink) -> None:
    nccl.groupStart()
    comm.send(*CALLS["send"][0])
    assert rows(logger, sink) == []
    nccl.groupEnd()
    assert [row.operation for row in rows(logger, sink)] == ["SEND"]


def test_what_is_split_is_timed_under_a_name_of_its_own(
    comm: Any, logger: TimingLogger, sink: MemorySink
) -> None:
    comm.commSplit(1, 0).allGather(*CALLS["allGather"][0])
    assert comm.commSplit(-1, 0) is None
    comm.commSplit(0, 0).allGather(*CALLS["allGather"][0])
    assert [row.group for row in rows(logger, sink)] == ["gradients, split 1, 1", "gradients, split 3, 0"]


def test_an_error_is_cupys_own_and_the_next_call_has_its_number(
    comm: Any, logger: TimingLogger, sink: MemorySink
) -> None:
    with pytest.raises(ValueError, match="-1"):
        comm.allReduce(1, 1, 8, -1, SUM, STREAM)
    with pytest.raises(TypeError):
        comm.allReduce(1)
    comm.allReduce(*CALLS["allReduce"][0])
    found = [(row.status, row.seq) for row in rows(logger, sink)]
    assert found == [("error:ValueError", None), ("ok", 0)]


def test_without_cupy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import allreduce_instrumentation.nccl as package

    monkeypatch.setitem(sys.modules, "cupy", None)  # cannot be imported
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    with pytest.raises(ConfigurationError, match=r"needs CuPy with NCCL.*pip install cupy-cuda"):
        _ = package.TimedNcclCommunicator


@pytest.mark.parametrize("name", [*CALLS, "commSplit"])
def test_the_stand_in_has_the_signatures_of_cupy(name: str) -> None:
    real = pytest.importorskip("cupy.cuda.nccl", reason="CuPy is not installed", exc_type=ImportError)
    said = getattr(real.NcclCommunicator, name).__doc__.splitlines()[0]
    names = re.findall(r"(\w+)(?:=\w+)?[,)]", said)
    assert names == list(inspect.signature(getattr(NcclCommunicator, name)).parameters)

"""Communicators of nccl4py that time themselves: over a stand-in for nccl4py, on a scripted device."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import stub_nccl
from scripted_device import ScriptedAccelerator
from stub_nccl import asked, nccl

from allreduce_instrumentation.nccl._calls import METHODS, bytes_of
from timing_logger import TimingLogger
from timing_logger.errors import ConfigurationError
from timing_logger.schema.record import DEVICE_CLOCK, HOST_CLOCK, Record
from timing_logger.sinks.memory import MemorySink

__all__ = ["nccl"]

EIGHT, FOUR = np.zeros(8, "f4"), np.zeros(4, "f4")
SIDE_STREAM = 77

# name -> how it is called by rank 1 of 4, and its row: operation, bytes, peer, number
CALLS: dict[str, tuple[tuple[Any, ...], tuple[str, int | None, int | None, int | None]]] = {
    "allreduce": ((EIGHT, EIGHT, "sum"), ("ALLREDUCE", 32, None, 0)),
    "broadcast": ((None, EIGHT, 3), ("BCAST", 32, 3, 0)),
    "reduce": ((EIGHT, None, "sum", 2), ("REDUCE", 32, 2, 0)),
    "allgather": ((FOUR, EIGHT), ("ALLGATHER", 16, None, 0)),
    "gather": ((FOUR, None, 0), ("GATHER", 16, 0, 0)),
    "scatter": ((None, FOUR, 0), ("SCATTER", 64, 0, 0)),
    "reduce_scatter": ((EIGHT, FOUR, "sum"), ("REDUCE_SCATTER", 32, None, 0)),
    "alltoall": ((EIGHT, EIGHT), ("ALLTOALL", 32, None, 0)),
    "send": ((EIGHT, 2), ("SEND", 32, 2, 0)),
    "recv": ((FOUR, 0), ("RECV", 16, 0, 0)),
    "put_signal": ((EIGHT, 2, "window"), ("PUT", 32, 2, None)),
    "signal": ((3,), ("SIGNAL", 0, 3, None)),
    "wait_signal": (("descriptor",), ("WAIT_SIGNAL", 0, None, None)),
}


@pytest.fixture
def comm(nccl: ModuleType, scripted_device: ScriptedAccelerator, logger: TimingLogger) -> Any:
    """Rank 1 of 4, on a device."""
    from allreduce_instrumentation.nccl import TimedCommunicator

    return TimedCommunicator.init(4, 1, b"id of the job", timing_logger=logger)


def rows(logger: TimingLogger, sink: MemorySink) -> list[Record]:
    logger.flush()
    return sink.records


@pytest.mark.parametrize("name", METHODS)
def test_each_method_is_a_row_with_operation_bytes_peer_and_number(
    comm: Any, logger: TimingLogger, sink: MemorySink, name: str
) -> None:
    args, expected = CALLS[name]
    getattr(comm, name)(*args)
    (row,) = rows(logger, sink)
    assert (row.operation, row.message_size_bytes, row.peer, row.seq) == expected
    assert (row.group, row.group_size, row.status) == (comm.timing_name, 4, "ok")
    assert len(asked) == 1


def test_arguments_may_be_given_by_name(comm: Any, logger: TimingLogger, sink: MemorySink) -> None:
    comm.reduce(sendbuf=EIGHT, recvbuf=None, op="sum", root=2)
    comm.recv(recvbuf=FOUR, peer=3)
    assert [(r.operation, r.message_size_bytes, r.peer) for r in rows(logger, sink)] == [
        ("REDUCE", 32, 2),
        ("RECV", 16, 3),
    ]


def test_a_reduce_and_a_gather_without_a_root_are_for_everybody(
    comm: Any, logger: TimingLogger, sink: MemorySink
) -> None:
    comm.reduce(EIGHT, EIGHT, "sum")
    comm.gather(FOUR, EIGHT)
    assert [(r.operation, r.seq) for r in rows(logger, sink)] == [("ALLREDUCE", 0), ("ALLGATHER", 1)]


def test_the_duration_is_that_of_the_device_in_the_stream_that_was_given(
    comm: Any, logger: TimingLogger, sink: MemorySink, scripted_device: ScriptedAccelerator
) -> None:
    scripted_device.work_ns = 3_000_000
    comm.allreduce(EIGHT, EIGHT, "sum", stream=SIDE_STREAM)
    (row,) = rows(logger, sink)
    assert row.clock == DEVICE_CLOCK
    assert row.end_ns is not None
    assert row.end_ns - row.start_ns == pytest.approx(3_000_000, abs=1000)
    assert row.stream.endswith(f"/{SIDE_STREAM}")


def test_without_a_device_that_torch_uses_the_row_has_no_duration(
    nccl: ModuleType, logger: TimingLogger, sink: MemorySink
) -> None:
    from allreduce_instrumentation.nccl import TimedCommunicator

    comm = TimedCommunicator.init(4, 1, b"id", timing_logger=logger)
    comm.allreduce(EIGHT, EIGHT, "sum")
    (row,) = rows(logger, sink)
    assert (row.operation, row.seq, row.end_ns, row.status) == ("ALLREDUCE", 0, None, "unresolved")
    assert row.clock == HOST_CLOCK


def test_calls_in_a_group_end_when_the_group_has_queued_them(
    comm: Any, nccl: Any, logger: TimingLogger, sink: MemorySink, scripted_device: ScriptedAccelerator
) -> None:
    with nccl.group():
        comm.send(EIGHT, 2)
        comm.recv(EIGHT, 0)
        assert scripted_device.asks.count("record") == 2  # their starts
        assert rows(logger, sink) == []
    assert asked == ["group_start", "send", "recv", "group_end"]
    found = rows(logger, sink)
    assert [(row.operation, row.peer, row.seq) for row in found] == [("SEND", 2, 0), ("RECV", 0, 0)]
    assert {row.status for row in found} == {"ok"}


def test_only_the_outermost_group_ends_the_calls(
    comm: Any, nccl: Any, logger: TimingLogger, sink: MemorySink
) -> None:
    with nccl.group():
        with nccl.group():
            comm.allreduce(EIGHT, EIGHT, "sum")
        assert rows(logger, sink) == []
    assert len(rows(logger, sink)) == 1


def test_a_call_that_raises_is_a_row_without_a_number_and_the_next_has_it(
    comm: Any, logger: TimingLogger, sink: MemorySink
) -> None:
    comm.fails = RuntimeError("invalid usage")
    with pytest.raises(RuntimeError, match="invalid usage"):
        comm.allreduce(EIGHT, EIGHT, "sum")
    comm.fails = None
    comm.allreduce(EIGHT, EIGHT, "sum")
    assert [(row.status, row.seq) for row in rows(logger, sink)] == [("error:RuntimeError", None), ("ok", 0)]


def test_an_error_of_the_timing_does_not_reach_the_call(
    comm: Any, logger: TimingLogger, sink: MemorySink, scripted_device: ScriptedAccelerator
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    scripted_device.stream_of_handle = broken  # type: ignore[method-assign,assignment]
    comm.allreduce(EIGHT, EIGHT, "sum", stream=SIDE_STREAM)
    assert asked == ["reduce"]
    assert rows(logger, sink) == []


def test_arguments_that_are_wrong_raise_nccl4pys_own_error(
    comm: Any, logger: TimingLogger, sink: MemorySink
) -> None:
    with pytest.raises(TypeError, match="allreduce"):
        comm.allreduce()
    comm.send(object(), 2)
    assert [row.message_size_bytes for row in rows(logger, sink) if row.status == "ok"] == [None]


def test_what_is_made_from_it_is_timed_by_the_same_logger_under_a_name_of_its_own(
    comm: Any, logger: TimingLogger, sink: MemorySink
) -> None:
    made = [comm.split(0), comm.split(1), comm.shrink([3, 2]), comm.grow(8)]
    for part in made:
        part.allreduce(EIGHT, EIGHT, "sum")
    own = comm.timing_name
    assert [row.group for row in rows(logger, sink)] == [
        f"{own}, split 1, 0", f"{own}, split 2, 1", f"{own}, without 2 3", "nccl grown to 8",
    ]  # fmt: skip
    assert {type(part).__name__ for part in made} == {"TimedCommunicator"}


def test_communicators_of_one_unique_id_have_one_name_on_all_ranks(comm: Any, logger: TimingLogger) -> None:
    from allreduce_instrumentation.nccl import TimedCommunicator

    same = TimedCommunicator.init(4, 0, b"id of the job", timing_logger=logger)
    other = TimedCommunicator.init(4, 0, b"id of another", timing_logger=logger)
    assert same.timing_name == comm.timing_name != other.timing_name


def test_iterations_that_are_not_recorded_are_counted(
    nccl: ModuleType, scripted_device: ScriptedAccelerator, sink: MemorySink
) -> None:
    from allreduce_instrumentation.nccl import TimedCommunicator

    logger = TimingLogger(0, None, sinks=[sink], record_every_n_steps=2)
    comm = TimedCommunicator.init(4, 1, b"id", timing_logger=logger)
    for iteration in range(3):
        logger.set_current_iteration(iteration)
        comm.allreduce(EIGHT, EIGHT, "sum")
        comm.send(EIGHT, 2)
    found = [(row.operation, row.iteration, row.seq) for row in rows(logger, sink)]
    assert found == [("ALLREDUCE", 0, 0), ("SEND", 0, 0), ("ALLREDUCE", 2, 2), ("SEND", 2, 2)]
    logger.close()


def test_with_a_logger_that_is_off_only_nccl_is_called(nccl: ModuleType) -> None:
    from allreduce_instrumentation.nccl import TimedCommunicator

    comm = TimedCommunicator.init(4, 1, b"id", timing_logger=TimingLogger(0, None, enabled=False))
    comm.allreduce(EIGHT, EIGHT, "sum")
    assert asked == ["reduce"]


def test_a_call_under_way_is_known_to_the_flush_thread(
    comm: Any, nccl: Any, logger: TimingLogger, sink: MemorySink
) -> None:
    nccl_group = nccl.group()
    nccl_group.__enter__()
    comm.allreduce(EIGHT, EIGHT, "sum")
    logger.close()
    assert [(row.operation, row.status) for row in sink.records] == [("ALLREDUCE", "unresolved")]
    nccl_group.__exit__(None, None, None)
    assert len(sink.records) == 1


class OnDevice:
    """With the interface that CuPy's and Numba's arrays have."""

    __cuda_array_interface__ = {"shape": (3, 5), "typestr": "<f8"}  # noqa: RUF012


class Buffer:
    """As ``cuda.core.Buffer``: its size in bytes."""

    size = 24


@pytest.mark.parametrize(
    ("buffer", "nbytes"), [(EIGHT, 32), (OnDevice(), 120), (Buffer(), 24), ("text", None), (None, None)]
)
def test_bytes_of_a_buffer(buffer: Any, nbytes: int | None) -> None:
    assert bytes_of(buffer) == nbytes


def test_without_nccl4py_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import allreduce_instrumentation.nccl as package

    for name in [name for name in sys.modules if name.split(".")[0] == "nccl"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nccl", None)  # cannot be imported
    monkeypatch.delitem(sys.modules, "allreduce_instrumentation.nccl.communicator", raising=False)
    with pytest.raises(ConfigurationError, match=r"needs nccl4py.*pip install 'nccl4py"):
        _ = package.TimedCommunicator


@pytest.mark.parametrize("name", [*METHODS, "init", "initialize", "split", "shrink", "grow"])
def test_the_stand_in_has_the_signatures_of_nccl4py(name: str) -> None:
    core = pytest.importorskip("nccl.core", reason="nccl4py is not installed", exc_type=ImportError)
    real = inspect.signature(getattr(core.Communicator, name))
    stub = inspect.signature(getattr(stub_nccl.Communicator, name))
    assert [(p.name, p.kind) for p in real.parameters.values()] == [
        (p.name, p.kind) for p in stub.parameters.values()
    ]

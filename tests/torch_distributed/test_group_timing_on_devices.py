"""Process groups whose backend queues its work in a device's streams, as NCCL does: marks, and no waiting.

The device is the scripted stand-in, and so are the backend's works and futures: here is what only a
script can show, as the order of marks, and errors. ``test_timed_group_on_async_device.py`` has the rest.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from scripted_device import ScriptedAccelerator

from allreduce_instrumentation.torch_distributed import _issue
from allreduce_instrumentation.torch_distributed._group_timing import GroupTiming
from allreduce_instrumentation.torch_distributed._issue import end_coalescing, issue, start_coalescing
from timing_logger import TimingLogger
from timing_logger.schema.record import UNRESOLVED, Record
from timing_logger.sinks.memory import MemorySink


class StandInGroup:
    """The part of a process group that names it."""

    group_desc, group_name = "default_pg", "0"
    _device_types: tuple[torch.device, ...] = ()

    def size(self) -> int:
        return 4

    def rank(self) -> int:
        return 0


class StandInFuture:
    """NCCL's: complete as soon as it exists, so that a callback runs at once."""

    def __init__(self, steps: list[str]) -> None:
        self._steps = steps

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        self._steps.append("callback")
        callback(self)

    def done(self) -> bool:
        return True

    def value(self) -> list[torch.Tensor]:
        return []

    def wait(self) -> list[torch.Tensor]:
        self._steps.append("future.wait")
        return []


class StandInWork(dist.Work):
    """NCCL's: to wait for it makes the current stream wait, and the caller goes on."""

    def __init__(
        self, steps: list[str], *, future: bool = True, fails_with: BaseException | None = None
    ) -> None:
        super().__init__()
        self._steps = steps
        self._future = StandInFuture(steps) if future else None
        self._fails_with = fails_with
        self.asked_for_future = 0

    def wait(self, *args: Any) -> bool:
        self._steps.append("wait")
        if self._fails_with is not None:
            raise self._fails_with
        return True

    def get_future(self) -> Any:
        self.asked_for_future += 1
        if self._future is None:
            raise RuntimeError("Work::getFuture not implemented.")
        return self._future

    def is_completed(self) -> bool:
        return self._fails_with is not None


class Bench:
    """A timed group on the scripted device.

    Attributes:
        steps: what happened, in order: marks on the device, and what the backend was told.
    """

    def __init__(self, device: ScriptedAccelerator, backend: str = "nccl", **options: object) -> None:
        self.device = device
        self.steps = device.asks
        self._sink = MemorySink()
        self._group = StandInGroup()
        self.logger = TimingLogger(0, None, sinks=[self._sink], **{"flush_interval": 3600.0, **options})
        self.timing = GroupTiming(self._group, self.logger, {"scripted": backend})

    def work(self, **how: Any) -> StandInWork:
        return StandInWork(self.steps, **how)

    def issue(self, work: object = None, *, waits: bool = False, name: str = "allreduce", **how: Any) -> Any:
        """One call of the group; ``waits``: issued to be complete when the stream goes on."""
        options = dist.AllreduceOptions() if name == "allreduce" else dist.BarrierOptions()
        options.asyncOp = not waits
        tensors = how.get("tensors", [torch.ones(25)])
        args = (options,) if name == "barrier" else (tensors, options)
        call = how.get("call", self._backend(work))
        return issue(self.timing, name, call, self._group, args, {})

    def _backend(self, work: object) -> Callable[..., object]:
        def call(*_: object) -> object:
            self.steps.append("backend")
            return work

        return call

    def coalesce(self, operations: int, together: object) -> Any:
        """Calls that the backend collects, and sends to work as one, which is what it returns then."""
        start_coalescing(self.timing, lambda: None)
        for _ in range(operations):
            assert type(self.issue(self.work())) is StandInWork
        return end_coalescing(self.timing, lambda: together)

    @property
    def rows(self) -> list[Record]:
        assert self.logger.flush()
        return self._sink.records


@pytest.fixture(autouse=True)
def tensors_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """They lie on the host here, and the timing takes them for the device's."""
    monkeypatch.setattr(_issue, "device_of", lambda *_: SimpleNamespace(type="scripted", index=0))


END_BY_FUTURE = ["enter a stream", "future.wait", "record", "leave it"]


torchs_way = _issue.may_use_future


@pytest.fixture(autouse=True)
def inside_a_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a background operation ends in its future's callback."""
    monkeypatch.setattr(_issue, "may_use_future", lambda _: True)


@pytest.fixture
def bench(scripted_device: ScriptedAccelerator) -> Iterator[Bench]:
    found = Bench(scripted_device)
    yield found
    found.logger._open_calls.write_all(UNRESOLVED)
    found.logger.close()


def summary(rows: list[Record]) -> list[tuple[str, str, str, int | None]]:
    return [(row.operation, row.clock, row.status, row.seq) for row in rows]


# -- calls that wait -----------------------------------------------------------------------------------


def test_a_synchronous_call_stands_between_two_marks_in_the_current_stream(bench: Bench) -> None:
    bench.issue(None, waits=True)
    assert bench.steps == ["record", "backend", "record"]


def test_a_synchronous_call_that_gives_a_work_ends_when_it_is_waited_for(bench: Bench) -> None:
    work = bench.issue(bench.work(), waits=True)
    assert bench.steps == ["record", "backend"]
    assert work.wait() is True
    assert bench.steps == ["record", "backend", "wait", "record"]
    assert summary(bench.rows) == [("ALLREDUCE", "device", "ok", 0)]


def test_without_a_duration_a_row_of_the_background_still_names_no_stream(bench: Bench) -> None:
    work = bench.issue(bench.work(fails_with=RuntimeError("CUDA error: lost")))
    bench.device.failed = "lost"
    with pytest.raises(RuntimeError):
        work.wait()
    assert {row.stream for row in bench.rows if row.operation == "IALLREDUCE"} == {""}


# -- operations in the background ---------------------------------------------------------------------


def test_a_background_operation_ends_in_a_stream_of_our_own_that_waits_for_its_future(bench: Bench) -> None:
    bench.issue(bench.work())
    assert bench.steps == ["record", "backend", *END_BY_FUTURE]
    assert summary(bench.rows) == [("IALLREDUCE", "device", "ok", 0)]


def test_nobody_asks_the_device_nor_waits_for_it(bench: Bench) -> None:
    bench.device.busy = True
    bench.issue(bench.work()).wait()
    assert set(bench.steps) == {"record", "backend", "wait", *END_BY_FUTURE}
    bench.device.get_on()  # else to close the logger would wait for it


def test_without_a_future_an_operation_ends_when_it_is_waited_for(bench: Bench) -> None:
    work = bench.issue(bench.work(future=False))
    assert bench.steps == ["record", "backend"]
    work.wait()
    assert sorted(summary(bench.rows)) == [("IALLREDUCE", "device", "ok", 0), ("WAIT", "device", "ok", 0)]


def test_a_method_without_futures_is_asked_for_one_once(bench: Bench) -> None:
    works = [bench.work(future=False) for _ in range(3)]
    for work in works:
        bench.issue(work).wait()
    assert [work.asked_for_future for work in works] == [1, 0, 0]


def test_operations_whose_end_nobody_saw_are_unresolved_at_the_end(bench: Bench) -> None:
    work = bench.issue(bench.work(future=False))
    bench.logger._open_calls.write_all(UNRESOLVED)
    (row,) = bench.rows
    assert (row.operation, row.status, row.end_ns, row.seq) == ("IALLREDUCE", "unresolved", None, 0)
    del work
    gc.collect()
    assert len(bench.rows) == 1


def test_no_tensor_outlives_the_callers_references(bench: Bench) -> None:
    tensor = torch.ones(25)
    alive = weakref.ref(tensor)
    gc.disable()
    try:
        work = bench.issue(bench.work(), tensors=[tensor])
        work.wait()
        del tensor
        assert alive() is None
    finally:
        gc.enable()


# -- at the end of a backward pass -----------------------------------------------------------------------


def test_a_backward_pass_waits_between_marks_for_what_it_left_running(bench: Bench) -> None:
    def reduce(gradient: torch.Tensor) -> torch.Tensor:
        bench.issue(bench.work()).get_future()
        bench.steps.append("gradient")
        return gradient

    leaf = torch.ones(3, requires_grad=True)
    leaf.register_hook(reduce)
    (leaf * 2).sum().backward()
    assert bench.steps[-4:] == ["gradient", "record", "future.wait", "record"]
    streams = [(row.operation, row.stream) for row in bench.rows]
    assert streams == [("IALLREDUCE", ""), ("WAIT", "scripted:0/0")]
    assert summary(bench.rows) == [("IALLREDUCE", "device", "ok", 0), ("WAIT", "device", "ok", 0)]


# -- coalesced calls -------------------------------------------------------------------------------------


def test_the_work_of_coalesced_calls_is_never_asked_for_its_future(bench: Bench) -> None:
    """That of NCCL in torch 2.8 has none, and a process that uses it crashes."""
    work = bench.work()
    bench.coalesce(3, work).wait()
    assert work.asked_for_future == 0


def test_what_an_exception_left_in_a_coalesced_call_is_unresolved_when_the_next_one_starts(
    bench: Bench,
) -> None:
    start_coalescing(bench.timing, lambda: None)
    with contextlib.suppress(ValueError):
        bench.issue(bench.work())
        raise ValueError("before the backend's work was asked for")
    alone = bench.issue(bench.work())  # which the backend collects as well
    alone.wait()
    bench.coalesce(1, bench.work()).wait()
    found = {row.seq: (row.status, row.end_ns is None) for row in bench.rows if row.operation != "WAIT"}
    assert found == {0: ("unresolved", True), 1: ("unresolved", True), 2: ("ok", False)}


# -- captures --------------------------------------------------------------------------------------------


def test_a_wait_that_is_captured_is_no_row(bench: Bench) -> None:
    work = bench.issue(bench.work())
    bench.device.capturing = True
    assert work.wait() is True
    bench.device.capturing = False
    assert [row.operation for row in bench.rows] == ["IALLREDUCE"]


# -- failures --------------------------------------------------------------------------------------------


def test_a_call_that_raises_is_a_row_that_says_so_and_takes_no_number(bench: Bench) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("sizes differ")

    with pytest.raises(ValueError, match="sizes differ"):
        bench.issue(call=refuse)
    bench.issue(None, waits=True)
    assert summary(bench.rows) == [
        ("IALLREDUCE", "device", "error:ValueError", None),
        ("ALLREDUCE", "device", "ok", 0),
    ]


def test_a_wait_that_raises_passes_the_error_on_and_its_rows_say_so(bench: Bench) -> None:
    work = bench.issue(bench.work(future=False, fails_with=RuntimeError("timed out")))
    with pytest.raises(RuntimeError, match="timed out"):
        work.wait()
    assert sorted(summary(bench.rows)) == [
        ("IALLREDUCE", "device", "error:RuntimeError", 0),
        ("WAIT", "device", "error:RuntimeError", 0),
    ]


def test_after_a_devices_failure_calls_go_on_and_nothing_is_asked_of_it(bench: Bench) -> None:
    bench.device.fail_with = RuntimeError("CUDA error: an illegal memory access was encountered")
    bench.issue(None, waits=True)
    bench.device.fail_with = None
    del bench.steps[:]
    assert bench.issue(bench.work()).wait() is True
    assert bench.steps == ["backend", "wait"]
    assert {row.status for row in bench.rows} == {"unresolved"}
    assert [row.operation for row in bench.rows] == ["ALLREDUCE", "IALLREDUCE", "WAIT"]


def test_an_operation_that_the_device_never_ends_is_unresolved_at_close(
    scripted_device: ScriptedAccelerator,
) -> None:
    bench = Bench(scripted_device, device_timeout=0.01)
    bench.device.busy = True
    bench.issue(bench.work())
    bench.logger.close()
    (row,) = bench._sink.records
    assert (row.operation, row.status, row.end_ns) == ("IALLREDUCE", "unresolved", None)


# -- iterations that are not recorded --------------------------------------------------------------------


def test_an_iteration_that_is_not_recorded_costs_no_mark_and_counts_on(
    scripted_device: ScriptedAccelerator,
) -> None:
    bench = Bench(scripted_device, record_every_n_steps=2)
    work = bench.work()
    bench.logger.set_current_iteration(1)
    assert bench.issue(work) is work
    assert bench.steps == ["backend"]
    bench.logger.set_current_iteration(2)
    bench.issue(None, waits=True)
    assert summary(bench.rows) == [("ALLREDUCE", "device", "ok", 1)]
    bench.logger.close()


def test_nothing_stays_open_when_everything_was_waited_for(bench: Bench) -> None:
    bench.issue(None, waits=True)
    bench.issue(bench.work()).wait()
    bench.issue(bench.work(future=False)).wait()
    bench.coalesce(2, bench.work()).wait()
    assert not bench.logger._open_calls.running


def test_outside_a_backward_pass_no_callback_holds_on_to_memory_and_the_wait_is_the_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_issue, "may_use_future", torchs_way)
    work = bench.issue(bench.work())
    assert "callback" not in bench.steps
    work.wait()
    assert [(row.operation, row.status) for row in bench.rows] == [("IALLREDUCE", "ok"), ("WAIT", "ok")]

"""NCCL's own durations as rows, where each work tells its own: when works are asked, and which.

There is no NCCL here. ``StandInWork`` is a scripted work; real ones, of a simulated accelerator, are in
``test_timed_group_on_async_device.py``, and NCCL's in ``tests/gpu/test_process_groups_on_gpu.py``.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from scripted_device import ScriptedAccelerator

from allreduce_instrumentation.torch_distributed import _backend_durations, _issue
from allreduce_instrumentation.torch_distributed._backend_durations import MAX_OPEN, WorkDurations
from allreduce_instrumentation.torch_distributed._backends import has_nccl2
from allreduce_instrumentation.torch_distributed._group_timing import GroupTiming
from allreduce_instrumentation.torch_distributed._issue import issue
from allreduce_instrumentation.torch_distributed._operations import DeviceOperation, Nccl2Operation
from timing_logger import TimingLogger
from timing_logger.schema.record import UNRESOLVED, Record
from timing_logger.sinks.memory import MemorySink

SWITCH = "TORCH_NCCL_ENABLE_TIMING"


class StandInWork(dist.Work):
    """Scripted: complete when the test says so."""

    def __init__(self, fails: str = "") -> None:
        super().__init__()
        self.complete = False
        self.asked = 0
        self._fails = fails

    def is_completed(self) -> bool:
        self.asked += 1
        if self._fails == "is_completed":
            raise RuntimeError("the device failed")
        return self.complete

    def _get_duration(self) -> float:
        if self._fails:
            raise RuntimeError("it was aborted")
        return 2.5

    def wait(self, *_: Any) -> bool:
        return True


class StandInGroup:
    """Scripted: a group of torch's with one backend, as far as this package asks."""

    group_desc, group_name = "default_pg", "0"
    bound_device_id = None

    def __init__(self, backend: object = "nccl2", refuses: bool = False) -> None:
        self._device_types = [torch.device("cuda")]
        self.measures = False
        self._backend = backend
        self._refuses = refuses

    def _get_backend(self, _: torch.device) -> Any:
        if isinstance(self._backend, str):
            return SimpleNamespace(name=lambda: self._backend)
        return self._backend

    def _enable_collectives_timing(self) -> None:
        if self._refuses:
            raise RuntimeError("Backend other is missing implementation of enableCollectivesTiming.")
        self.measures = True

    def size(self) -> int:
        return 4

    def rank(self) -> int:
        return 0


class Bench:
    """A group on the scripted device whose works are measured, and the rows of its operations."""

    def __init__(self, **options: Any) -> None:
        self._sink = MemorySink()
        self.logger = TimingLogger(0, None, sinks=[self._sink], flush_interval=3600.0, **options)
        self._group = StandInGroup()
        self.timing = GroupTiming(self._group, self.logger, {"scripted": "nccl"})
        self.durations = WorkDurations(None)
        self.durations.collect_before_close(self.logger)
        self.timing.backend_durations = self.durations

    def issue(self, name: str = "allreduce", *, in_background: bool = False, fails: str = "") -> StandInWork:
        """A call, or a message."""
        work = StandInWork(fails)
        options = dist.AllreduceOptions()
        options.asyncOp = in_background
        arguments = ([torch.ones(25)], 1 if name == "send" else options)
        issue(self.timing, name, lambda *_: work, self._group, arguments, {})
        return work

    @property
    def told(self) -> list[Record]:
        """The rows of what NCCL said."""
        assert self.logger.flush()
        return [row for row in self._sink.records if row.operation == "BACKEND"]

    @property
    def numbers(self) -> list[int | None]:
        return [row.seq for row in self.told]


@pytest.fixture(autouse=True)
def tensors_are_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_issue, "device_of", lambda *_: SimpleNamespace(type="scripted", index=0))


@pytest.fixture
def bench(scripted_device: ScriptedAccelerator) -> Iterator[Bench]:
    found = Bench()
    yield found
    found.logger._open_calls.write_all(UNRESOLVED)
    found.logger.close()


# -- when works are asked --------------------------------------------------------------------------------


def test_a_work_that_is_complete_is_a_row_at_the_next_call_over_the_group(bench: Bench) -> None:
    first, second = bench.issue(), bench.issue()
    assert bench.numbers == []
    first.complete = second.complete = True
    before_ns = perf_counter_ns()
    bench.issue()
    told = bench.told
    assert [row.seq for row in told] == [0, 1]
    assert {(row.end_ns or 0) - row.start_ns for row in told} == {2_500_000}
    assert all((row.end_ns or 0) >= before_ns for row in told)
    assert told[0].metadata == {"of": "ALLREDUCE", "by": "nccl"}


def test_a_work_is_not_asked_before_the_one_in_front_of_it_is_complete(bench: Bench) -> None:
    first, second = bench.issue(), bench.issue()
    second.complete = True
    bench.issue()
    assert second.asked == 0
    first.complete = True
    bench.issue()
    assert bench.numbers == [0, 1]


def test_works_of_recorded_iterations_are_let_go_at_a_call_that_is_not_recorded(
    scripted_device: ScriptedAccelerator,
) -> None:
    bench = Bench(record_every_n_steps=2)
    bench.logger.set_current_iteration(0)
    work = bench.issue()
    work.complete = True
    alive = weakref.ref(work)
    del work
    bench.logger.set_current_iteration(1)
    bench.issue()
    gc.collect()
    assert alive() is None
    assert bench.numbers == [0]
    bench.logger.close()


def test_works_are_asked_a_last_time_before_the_logger_is_closed(bench: Bench) -> None:
    bench.issue().complete = True
    bench.logger.close()
    assert [row.operation for row in bench._sink.records].count("BACKEND") == 1


def test_a_logger_keeps_no_works_of_a_group_that_is_gone(bench: Bench) -> None:
    alive = weakref.ref(bench.durations)
    del bench.durations, bench.timing
    gc.collect()
    assert alive() is None


def test_no_work_is_asked_where_that_would_break_a_graph_capture(
    bench: Bench, scripted_device: ScriptedAccelerator
) -> None:
    work = bench.issue()
    work.complete = True
    scripted_device.harmless = False
    bench.issue()
    assert work.asked == 0
    scripted_device.harmless = True
    bench.issue()
    assert bench.numbers == [0]


@pytest.mark.slow("fills a table to its end; that a work is kept until its end is seen is quick")
def test_works_that_hang_are_kept_up_to_a_limit(bench: Bench) -> None:
    for _ in range(MAX_OPEN + 3):
        bench.issue()
    assert len(bench.durations._open) == MAX_OPEN


def test_of_works_that_hang_the_latest_are_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backend_durations, "MAX_OPEN", 2)
    works = [bench.issue() for _ in range(5)]
    assert [work for _, work in bench.durations._open] == works[3:]


# -- which works -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", ["is_completed", "duration"])
def test_a_work_that_failed_has_no_row_and_holds_up_none(bench: Bench, fails: str) -> None:
    bench.issue(fails=fails).complete = True
    bench.issue().complete = True
    bench.issue()
    assert bench.numbers == [1]


def test_messages_have_no_row(bench: Bench) -> None:
    bench.issue("send").complete = True
    bench.issue()
    assert bench.told == []


def test_an_operation_that_another_backend_worked_on_has_no_row(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_issue, "device_of", lambda *_: SimpleNamespace(type="cpu", index=0))
    bench.issue(in_background=True).complete = True
    bench.issue(in_background=True)
    assert bench.told == []


# -- which groups ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nccl2", "nccl-lazy"])
def test_a_group_is_told_to_measure_where_it_is_wanted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    group = StandInGroup(name)
    assert WorkDurations.of(group) is None
    assert not group.measures
    assert WorkDurations.of(group, wanted=True) is not None
    assert group.measures
    monkeypatch.setenv(SWITCH, "1")
    assert WorkDurations.of(StandInGroup(name)) is not None


def test_works_are_asked_on_the_device_to_which_the_group_is_bound() -> None:
    bound: Any = StandInGroup()
    bound.bound_device_id = torch.device("cuda", 3)
    found = [WorkDurations.of(group, wanted=True) for group in (bound, StandInGroup())]
    assert [durations and durations._index for durations in found] == [3, None]


def test_the_older_backend_of_nccl_and_others_are_not_asked_here() -> None:
    for name in ("nccl", "gloo"):
        group = StandInGroup(name)
        assert WorkDurations.of(group, wanted=True) is None
        assert not group.measures


def test_a_group_with_a_further_backend_that_cannot_measure_has_none() -> None:
    assert WorkDurations.of(StandInGroup(refuses=True), wanted=True) is None


def test_a_backend_without_a_name_is_not_nccl2() -> None:
    def name() -> str:
        raise RuntimeError("getBackendName is not implemented.")

    assert not has_nccl2(StandInGroup(SimpleNamespace(name=name)))


@pytest.mark.parametrize(("backend", "kind"), [("nccl2", Nccl2Operation), ("nccl", DeviceOperation)])
def test_what_the_backend_says_it_is_decides_how_operations_are_timed(
    backend: str, kind: type[DeviceOperation]
) -> None:
    logger = TimingLogger(0, None, sinks=[MemorySink()])
    assert GroupTiming(StandInGroup(backend), logger, {"cuda": "nccl"}).on_device is kind
    logger.close()

"""NCCL's own durations as rows: what torch's hook tells, and the operation that it is about.

There is no NCCL here. ``StandInNccl`` is a scripted stand-in for a group of torch's, with the number of its
latest collective and its completion hook; a real one is tried in ``tests/gpu/test_process_groups_on_gpu.py``.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from scripted_device import ScriptedAccelerator
from torch._C._distributed_c10d import OpType

from allreduce_instrumentation.torch_distributed import (
    TimedProcessGroup,
    _backend_durations,
    _issue,
    initialization,
)
from allreduce_instrumentation.torch_distributed._backend_durations import MAX_OPEN, BackendDurations
from allreduce_instrumentation.torch_distributed._group_timing import GroupTiming
from allreduce_instrumentation.torch_distributed._issue import end_coalescing, issue, start_coalescing
from timing_logger import TimingLogger
from timing_logger.errors import ConfigurationError
from timing_logger.schema.record import UNRESOLVED, Record
from timing_logger.sinks.memory import MemorySink

SWITCH = "TORCH_NCCL_ENABLE_TIMING"
NCCL = {"scripted": "nccl"}


class StandInNccl:
    """Scripted: what a group of torch's with the NCCL backend tells, as far as this package asks."""

    group_desc, group_name = "default_pg", "0"
    _device_types: tuple[torch.device, ...] = ()

    def __init__(self, refuses: Exception | None = None) -> None:
        self.hook: Callable[[Any], None] | None = None
        self.collectives = 0
        self.measures = False
        self._refuses = refuses

    def size(self) -> int:
        return 4

    def rank(self) -> int:
        return 0

    def _enable_collectives_timing(self) -> None:
        self.measures = True

    def _register_on_completion_hook(self, hook: Callable[[Any], None]) -> None:
        if self._refuses is not None:
            raise self._refuses
        self.hook = hook

    def _get_sequence_number_for_group(self) -> int:
        return self.collectives

    def complete(self, number: int, ms: float = 2.5, kind: Any = OpType.ALLREDUCE, **told: Any) -> None:
        """Call the hook on a thread of its own, as torch does."""
        assert self.hook is not None
        finished = timedelta(microseconds=perf_counter_ns() // 1000)
        duration = timedelta(milliseconds=ms)
        info = {"op_type": kind, "seq": number, "time_finished": finished, "active_duration": duration}
        thread = threading.Thread(target=self.hook, args=(SimpleNamespace(**{**info, **told}),))
        thread.start()
        thread.join()


class Bench:
    """A group that NCCL works for on the scripted device, and the rows of its operations."""

    def __init__(self, **options: Any) -> None:
        self._sink = MemorySink()
        self.logger = TimingLogger(0, None, sinks=[self._sink], flush_interval=3600.0, **options)
        self.group = StandInNccl()
        self.timing = GroupTiming(self.group, self.logger, NCCL)
        self.timing.backend_durations = BackendDurations.of(self.group, NCCL)

    def issue(
        self, name: str = "allreduce", *, counted: bool = True, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """A synchronous call, or a message.

        Args:
            counted: NCCL counts it as a collective.
            meanwhile: happens before the call returns.
        """

        def call(*_: object) -> None:
            self.group.collectives += counted
            meanwhile()

        options = dist.AllreduceOptions()
        options.asyncOp = False
        issue(self.timing, name, call, self.group, ([torch.ones(25)], 1 if name == "send" else options), {})

    @property
    def rows(self) -> list[Record]:
        assert self.logger.flush()
        return self._sink.records

    @property
    def told(self) -> list[Record]:
        """The rows of what NCCL said."""
        return [row for row in self.rows if row.operation == "BACKEND"]


@pytest.fixture(autouse=True)
def timing_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr(_issue, "device_of", lambda *_: SimpleNamespace(type="scripted", index=0))


@pytest.fixture
def bench(scripted_device: ScriptedAccelerator) -> Iterator[Bench]:
    found = Bench()
    yield found
    found.logger._open_calls.write_all(UNRESOLVED)
    found.logger.close()


# -- the row ---------------------------------------------------------------------------------------------


def test_what_nccl_measured_is_a_row_of_its_own_with_the_operations_columns(bench: Bench) -> None:
    bench.logger.set_current_iteration(7)
    bench.logger.set_current_epoch(3)
    with bench.logger.label("encoder", "dense"):
        bench.issue()
    bench.logger.set_current_iteration(8)
    bench.group.complete(1, ms=2.5)
    operation, told = sorted(bench.rows, key=lambda row: row.operation)
    assert (operation.operation, told.operation) == ("ALLREDUCE", "BACKEND")
    own = {"operation": "", "start_ns": 0, "end_ns": 0, "stream": "", "metadata": None}
    assert told._replace(**own) == operation._replace(**own)
    assert told.stream == ""  # nobody says in which one NCCL worked
    assert (told.iteration, told.epoch, told.layer_name, told.phase) == (7, 3, "encoder", "dense")
    assert (told.clock, told.status, told.metadata) == ("device", "ok", {"of": "ALLREDUCE", "by": "nccl"})


def test_its_duration_is_nccls_and_its_end_is_where_torch_noticed_it(bench: Bench) -> None:
    bench.issue()
    noticed_ns = (perf_counter_ns() - 5_000_000) // 1000 * 1000
    bench.group.complete(1, ms=2.5, time_finished=timedelta(microseconds=noticed_ns // 1000))
    (told,) = bench.told
    assert (told.start_ns, told.end_ns) == (noticed_ns - 2_500_000, noticed_ns)


def test_an_end_that_is_a_time_of_day_is_taken_to_be_now(bench: Bench) -> None:
    bench.issue()
    before_ns = perf_counter_ns()
    bench.group.complete(1, ms=2.5, time_finished=datetime(2026, 1, 1))
    (told,) = bench.told
    assert told.end_ns is not None
    assert before_ns <= told.end_ns <= perf_counter_ns()
    assert told.end_ns - told.start_ns == 2_500_000


def test_an_end_on_another_clock_than_ours_is_taken_to_be_now(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_backend_durations, "_STEADY_CLOCK_IS_OURS", False)
    bench.issue()
    before_ns = perf_counter_ns()
    bench.group.complete(1, time_finished=timedelta(seconds=1))
    assert bench.told[0].end_ns >= before_ns


def test_an_end_that_torch_noticed_later_than_now_is_now_and_no_row_begins_before_the_clock(
    bench: Bench,
) -> None:
    bench.issue()
    bench.group.complete(1, ms=1e12, time_finished=timedelta(days=10**6))
    (told,) = bench.told
    assert told.start_ns == 0
    assert told.end_ns is not None
    assert told.end_ns <= perf_counter_ns()


# -- which operation it is about -------------------------------------------------------------------------


def test_numbers_that_torch_counts_differently_lead_to_the_right_operation(bench: Bench) -> None:
    bench.group.collectives = 41  # of another, untimed user of the group
    for _ in range(3):
        bench.issue()
    for number in (44, 42, 43):
        bench.group.complete(number, ms=number)
    found = {row.seq: (row.end_ns - row.start_ns) / 1e6 for row in bench.told}
    assert found == {0: 42.0, 1: 43.0, 2: 44.0}


def test_an_operation_that_is_complete_before_its_call_returns_is_a_row(bench: Bench) -> None:
    bench.issue(meanwhile=lambda: bench.group.complete(1))
    assert [row.seq for row in bench.told] == [0]


def test_each_collective_is_one_row_however_often_it_is_told(bench: Bench) -> None:
    bench.issue()
    bench.group.complete(1)
    bench.group.complete(1)
    assert len(bench.told) == 1


def test_an_iteration_that_is_not_recorded_leaves_no_row(scripted_device: ScriptedAccelerator) -> None:
    bench = Bench(record_every_n_steps=2)
    for iteration in range(4):
        bench.logger.set_current_iteration(iteration)
        bench.issue()
        bench.group.complete(iteration + 1)
    assert [row.iteration for row in bench.told] == [0, 2]
    bench.logger.close()


@pytest.mark.parametrize("kind", ["SEND", "RECV", "RECVANYSOURCE", "COALESCED"])
def test_messages_and_batches_whose_numbers_are_not_the_collectives_are_left_out(
    bench: Bench, kind: str
) -> None:
    bench.issue()
    bench.group.complete(1, kind=getattr(OpType, kind))
    assert bench.told == []
    bench.group.complete(1)
    assert len(bench.told) == 1


def test_a_message_is_not_taken_for_the_collective_before_it(bench: Bench) -> None:
    bench.group.collectives = 1  # on an iteration that was not recorded
    bench.group.complete(1)
    bench.issue("send", counted=False)
    assert bench.told == []


def test_a_call_that_nccl_made_nothing_of_takes_no_row_from_the_one_before_it(bench: Bench) -> None:
    bench.issue()
    bench.issue(counted=False)
    bench.group.complete(1)
    assert [row.seq for row in bench.told] == [0]


def test_coalesced_operations_are_left_out(bench: Bench) -> None:
    start_coalescing(bench.timing, lambda: None)
    bench.issue()
    end_coalescing(bench.timing, lambda: None)
    bench.group.complete(1)
    assert bench.told == []


def test_an_operation_that_another_backend_worked_on_is_left_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_issue, "device_of", lambda *_: SimpleNamespace(type="cpu", index=0))
    bench.group.collectives = 1  # on an iteration that was not recorded
    bench.group.complete(1)
    bench.issue(counted=False)
    assert bench.told == []


@pytest.mark.slow("fills a table to its end; that a work is kept until its end is seen is quick")
@pytest.mark.parametrize("completed", [True, False], ids=["completed, not recorded", "never completed"])
def test_halves_that_wait_for_their_other_one_are_bounded(bench: Bench, completed: bool) -> None:
    halves = bench.timing.backend_durations._halves
    for number in range(1, MAX_OPEN + 100):
        if completed:
            halves.completed(_info(number))
        else:
            bench.issue()
    assert len(halves._waiting) == MAX_OPEN
    assert min(halves._waiting) == 100


def test_of_halves_that_wait_the_latest_are_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backend_durations, "MAX_OPEN", 2)
    halves = bench.timing.backend_durations._halves
    for number in range(1, 6):
        halves.completed(_info(number))
    assert list(halves._waiting) == [4, 5]


def _info(number: int) -> Any:
    zero = timedelta(0)
    return SimpleNamespace(op_type=OpType.ALLREDUCE, seq=number, time_finished=zero, active_duration=zero)


# -- torch's thread --------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [{"active_duration": None}, {"seq": []}])
def test_the_hook_raises_nothing(bench: Bench, told: dict[str, Any]) -> None:
    bench.issue()
    known = {"op_type": OpType.ALLREDUCE, "seq": 1, "time_finished": None, "active_duration": timedelta(0)}
    bench.group.hook(SimpleNamespace(**{**known, **told}))


def test_the_hook_of_a_logger_that_is_closed_is_no_error(bench: Bench) -> None:
    bench.issue()
    bench.logger.close()
    bench.group.complete(1)
    assert "BACKEND" not in {row.operation for row in bench._sink.records}


def test_the_hook_keeps_no_group_alive() -> None:
    group = StandInNccl()
    hook_of = []
    group._register_on_completion_hook = hook_of.append  # type: ignore[method-assign]
    BackendDurations.of(group, NCCL)
    alive = weakref.ref(group)
    del group
    gc.collect()
    assert len(hook_of) == 1
    assert alive() is None


# -- whether NCCL is asked -------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["1", "true", "YES"])
def test_nccl_is_asked_once_for_a_group_where_the_variable_says_so(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, value)
    group = StandInNccl()
    assert BackendDurations.of(group, {"cpu": "gloo", "cuda": "nccl"}) is not None
    assert group.hook is not None


@pytest.mark.parametrize("value", [None, "", "0", "false"])
def test_without_the_variable_nccl_is_not_asked(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if value is None:
        monkeypatch.delenv(SWITCH)
    else:
        monkeypatch.setenv(SWITCH, value)
    group = StandInNccl()
    assert BackendDurations.of(group, NCCL) is None
    assert group.hook is None


def test_nccl_is_told_to_measure_where_durations_are_wanted_and_the_variable_is_not_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(SWITCH)
    group = StandInNccl()
    assert BackendDurations.of(group, NCCL, wanted=True) is not None
    assert group.measures
    assert group.hook is not None


@pytest.mark.skipif(not _backend_durations.CAN_BE_TOLD, reason="torch before 2.13 knows only the variable")
def test_torch_has_the_method_by_which_it_is_told() -> None:
    assert callable(dist.ProcessGroup._enable_collectives_timing)


def test_a_torch_that_cannot_be_told_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH)
    monkeypatch.setattr(initialization, "CAN_BE_TOLD", False)
    logger = TimingLogger(0, None, sinks=[MemorySink()])
    with pytest.raises(
        ConfigurationError, match=r"backend_durations needs torch 2\.13 .* set TORCH_NCCL_ENABLE"
    ):
        initialization.init_process_group("gloo", timing_logger=logger, backend_durations=True)
    logger.close()
    assert not dist.is_initialized()


def test_no_other_backend_is_asked() -> None:
    group = StandInNccl()
    assert BackendDurations.of(group, {"cpu": "gloo"}) is None
    assert group.hook is None


@pytest.mark.parametrize("error", [RuntimeError("already registered"), ValueError("no timing")])
def test_a_hook_of_somebody_elses_is_left_alone_and_the_log_says_what_is_missing(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    assert BackendDurations.of(StandInNccl(error), NCCL) is None
    assert caplog.messages == [f"group default_pg will have no rows BACKEND: torch says '{error}'"]


def test_the_older_backend_under_its_newer_name_is_asked() -> None:
    assert BackendDurations.of(StandInNccl(), {"cuda": "nccl-legacy"}) is not None


# -- a real group, of one process ------------------------------------------------------------------------


@pytest.fixture
def gloo() -> Iterator[dist.ProcessGroup]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_torch_refuses_the_hook_over_gloo_as_expected(gloo: dist.ProcessGroup) -> None:
    assert BackendDurations.of(gloo, NCCL) is None


@pytest.mark.both_groups
@pytest.mark.parametrize("hooked", [True, False])
def test_a_group_that_is_shut_down_waits_for_hooks_first(
    gloo: dist.ProcessGroup, hooked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(dist.ProcessGroup, "_has_hooks", lambda _: hooked)
    monkeypatch.setattr(dist.ProcessGroup, "_wait_for_pending_works", lambda _: done.append("waited"))
    monkeypatch.setattr(dist.ProcessGroup, "shutdown", lambda _: done.append("shut down"))
    logger = TimingLogger(0, None, sinks=[MemorySink()])
    TimedProcessGroup(gloo, logger, {"cpu": "gloo"}).shutdown()
    monkeypatch.undo()
    logger.close()
    assert done == (["waited", "shut down"] if hooked else ["shut down"])


@pytest.mark.both_groups
def test_a_group_is_asked_when_it_is_made_and_not_when_it_is_seen_later(
    gloo: dist.ProcessGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(dist.ProcessGroup, "_register_on_completion_hook", lambda *_: asked.append(_))
    logger = TimingLogger(0, None, sinks=[MemorySink()])
    TimedProcessGroup(gloo, logger, NCCL)
    assert asked == []
    timed = TimedProcessGroup.of_new(gloo, logger, NCCL)
    assert len(asked) == 1
    assert timed.timing.backend_durations is not None
    logger.close()

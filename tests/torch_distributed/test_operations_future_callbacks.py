"""A callback into Python is under way until torch has let it go, not until it has run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from limits import LIMIT_S
from set_clock import SetClock
from torch.distributed import distributed_c10d as c10d

from allreduce_instrumentation import instrument, uninstrument
from allreduce_instrumentation.torch_distributed import _operations
from allreduce_instrumentation.torch_distributed._group_timing import GroupIdentity
from allreduce_instrumentation.torch_distributed._operations import call_when_done, let_end
from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink


class Operation:
    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.group = ""

    def end_of(self, future: torch.futures.Future[Any]) -> None:
        self.seen.append(future.value())


class Future:
    """A stand-in for torch's: it keeps the callback, which torch does for a moment too short to be seen."""

    def add_done_callback(self, callback: Any) -> None:
        self.callback = callback


def under_way() -> int:
    return len(_operations._under_way)


@pytest.fixture(autouse=True)
def nothing_is_left_under_way() -> Any:
    assert under_way() == 0
    yield
    assert under_way() == 0


def test_a_callback_is_called_by_the_thread_that_completes_and_is_over_when_torch_let_it_go() -> None:
    operation, future = Operation(), torch.futures.Future[Any]()
    call_when_done(future, operation.end_of)
    assert under_way() == 1
    thread = threading.Thread(target=future.set_result, args=(7,))
    thread.start()
    thread.join(LIMIT_S)
    assert (operation.seen, under_way()) == ([7], 0)


def test_a_callback_that_has_run_is_under_way_while_it_is_kept() -> None:
    operation, future = Operation(), Future()
    call_when_done(future, operation.end_of)  # type: ignore[arg-type]
    done = torch.futures.Future[Any]()
    done.set_result(7)
    future.callback(done)
    assert (operation.seen, under_way()) == ([7], 1)
    del future.callback
    assert under_way() == 0


def test_the_wait_for_operations_is_for_those_that_are_asked_for() -> None:
    mine, others, future = Operation(), Operation(), torch.futures.Future[Any]()
    call_when_done(future, mine.end_of)
    asked: list[object] = []

    def is_others(operation: object) -> bool:
        asked.append(operation)
        return operation is others

    let_end(is_others)
    assert asked == [mine]
    future.set_result(7)


def test_the_wait_for_operations_ends_when_they_have_ended() -> None:
    operation, future = Operation(), torch.futures.Future[Any]()
    call_when_done(future, operation.end_of)
    completes = iter([None, None, lambda: future.set_result(7)])

    def is_it(found: object) -> bool:
        complete = next(completes)
        if complete is not None:
            complete()
        return found is operation

    let_end(is_it)
    assert operation.seen == [7]


@pytest.mark.parametrize("end", [dist.destroy_process_group, c10d._abort_process_group])
def test_a_group_ends_after_the_callbacks_of_its_operations(
    monkeypatch: pytest.MonkeyPatch, end: Callable[[dist.ProcessGroup], None]
) -> None:
    """Otherwise torch, which holds the interpreter's lock, waits for ever for a thread that needs it."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    group = dist.new_group([0])
    logger = TimingLogger(0, None, sinks=[MemorySink()])
    instrument(logger)
    operation, future = Operation(), Future()
    operation.group = GroupIdentity.of(group).name
    call_when_done(future, operation.end_of)  # type: ignore[arg-type]
    monkeypatch.setattr(_operations.time, "sleep", lambda _: vars(future).clear())  # torch lets it go
    try:
        end(group)
        assert under_way() == 0
    finally:
        uninstrument()
        dist.destroy_process_group()
        logger.close()


def test_an_exit_waits_for_all_callbacks_and_then_for_the_backends_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []
    left = {"a callback", "another"}
    monkeypatch.setattr(_operations, "_under_way", left)
    ticks = SimpleNamespace(sleep=lambda _: events.append(left.pop()))
    monkeypatch.setattr(_operations, "time", ticks)
    monkeypatch.setattr(_operations, "let_rest", lambda: events.append("rest"))
    _operations._await_all()
    assert (left, len(events), events[-1]) == (set(), 3, "rest")


def test_what_never_ends_is_waited_for_half_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SetClock(100.0)

    def sleep(_: float) -> None:
        clock.now_s += 0.125

    monkeypatch.setattr(_operations, "time", SimpleNamespace(monotonic=clock, sleep=sleep))
    let_end(lambda _: False, lambda: ["an operation in C++"])
    assert clock.now_s == 100.5
    let_end(lambda _: False)
    assert clock.now_s == 100.5

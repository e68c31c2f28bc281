"""Methods of groups that are replaced by timed ones: which calls count once, and what is put back."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from allreduce_instrumentation.torch_distributed import TimedProcessGroup, _dispatched_calls
from allreduce_instrumentation.torch_distributed._dispatched_calls import TimedMethods, in_timed_call

Log = list[tuple[str, str]]


class Own(dist.ProcessGroup):
    """A group that is written in Python; within its call it calls another group, if it has one."""

    other: Own | None = None

    def __init__(self, name: str) -> None:
        super().__init__(0, 1)
        self.timing: Any = SimpleNamespace(name=name, let_callbacks_end=lambda: None)

    def allreduce(self, *args: Any, **kwargs: Any) -> Any:
        if self.other is not None:
            self.other.allreduce()
        return args, kwargs, in_timed_call(self.timing)

    def broadcast(self) -> None:
        raise ValueError("refused")


class Derived(Own):
    """One whose method calls another group, and then the method that it overrides."""

    def allreduce(self, *args: Any, **kwargs: Any) -> Any:
        if self.other is not None:
            self.other.allreduce()
        return super().allreduce(*args, **kwargs)


OWN, DERIVED = dict(vars(Own)), dict(vars(Derived))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """The calls that are timed: group and method."""
    found: Log = []

    def issue(timing: Any, name: str, untimed: Any, group: Any, args: Any, kwargs: Any) -> Any:
        found.append((timing.name, name))
        return untimed(group, *args, **kwargs)

    monkeypatch.setattr(_dispatched_calls, "issue", issue)
    return found


@pytest.fixture
def methods(log: Log) -> Iterator[TimedMethods]:
    timed = TimedMethods(lambda group: getattr(group, "timing", None))
    yield timed
    timed.restore()


def test_a_method_that_calls_the_one_which_it_overrides_is_one_call(methods: TimedMethods, log: Log) -> None:
    methods.replace(Derived)
    group = Derived("a")
    assert group.allreduce(1, key=2) == ((1,), {"key": 2}, True)
    assert log == [("a", "allreduce")]
    assert not in_timed_call(group.timing)


def test_a_call_within_that_of_another_group_counts_and_the_outer_one_goes_on(
    methods: TimedMethods, log: Log
) -> None:
    methods.replace(Derived)
    group, group.other = Derived("a"), Own("b")
    group.allreduce()
    assert log == [("a", "allreduce"), ("b", "allreduce"), ("b", "allreduce")]


def test_after_a_call_that_raised_the_next_one_counts(methods: TimedMethods, log: Log) -> None:
    methods.replace(Own)
    group = Own("a")
    for _ in range(2):
        with pytest.raises(ValueError, match="refused"):
            group.broadcast()
    assert log == [("a", "broadcast")] * 2


def test_calls_over_a_group_that_is_not_timed_are_its_own(methods: TimedMethods, log: Log) -> None:
    methods.replace(Own)
    group = Own("a")
    group.timing = None
    with pytest.raises(ValueError, match="refused"):
        group.broadcast()
    assert log == []


def test_the_very_methods_are_put_back_however_often_they_were_replaced(methods: TimedMethods) -> None:
    for _ in range(2):
        methods.replace(Derived)
        methods.replace(Own)
        assert vars(Own)["allreduce"] is not OWN["allreduce"]
        assert vars(Derived)["allreduce"] is not DERIVED["allreduce"]
        methods.restore()
        assert vars(Own)["allreduce"] is OWN["allreduce"]
        assert vars(Derived)["allreduce"] is DERIVED["allreduce"]


def test_a_group_that_times_itself_keeps_its_methods(methods: TimedMethods) -> None:
    before = vars(TimedProcessGroup)["allreduce"]
    methods.replace(TimedProcessGroup)
    assert vars(TimedProcessGroup)["allreduce"] is before


@pytest.mark.parametrize(
    ("name", "order"), [("shutdown", ["callbacks end", "called"]), ("abort", ["called", "callbacks end"])]
)
def test_a_group_that_ends_lets_its_callbacks_end_and_one_that_is_aborted_does_so_then(
    name: str, order: list[str]
) -> None:
    events: list[str] = []
    timing: Any = SimpleNamespace(let_callbacks_end=lambda: events.append("callbacks end"))
    group: Any = None
    _dispatched_calls._call(timing, name, lambda _: events.append("called"), group, (), {})
    assert events == order

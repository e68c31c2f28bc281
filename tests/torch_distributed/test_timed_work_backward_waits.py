"""The wait at the end of a backward pass is for the operations whose futures were taken in it, in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from allreduce_instrumentation.torch_distributed import _timed_work as _backward_waits  # noqa: E402
from allreduce_instrumentation.torch_distributed._timed_work import note_use_in_backward  # noqa: E402


class OnHost:
    """An operation on the host's clock: it notes behind which one the caller was blocked on it."""

    def __init__(self, name: str, events: list[Any]) -> None:
        self.name, self._events = name, events

    def block_from(self, since_ns: int, behind: OnHost | None) -> None:
        self._events.append((self.name, None if behind is None else behind.name))


class InStream(OnHost):
    """An operation in a stream: it notes when its wait begins and ends."""

    @contextmanager
    def wait_span(self) -> Iterator[None]:
        self._events.append(f"{self.name} begins")
        yield
        self._events.append(f"{self.name} ends")


class Engine:
    """The autograd engine, with the number of its pass and what is to be called at the end of each."""

    def __init__(self) -> None:
        self.number = 1
        self.node: object = None
        self.ends: list[Any] = []

    def queue_callback(self, call: Any) -> None:
        self.ends.append(call)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine()
    monkeypatch.setattr(torch.autograd.Variable, "_execution_engine", engine)
    monkeypatch.setattr(torch._C, "_current_graph_task_id", lambda: engine.number)
    monkeypatch.setattr(torch._C, "_current_autograd_node", lambda: engine.node)
    monkeypatch.setattr(_backward_waits, "_passes", SimpleNamespace())
    monkeypatch.setattr(_backward_waits, "HostOperation", OnHost)
    monkeypatch.setattr(_backward_waits, "DeviceOperation", InStream)
    return engine


def future(events: list[Any], *, fails: bool = False) -> Any:
    def wait() -> None:
        events.append("waits")
        if fails:
            raise RuntimeError("aborted")

    return SimpleNamespace(wait=wait)


def noted(events: list[Any], *names: str) -> None:
    for name in names:
        operation: Any = OnHost(name, events)
        note_use_in_backward(operation, future(events))


def test_outside_of_a_pass_nothing_is_noted(engine: Engine) -> None:
    engine.number = -1
    noted([], "a")
    assert engine.ends == []


def test_at_the_end_of_the_pass_the_caller_is_blocked_on_each_behind_the_one_before(engine: Engine) -> None:
    events: list[Any] = []
    noted(events, "a", "b", "c")
    assert events == []
    (end,) = engine.ends
    end()
    assert events == [("a", None), ("b", "a"), ("c", "b")]


def test_each_pass_ends_with_its_own_operations(engine: Engine) -> None:
    events: list[Any] = []
    noted(events, "a")
    engine.ends[0]()
    engine.number = 2
    noted(events, "b")
    engine.ends[1]()
    assert events == [("a", None), ("b", None)]


def test_after_a_pass_that_failed_and_never_ended_the_next_one_has_an_end_of_its_own(engine: Engine) -> None:
    events: list[Any] = []
    noted(events, "a")
    engine.number = 2
    noted(events, "b")
    engine.ends[1]()
    assert events == [("b", None)]


@pytest.mark.parametrize("fails", [True, False])
def test_a_stream_waits_for_its_operations_and_a_failure_is_left_to_ddp(fails: bool, engine: Engine) -> None:
    events: list[Any] = []
    operation: Any = InStream("a", events)
    note_use_in_backward(operation, future(events, fails=fails))
    engine.ends[0]()
    assert events == ["a begins", "waits"] + ([] if fails else ["a ends"])


def test_an_operation_without_a_row_is_not_waited_for(engine: Engine) -> None:
    events: list[Any] = []
    operation: Any = SimpleNamespace()
    note_use_in_backward(operation, future(events))
    engine.ends[0]()
    assert events == []


def test_what_a_nested_pass_leaves_open_is_waited_for_at_the_end_of_the_outer_one(engine: Engine) -> None:
    events: list[Any] = []
    noted(events, "inner")
    in_stream: Any = InStream("in a stream", events)
    note_use_in_backward(in_stream, future(events))
    engine.node = "of the outer pass"
    engine.ends[0]()
    assert events == []
    engine.node, engine.number = None, 2
    noted(events, "outer")
    engine.ends[1]()
    assert events == [("inner", None), ("outer", "inner"), "in a stream begins", "waits", "in a stream ends"]
    engine.number = 3
    noted(events, "next")
    engine.ends[2]()
    assert events[-1] == ("next", None)

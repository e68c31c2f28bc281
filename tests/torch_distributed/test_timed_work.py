"""What a timed handle passes on to the backend's own, and what becomes of an operation when it is dropped."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from allreduce_instrumentation.torch_distributed._timed_work import (  # noqa: E402
    TimedWork,
    UntoldWork,
    timed_work,
)

LIMIT = timedelta(seconds=3)


class Operation:
    """An operation as far as a handle asks it: it writes down how it ends."""

    def __init__(self, *, goes_on: bool = True) -> None:
        self.goes_on = goes_on
        self.ends: list[object] = []

    def wait(self, work: Any, *args: object, **kwargs: object) -> Any:
        return work, args, kwargs

    def end_by(self, future: object) -> None:
        self.ends.append(future)

    def lose(self) -> None:
        self.ends.append("lost")


def handle(operation: Any, *, has_future: bool = False) -> TimedWork:
    backends: Any = SimpleNamespace(get_future=lambda: "the future", is_completed=lambda: "asked", own=7)
    return timed_work(backends, operation, has_future)


def test_a_wait_is_given_the_limit_that_the_caller_gives() -> None:
    work = handle(Operation(), has_future=True)
    found: Any = [work.wait(), work.wait(LIMIT), work.wait(timeout=LIMIT)]
    backends = work.untimed
    assert found == [(backends, (), {}), (backends, (LIMIT,), {}), (backends, (), {"timeout": LIMIT})]


def test_all_else_is_asked_of_the_backends_own_work() -> None:
    work: Any = handle(Operation(), has_future=True)
    assert (work.is_completed(), work.own) == ("asked", 7)
    with pytest.raises(AttributeError, match="no_such"):
        _ = work.no_such


@pytest.mark.parametrize("name", ["untimed", "_operation", "_has_future"])
def test_a_handle_under_construction_lacks_what_is_not_set_yet(name: str) -> None:
    with pytest.raises(AttributeError, match=f"^{name}$"):
        getattr(UntoldWork(), name)


def test_an_operation_whose_handle_is_dropped_is_lost_unless_a_future_tells_its_end() -> None:
    untold, told, asked = Operation(), Operation(), Operation()
    handle(untold)
    handle(told, has_future=True)
    future: Any = handle(asked).get_future()
    assert (untold.ends, told.ends, asked.ends) == (["lost"], [], [future])


def test_an_operation_ends_once_by_its_future_however_often_that_is_asked_for() -> None:
    operation, ends_already = Operation(), Operation()
    work = handle(operation)
    assert [work.get_future(), work.get_future()] == ["the future"] * 2
    assert operation.ends == ["the future"]
    assert handle(ends_already, has_future=True).get_future() == "the future"
    assert ends_already.ends == []


def test_the_future_of_a_call_that_waits_does_not_end_its_operation() -> None:
    operation = Operation(goes_on=False)
    work = handle(operation)
    assert work.get_future() == "the future"
    assert operation.ends == []


def test_a_handle_whose_construction_was_interrupted_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unraised: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda raised: unraised.append(raised.exc_value))
    UntoldWork()
    assert unraised == []

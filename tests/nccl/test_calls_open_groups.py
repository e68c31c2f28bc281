"""Calls inside an NCCL group end with the outermost group, and others at once."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

import pytest

from allreduce_instrumentation.nccl import _calls as _open_groups
from allreduce_instrumentation.nccl._calls import OpenGroups, end, watch_groups
from timing_logger.recording.device.span import DeviceSpan


class Ends:
    """A row on the host's clock: it writes down how it ends."""

    operation, start_ns = "ALLREDUCE", 7

    def __init__(self, *, is_claimed: bool = False) -> None:
        self._is_claimed = is_claimed
        self.written: list[Any] = []

    def claim(self) -> bool:
        return not self._is_claimed

    def write(self, *columns: object) -> None:
        self.written.append(columns)


def row(**options: Any) -> Any:
    return Ends(**options)


@pytest.mark.parametrize(("failure", "status"), [(None, "unresolved"), (KeyError, "error:KeyError")])
def test_a_row_without_a_stream_has_no_end_and_says_why(failure: type | None, status: str) -> None:
    span = row()
    end(span, failure)
    assert span.written == [("ALLREDUCE", 7, None, status)]


def test_a_row_that_somebody_else_has_ended_is_left_alone() -> None:
    span = row(is_claimed=True)
    end(span, None)
    assert span.written == []


def test_a_row_of_a_stream_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[Any] = []

    class InStream(Ends):
        def end_interval(self, failure: object) -> None:
            failures.append(failure)

    monkeypatch.setattr(_open_groups, "DeviceSpan", InStream)
    span: Any = InStream()
    end(span, KeyError)
    assert (failures, span.written) == ([KeyError], [])
    assert DeviceSpan is not InStream


# -- groups --------------------------------------------------------------------------------------------


def test_outside_of_a_group_nothing_is_held() -> None:
    groups, span = OpenGroups(), row()
    assert groups.hold(span) is False
    groups.ended(None)
    assert span.written == []


def test_the_outermost_group_ends_what_is_held_once() -> None:
    groups, span = OpenGroups(), row()
    groups.started()
    groups.started()
    assert groups.hold(span) is True
    groups.ended(None)
    assert span.written == []
    groups.ended(KeyError)
    groups.ended(None)
    assert [columns[3] for columns in span.written] == ["error:KeyError"]
    assert groups.hold(row()) is False


def test_an_end_without_a_begin_leaves_the_next_group_open() -> None:
    groups, span = OpenGroups(), row()
    groups.ended(None)
    groups.started()
    assert groups.hold(span) is True
    assert span.written == []


def test_the_group_of_one_thread_holds_no_calls_of_another() -> None:
    groups = OpenGroups()
    groups.started()
    held: list[bool] = []
    thread = threading.Thread(target=lambda: held.append(groups.hold(row())))
    thread.start()
    thread.join()
    assert held == [False]


# -- the functions of the bindings -------------------------------------------------------------------------


@pytest.fixture
def bindings(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return bindings of NCCL whose groups are watched; an argument of ``end`` is raised."""
    monkeypatch.setattr(_open_groups, "OPEN_GROUPS", OpenGroups())
    module: Any = ModuleType("nccl")

    def start(*args: object) -> tuple[object, ...]:
        if args == ("raise",):
            raise OSError("no group")
        return args

    def stop(error: BaseException | None = None) -> str:
        if error is not None:
            raise error
        return "ended"

    module.start, module.end, module.abort = start, stop, stop
    watch_groups(module, "start", "end", "abort")
    return module


@pytest.mark.parametrize("name", ["end", "abort"])
def test_each_function_that_ends_groups_ends_their_rows(name: str, bindings: Any) -> None:
    span = row()
    assert bindings.start(1, 2) == (1, 2)
    assert _open_groups.OPEN_GROUPS.hold(span)
    assert getattr(bindings, name)() == "ended"
    assert [columns[3] for columns in span.written] == ["unresolved"]


def test_a_group_whose_end_raises_ends_its_rows_with_that(bindings: Any) -> None:
    span = row()
    bindings.start()
    _open_groups.OPEN_GROUPS.hold(span)
    with pytest.raises(KeyError):
        bindings.end(KeyError("nccl"))
    assert [columns[3] for columns in span.written] == ["error:KeyError"]


def test_a_group_that_could_not_be_begun_is_not_open(bindings: Any) -> None:
    with pytest.raises(OSError, match="no group"):
        bindings.start("raise")
    assert not _open_groups.OPEN_GROUPS.hold(row())


def test_functions_are_replaced_once(bindings: Any) -> None:
    start = bindings.start
    watch_groups(bindings, "start", "end", "abort")
    assert bindings.start is start

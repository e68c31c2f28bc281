"""How operations of a process group end: by a future, by a wait, or unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from allreduce_instrumentation.torch_distributed import _operations  # noqa: E402
from allreduce_instrumentation.torch_distributed._operations import (  # noqa: E402
    CoalescedOperations,
    DeviceOperation,
    Nccl2Operation,
    UnrecordedOperation,
)
from timing_logger.recording.device.intervals import DeviceInterval, HostInterval  # noqa: E402

FUNCTIONS: Any = DeviceOperation


class Ended:
    """An operation on a device, as far as its end goes: it writes down what happens to it."""

    end_by = FUNCTIONS.end_by
    end_of = FUNCTIONS.end_of
    wait = FUNCTIONS.wait
    get_future: Any = Nccl2Operation.get_future
    _blocked_by = FUNCTIONS._blocked_by
    _wait_and_end = FUNCTIONS._wait_and_end

    def __init__(self, interval: object = None, *, goes_on: bool = True) -> None:
        self.interval, self.goes_on = interval, goes_on
        self.group = "a group"
        self._waited = False
        self.events: list[object] = []

    def end(self, failure: type[BaseException] | None) -> None:
        self.events.append(failure)

    def lose(self) -> None:
        self.events.append("lost")

    @contextmanager
    def wait_span(self) -> Iterator[None]:
        self.events.append("a wait begins")
        yield
        self.events.append("a wait ends")


class Future:
    """A future that tells whether it was waited for."""

    def __init__(self, is_done: bool, error: BaseException | None = None) -> None:
        self._is_done, self._error = is_done, error
        self.n_waits = 0

    def done(self) -> bool:
        return self._is_done

    def wait(self) -> None:
        self.n_waits += 1
        if self._error is not None:
            raise self._error


def on_device(*, lost: bool = False) -> DeviceInterval:
    interval = DeviceInterval()
    interval.lost = lost

    @contextmanager
    def waiting_stream() -> Iterator[None]:
        yield

    interval.device = SimpleNamespace(waiting_stream=waiting_stream)  # type: ignore[assignment]
    return interval


@pytest.fixture
def called_back(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[object], None]]:
    """Return what is to be called when a future completes."""
    calls: list[Callable[[object], None]] = []
    monkeypatch.setattr(_operations, "call_when_done", lambda future, call: calls.append(call))
    return calls


# -- by a future ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_done", [True, False])
def test_an_operation_on_the_hosts_clock_ends_when_its_future_calls_back(
    is_done: bool, called_back: list[Callable[[object], None]]
) -> None:
    operation, future = Ended(HostInterval()), Future(is_done)
    operation.end_by(future)
    assert (operation.events, future.n_waits) == ([], 0)
    (end,) = called_back
    end(future)
    assert operation.events == [None]


def test_an_operation_on_a_device_whose_future_is_open_ends_when_that_calls_back(
    called_back: list[Callable[[object], None]],
) -> None:
    operation, future = Ended(on_device()), Future(False)
    operation.end_by(future)
    assert (operation.events, future.n_waits, len(called_back)) == ([], 0, 1)


def test_an_operation_whose_interval_is_lost_ends_at_once_and_waits_for_nothing(
    called_back: list[Callable[[object], None]],
) -> None:
    operation, future = Ended(on_device(lost=True)), Future(True)
    operation.end_by(future)
    assert (operation.events, future.n_waits, called_back) == ([None], 0, [])


@pytest.mark.parametrize(("error", "end"), [(None, None), (RuntimeError("aborted"), RuntimeError)])
def test_where_the_future_holds_events_a_stream_waits_for_them_and_the_end_has_their_failure(
    error: Exception | None, end: type | None, called_back: list[Callable[[object], None]]
) -> None:
    operation, future = Ended(on_device()), Future(True, error)
    operation.end_by(future)
    assert (operation.events, future.n_waits, called_back) == ([end], 1, [])


# -- by a wait -----------------------------------------------------------------------------------------


def work(result: object = True, error: BaseException | None = None) -> Any:
    def wait(*args: object) -> object:
        if error is not None:
            raise error
        return result

    return SimpleNamespace(wait=wait, get_future=wait)


def test_the_first_wait_for_an_operation_in_the_background_is_a_row_and_later_ones_are_not() -> None:
    operation = Ended()
    assert operation.wait(work("done")) == "done"
    assert operation.events == ["a wait begins", None, "a wait ends"]
    operation.events.clear()
    assert operation.wait(work("done")) == "done"
    assert operation.events == [None]


def test_the_wait_for_an_operation_that_was_waited_for_by_its_call_is_no_row() -> None:
    operation = Ended(goes_on=False)
    operation.wait(work())
    assert operation.events == [None]


def test_who_asks_nccl2_for_the_future_waits() -> None:
    operation = Ended()
    assert operation.get_future(work("the future")) == "the future"
    assert operation.events == ["a wait begins", None, "a wait ends"]


def test_a_wait_that_raises_ends_the_operation_with_that() -> None:
    operation = Ended(goes_on=False)
    with pytest.raises(KeyboardInterrupt):
        operation.wait(work(error=KeyboardInterrupt()))
    assert operation.events == [KeyboardInterrupt]


# -- without a row ---------------------------------------------------------------------------------------


def unrecorded() -> tuple[UnrecordedOperation, list[str]]:
    learnt: list[str] = []
    return UnrecordedOperation(lambda: learnt.append("learnt")), learnt


def test_an_operation_without_a_row_learns_once_when_it_ends() -> None:
    operation, learnt = unrecorded()
    assert operation.goes_on is False
    operation.end(None)
    operation.end(None)
    assert learnt == ["learnt"]


def test_nothing_is_learnt_of_an_operation_that_failed_and_then_ends() -> None:
    operation, learnt = unrecorded()
    operation.end(RuntimeError)
    operation.end(None)
    assert learnt == []


def test_nothing_is_learnt_of_an_operation_that_is_lost() -> None:
    operation, learnt = unrecorded()
    operation.lose()
    operation.end(None)
    assert learnt == []


def test_a_wait_for_it_hands_the_result_on_and_ends_it() -> None:
    operation, learnt = unrecorded()
    assert operation.wait(work("done")) == "done"
    assert learnt == ["learnt"]


def test_a_future_that_completes_ends_it() -> None:
    operation, learnt = unrecorded()
    future: torch.futures.Future[object] = torch.futures.Future()
    operation.end_by(future)
    assert learnt == []
    future.set_result(3)
    assert learnt == ["learnt"]


# -- several as one --------------------------------------------------------------------------------------


def together() -> tuple[CoalescedOperations, list[Ended]]:
    each = [Ended(), Ended(), Ended()]
    parts: Any = each
    return CoalescedOperations(parts), each


def test_operations_that_run_as_one_go_on_and_are_of_the_group_of_the_first() -> None:
    operation, _ = together()
    assert operation.goes_on is True
    assert operation.group == "a group"


def test_operations_that_run_as_one_end_together() -> None:
    operation, each = together()
    operation.end(OSError)
    assert [one.events for one in each] == [[OSError]] * 3


def test_operations_that_run_as_one_are_lost_together() -> None:
    operation, each = together()
    operation.lose()
    assert [one.events for one in each] == [["lost"]] * 3


def test_one_wait_serves_all_operations_that_run_as_one() -> None:
    operation, each = together()
    assert operation.wait(work("done")) == "done"
    assert ["a wait begins" in one.events for one in each] == [True, False, False]
    assert [one.events[-1] for one in each] == [None] * 3


# -- begin and end in a stream ----------------------------------------------------------------------------


class InStream:
    """An operation that is timed in a stream, as far as its begin and its end are written down."""

    begin = FUNCTIONS.begin
    end = FUNCTIONS.end
    lose = FUNCTIONS.lose
    operation, stream, start_ns = "ALLREDUCE", "unset", 0

    def __init__(self, *, is_claimed: bool = False) -> None:
        self._is_claimed = is_claimed
        self.interval: Any = None
        self.events: list[object] = []

    def claim(self) -> bool:
        return not self._is_claimed

    def leave_running(self) -> None:
        self.events.append("runs")

    def end_interval(self, failure: object) -> None:
        self.events.append(failure)

    def write(self, *columns: object) -> None:
        self.events.append(columns)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what intervals are opened from: the next one is the last of the list, and then its stream."""
    found: list[Any] = []

    def open_interval(stream: object) -> Any:
        interval = found.pop()
        found.append(stream)
        return interval

    monkeypatch.setattr(_operations, "stream_elsewhere", lambda device: f"stream of {device}")
    monkeypatch.setattr(_operations, "open_interval", open_interval)
    return found


@pytest.mark.parametrize(("goes_on", "is_known"), [(True, False), (False, True)])
def test_the_stream_is_that_of_the_call_unless_the_backend_has_its_own(
    goes_on: bool, is_known: bool, opened: list[Any]
) -> None:
    operation, interval, logger = InStream(), on_device(), object()
    stream: Any = "the calls"
    interval.stream = stream
    opened.append(interval)
    assert operation.begin(goes_on, logger, "cuda") is True
    assert (opened, interval.stream is stream) == (["stream of cuda"], is_known)
    begun: Any = operation
    assert (begun.goes_on, begun._waited, begun._logger, begun._device) == (goes_on, False, logger, "cuda")
    assert (operation.stream, operation.interval, operation.events) == (None, interval, ["runs"])
    assert operation.start_ns > 0


def test_while_a_graph_is_captured_no_operation_begins(opened: list[Any]) -> None:
    operation = InStream()
    opened.append(None)
    assert operation.begin(True, object(), None) is False
    assert operation.events == []


def test_an_operation_that_is_timed_by_the_host_keeps_its_interval(opened: list[Any]) -> None:
    operation, interval = InStream(), HostInterval()
    opened.append(interval)
    assert operation.begin(True, object(), None) is True
    assert operation.interval is interval


@pytest.mark.parametrize(("is_claimed", "events"), [(False, [KeyError]), (True, [])])
def test_only_the_first_end_is_written(is_claimed: bool, events: list[object]) -> None:
    operation = InStream(is_claimed=is_claimed)
    operation.end(KeyError)
    assert operation.events == events


@pytest.mark.parametrize(
    ("is_claimed", "events"), [(False, [("ALLREDUCE", 0, None, "unresolved")]), (True, [])]
)
def test_an_operation_that_is_lost_is_unresolved_unless_it_has_ended(
    is_claimed: bool, events: list[object]
) -> None:
    operation = InStream(is_claimed=is_claimed)
    operation.lose()
    assert operation.events == events


# -- a logger that is about to be closed ---------------------------------------------------------------


def test_a_logger_waits_once_for_operations_before_it_is_closed() -> None:
    class Logger:
        _channel = SimpleNamespace(calls_in_c=None)

        def __init__(self) -> None:
            self.before: list[Callable[[], object]] = []

        def before_close(self, call: Callable[[], object]) -> None:
            self.before.append(call)

    logger: Any = Logger()
    _operations.finish_with(logger)
    _operations.finish_with(logger)
    assert len(logger.before) == 1


def test_what_is_no_row_of_the_logger_is_not_waited_for() -> None:
    channel: Any = object()
    assert _operations._is_of(channel, SimpleNamespace(caller=SimpleNamespace(channel=channel))) is False

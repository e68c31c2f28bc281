"""The Python core to the nanosecond: open calls, and operations in the background, by a clock that counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger.recording.cores.channel import Channel
from timing_logger.recording.cores.issued_calls import CompletingCall
from timing_logger.recording.cores.python import background, calls
from timing_logger.recording.cores.python.background import BackgroundSpan, Completion, LearnSize, Wait
from timing_logger.recording.cores.python.calls import Caller, CollectiveCount, OpenCall, Span, Unrecorded
from timing_logger.recording.cores.python.core import completing_method, lose_operation
from timing_logger.schema.record import Record

OPERATION = {
    "operation": "IALLREDUCE", "message_size_bytes": 8, "layer_name": "layer1", "phase": "dense",
    "iteration": 3, "epoch": 1, "group": "world", "group_size": 4, "seq": 17, "peer": 2, "work": 0.5,
}  # fmt: skip


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one nanosecond later each time it is read: 1 at first."""
    instants = count(1)
    for module in (background, calls):
        monkeypatch.setattr(module, "perf_counter_ns", lambda: next(instants))


class Bench:
    """A thread that begins operations and waits for them, as a recorder."""

    def __init__(self) -> None:
        self.channel = Channel(1000)
        self._caller = self.caller("main")

    def caller(self, thread: str) -> Caller:
        running: set[OpenCall] = getattr(self, "_running", set())
        self._running = running
        return Caller(thread, self.channel, running)

    def begin_wait(self, of: Sequence[Span]) -> Wait:
        return Wait(of, self._caller)

    def span(self, kind: type[Any] = Span, **changes: Any) -> Any:
        span = kind.__new__(kind)
        span.end_ns, span.caller, span.thread = 0, self._caller, self._caller.thread
        for name, value in {**OPERATION, **changes}.items():
            setattr(span, name, value)
        return span

    def begun(self, goes_on: bool = True, **options: Any) -> BackgroundSpan:
        span: BackgroundSpan = self.span(BackgroundSpan)
        span.begin(goes_on, self, **options)
        return span

    def rows(self) -> list[tuple[Any, ...]]:
        """Return operation, start, end, status and thread of each row."""
        records = map(Record._make, self.channel.take(1000))
        return [(row.operation, row.start_ns, row.end_ns, row.status, row.thread) for row in records]


@pytest.fixture
def bench() -> Bench:
    return Bench()


# -- open calls -------------------------------------------------------------------------------------------


def test_a_block_that_is_left_has_a_row_of_all_its_columns(bench: Bench) -> None:
    with bench.span() as span:
        assert (span.is_open, math.isnan(span.elapsed_ms)) == (True, True)
    assert (span.start_ns, span.end_ns, span.elapsed_ms, span.is_open) == (1, 2, 1e-6, False)
    (row,) = map(Record._make, bench.channel.take(9))
    assert row == Record(
        3, 1, "layer1", "IALLREDUCE", "dense", 8, 1, 2, "host", "world", 4, 17, 2, "main", "ok", "", None, 0.5
    )


def test_a_block_for_whose_row_there_is_no_room_is_counted(bench: Bench) -> None:
    bench.channel.capacity = 1
    for _ in range(2):
        with bench.span():
            pass
    assert bench.channel.counts() == (2, 1, 1, 0)


def test_a_call_without_a_start_is_not_open(bench: Bench) -> None:
    span = bench.span()
    span.end_ns = None
    assert not span.is_open


def test_calls_are_found_from_the_innermost_on_and_may_be_left_in_any_order(bench: Bench) -> None:
    outer, middle, inner = (bench.span() for _ in range(3))
    for one in (outer, middle, inner):
        one.enter()
    assert list(bench._caller.calls()) == [inner, middle, outer]
    assert middle.leave() == 4
    assert list(bench._caller.calls()) == [inner, outer]
    outer.leave()
    inner.leave()
    assert (list(bench._caller.calls()), bench._caller.innermost) == ([], None)


def test_a_call_that_is_entered_while_it_is_open_begins_anew_and_is_linked_once(bench: Bench) -> None:
    outer, inner = bench.span(), bench.span()
    outer.enter()
    inner.enter()
    outer.enter()
    assert outer.start_ns == 3
    assert list(bench._caller.calls()) == [inner, outer]


def test_of_blocks_that_are_never_left_a_thousand_are_kept(bench: Bench) -> None:
    spans = [bench.span() for _ in range(1002)]
    for span in spans:
        span.enter()
    found = list(bench._caller.calls())
    assert found == spans[:1:-1]
    assert spans[1].outer is None


def test_a_call_that_has_ended_and_is_still_linked_is_not_open(bench: Bench) -> None:
    outer, inner = bench.span(), bench.span()
    outer.enter()
    inner.enter()
    outer.end_ns = 5
    assert list(bench._caller.calls()) == [inner]


def test_an_open_call_is_passed_to_nobody_once(bench: Bench) -> None:
    nobody = Caller("nobody", Channel(0), set())
    span = bench.span()
    assert not span.pass_to(nobody)
    span.enter()
    assert span.pass_to(nobody)
    span.finish("ok")
    assert bench.rows() == []


def test_an_operation_that_was_left_running_is_claimed_once(bench: Bench) -> None:
    span = bench.span()
    assert not span.claim()
    span.leave_running()
    assert [span.claim(), span.claim()] == [True, False]


def test_what_is_finished_without_a_block_has_its_status(bench: Bench) -> None:
    span = bench.span()
    span.enter()
    span.finish("error:Mine")
    span.finish("ok")
    span.write_not_entered(KeyError)
    assert bench.rows() == [
        ("IALLREDUCE", 1, 2, "error:Mine", "main"),
        ("IALLREDUCE", 3, None, "error:NotEntered", "main"),
        ("IALLREDUCE", 4, None, "error:KeyError", "main"),
    ]


@pytest.mark.parametrize(
    ("is_completed", "row"),
    [
        (None, ("IALLREDUCE", 1, 2, "error:ValueError", "main")),
        (True, ("IALLREDUCE", 1, 2, "error:ValueError", "main")),
        (False, ("IALLREDUCE", 1, None, "unresolved", "main")),
    ],
)
@pytest.mark.parametrize("counts", [True, False])
def test_a_call_that_raised_ended_unless_its_operation_goes_on(
    bench: Bench, is_completed: bool | None, row: tuple[Any, ...], counts: bool
) -> None:
    span = bench.span()
    span.enter()
    begun: Any = None if is_completed is None else SimpleNamespace(is_completed=lambda: is_completed)
    span.fail(ValueError(), begun, counts)
    assert bench.rows() == [row]
    assert span.seq == (17 if counts else None)


def test_a_call_that_is_not_recorded_has_a_row_only_while_it_hangs(bench: Bench) -> None:
    span = bench.span(Unrecorded)
    span.enter()
    (row,) = span.open_records("inflight")
    assert row[3] == "IALLREDUCE"
    assert span.last_records("inflight") == []
    span.finish("ok")
    assert bench.rows() == []


def test_collectives_are_counted_from_0_and_the_latest_is_taken_back() -> None:
    group = CollectiveCount()
    assert [group.next_collective() for _ in range(3)] == [0, 1, 2]
    assert group.take_back(ValueError())
    assert (group.collectives, group.next_collective()) == (2, 2)


# -- operations in the background -------------------------------------------------------------------------


def test_whoever_sees_the_end_first_writes_it(bench: Bench) -> None:
    span = bench.begun()
    span.end(KeyError)
    span.end(None)
    span.lose()
    assert bench.rows() == [("IALLREDUCE", 1, 2, "error:KeyError", "main")]
    assert span.ended_ns == 2


def test_it_begins_when_that_is_stated_and_may_have_no_rows(bench: Bench) -> None:
    bench.begun(start_ns=-7).end_with("ok")
    bench.begun(has_rows=False).end(None)
    assert bench.rows() == [("IALLREDUCE", -7, 1, "ok", "main")]


def test_one_whose_end_nobody_can_see_any_more_is_unresolved_once(bench: Bench) -> None:
    span = bench.begun()
    lose_operation(SimpleNamespace(_operation=span))
    lose_operation(SimpleNamespace(_operation=span))
    lose_operation(SimpleNamespace(_operation=None))
    lose_operation(SimpleNamespace())
    assert bench.rows() == [("IALLREDUCE", 1, None, "unresolved", "main")]


class Future:
    """One that tells of its end: a value, or an error that it raises."""

    def __init__(self, error: Exception | None = None, *, is_done: bool = False) -> None:
        self.error, self.is_done = error, is_done
        self.calls: list[Callable[[Any], None]] = []

    def done(self) -> bool:
        return self.is_done

    def value(self) -> None:
        if self.error is not None:
            raise self.error


class OfFuture(BackgroundSpan):
    value_of = staticmethod(Future.value)
    call_when_done = staticmethod(lambda future, call: future.calls.append(call))


@pytest.mark.parametrize(("error", "status"), [(None, "ok"), (KeyError(), "error:KeyError")])
@pytest.mark.parametrize("is_done", [False, True])
def test_it_ends_with_its_future(bench: Bench, error: Exception | None, status: str, is_done: bool) -> None:
    span = bench.span(OfFuture)
    span.begin(True, bench)
    future = Future(error, is_done=is_done)
    span.end_by(future)
    assert len(future.calls) == (not is_done)
    for call in future.calls:
        assert bench.rows() == []
        call(future)
    assert bench.rows() == [("IALLREDUCE", 1, 2, status, "main")]


# -- waits for one ----------------------------------------------------------------------------------------


class Work:
    """A handle whose wait returns or raises."""

    def __init__(self, error: BaseException | None = None, *, is_over: bool = True) -> None:
        self._error, self._is_over = error, is_over

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        if self._error is not None:
            raise self._error
        return args, kwargs

    def is_completed(self) -> bool:
        return self._is_over


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_wait_ends_the_operation_and_is_a_row_if_that_was_to_go_on(bench: Bench, goes_on: bool) -> None:
    span = bench.begun(goes_on)
    assert span.wait(Work(), 1, timeout=2) == ((1,), {"timeout": 2})
    wait = [("WAIT", 2, 4, "ok", "main")] if goes_on else []
    assert bench.rows() == [("IALLREDUCE", 1, 3, "ok", "main"), *wait]
    span.wait(Work())
    assert bench.rows() == [], "it was waited for once"
    assert list(bench._caller.calls()) == []


@pytest.mark.parametrize("is_over", [True, False])
def test_a_wait_that_failed_ends_the_operation_only_if_that_is_over(bench: Bench, is_over: bool) -> None:
    span = bench.begun()
    with pytest.raises(KeyError):
        span.wait(Work(KeyError(), is_over=is_over))
    ended = [("IALLREDUCE", 1, 3, "error:KeyError", "main")] if is_over else []
    assert bench.rows() == [*ended, ("WAIT", 2, 3 + is_over, "error:KeyError", "main")]
    span.wait(Work())
    assert bench.rows()[-1][0] == "WAIT", "a wait that failed is no wait for its end"


def test_what_is_known_at_the_end_of_a_wait_is_learned_before_the_row(bench: Bench) -> None:
    span = bench.begun()
    learn: Any = LearnSize(lambda told, unit: 4 * unit, 1, -1)
    span.learn = learn
    span.wait(Work())
    assert [record[5] for record in bench.channel.take(9)] == [4, 4]
    assert learn(span, None) == "ok"


def test_the_size_of_a_message_may_be_unknown_to_all(bench: Bench) -> None:
    span = bench.begun()
    LearnSize(lambda told, unit: -1, 1, -1)(span, None)
    assert span.message_size_bytes is None


def test_an_open_wait_is_for_what_has_not_ended(bench: Bench) -> None:
    first, second = bench.begun(), bench.begun()
    second.layer_name = "layer2"
    wait = bench.begin_wait((first, second))
    assert list(bench._caller.calls()) == [wait]
    first.end(None)
    (row,) = map(Record._make, wait.open_records("inflight"))
    assert (row.operation, row.layer_name, row.start_ns, row.end_ns, row.status) == (
        "WAIT", "layer2", wait.start_ns, None, "inflight",
    )  # fmt: skip


# -- a thread that is blocked until the end ---------------------------------------------------------------


def test_a_thread_that_is_blocked_has_waited_until_the_end(bench: Bench) -> None:
    span = bench.begun()
    span.block_from(2, None)
    assert bench.rows() == []
    span.end(None)
    span._write_wait()
    assert bench.rows() == [("IALLREDUCE", 1, 2, "ok", "main"), ("WAIT", 2, 2, "ok", "main")]


def test_one_that_is_blocked_after_the_end_has_waited_for_nothing(bench: Bench) -> None:
    span = bench.begun()
    span.end(None)
    span.block_from(9, None)
    assert bench.rows()[1:] == [("WAIT", 9, 9, "ok", "main")]


def test_the_time_in_which_it_waited_for_another_one_first_is_not_counted_twice(bench: Bench) -> None:
    spans = [bench.begun(start_ns=0) for _ in range(3)]
    for span, behind in zip(spans, (None, spans[0], spans[1]), strict=True):
        span.block_from(0, behind)
    for span in (spans[0], spans[2], spans[1]):
        span.end(None)  # at 1, 2 and 3
    waits = [row[1:3] for row in bench.rows() if row[0] == "WAIT"]
    assert waits == [(0, 1), (2, 2), (1, 3)]


# -- calls that see operations end ------------------------------------------------------------------------


class Handle:
    """A handle of an operation, which is false once nobody can wait for it."""

    def __init__(self, operation: BackgroundSpan | None) -> None:
        self._operation = operation
        self.is_open = True

    def __bool__(self) -> bool:
        return self.is_open


def method(call: Callable[..., Any], **options: Any) -> Any:
    usual: dict[str, Any] = {
        "names": ("given", "told"), "blocks": True, "of_one": False, "tells_each": True, "status": list,
        "places": None,
    }  # fmt: skip
    return completing_method(CompletingCall(call, **{**usual, **options}))


@pytest.mark.parametrize("blocks", [True, False])
def test_a_call_that_saw_all_end_is_a_wait_for_each(bench: Bench, blocks: bool) -> None:
    handles = [Handle(bench.begun()), Handle(None), Handle(bench.begun())]
    open_in_call: list[int] = []

    def wait_all(given: Any, told: Any) -> str:
        open_in_call.append(len(list(bench._caller.calls())))
        return "all"

    assert method(wait_all, blocks=blocks)(handles) == "all"
    assert open_in_call == [blocks]
    assert bench.rows() == [
        ("IALLREDUCE", 1, 4, "ok", "main"), ("WAIT", 3, 4, "ok", "main"),
        ("IALLREDUCE", 2, 4, "ok", "main"), ("WAIT", 3, 4, "ok", "main"),
    ]  # fmt: skip
    assert [handle._operation for handle in handles] == [None] * 3
    assert list(bench._caller.calls()) == []


def test_a_call_that_saw_some_end_ends_these_and_learns_from_what_tells_of_each(bench: Bench) -> None:
    handles = [Handle(bench.begun()) for _ in range(3)]
    for handle in handles:
        assert handle._operation is not None
        handle._operation.learn = lambda span, told: f"learned {told}"

    def wait_some(given: Any, told: list[str]) -> list[int]:
        told += ["a", "b"]
        return [2, 0]

    method(wait_some, places=lambda result: result)(handles)
    assert [(row[1], row[3]) for row in bench.rows() if row[0] == "WAIT"] == [
        (4, "learned a"),
        (4, "learned b"),
    ]
    assert [handle._operation is None for handle in handles] == [True, False, True]


def test_a_call_of_one_handle_learns_from_its_status(bench: Bench) -> None:
    handle = Handle(bench.begun())
    assert handle._operation is not None
    handle._operation.learn = lambda span, told: f"learned {told}"
    method(lambda given, told: None, of_one=True, tells_each=False, status=lambda: "status")(handle)
    assert [row[3] for row in bench.rows()] == ["learned status"] * 2


def test_a_call_that_raises_ends_what_is_over_with_its_error(bench: Bench) -> None:
    over, goes_on = Handle(bench.begun()), Handle(bench.begun())
    over.is_open = False

    def fail(given: Any, told: Any) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        method(fail)([over, goes_on, object()])
    assert [(row[0], row[3]) for row in bench.rows()] == [
        ("IALLREDUCE", "error:KeyError"),
        ("WAIT", "error:KeyError"),
    ]
    assert goes_on._operation is not None


def test_an_operation_that_ended_before_leaves_no_wait_for_it(bench: Bench) -> None:
    handle = Handle(bench.begun())
    assert handle._operation is not None
    handle._operation.end(None)
    method(lambda given, told: None)([handle])
    assert [row[0] for row in bench.rows()] == ["IALLREDUCE"]


@pytest.mark.parametrize("handles", [[], [None], 3, iter(())])
def test_what_holds_no_operation_comes_to_the_call_as_it_is(handles: Any) -> None:
    assert Completion.of_handles(handles, True) is None
    assert method(lambda given, told: (given, told))(handles) == (handles, None)


def test_a_call_with_other_arguments_says_itself_what_is_wrong() -> None:
    def call(given: object, told: object = None) -> None:
        """Nothing is to be done."""

    with pytest.raises(TypeError, match="positional argument"):
        method(call)()

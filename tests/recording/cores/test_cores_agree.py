"""Both cores do the same: random sequences of calls leave the same records, counts, errors and open calls.

The Python core is the readable specification. Instants are compared only in that they are there, and in
order. ``CORE_SEQUENCES=10000`` tries so many sequences.
"""

from __future__ import annotations

import copy
import math
import os
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from both_cores import CORES, BuiltCore, needs_both
from hypothesis import example, given, settings
from hypothesis import strategies as st
from processes import run_python
from requests_of_cores import Endpoint, Request, Told, completing_calls, learn_size, size_of, slotted
from slow import examples

from timing_logger.recording.cores.chosen import new_channel
from timing_logger.recording.sampling import StepPolicy
from timing_logger.schema.record import format_records

np = pytest.importorskip("numpy")

pytestmark = needs_both

SEQUENCES = int(os.environ.get("CORE_SEQUENCES") or examples(400, few=40))


class Group:
    """A group that numbers its collectives, and takes a number back only after a ``ValueError``."""

    name, size = "world", 4

    def __init__(self, count: Any) -> None:
        self.count = count

    def next_collective(self) -> Any:
        return self.count.next_collective()

    def take_back(self, error: BaseException) -> bool:
        return isinstance(error, ValueError) and bool(self.count.take_back(error))


class Handle:
    """Of an operation that goes on after its call."""

    def __init__(self, error: type[Exception] | None, ended: object) -> None:
        self.error, self.ended = error, ended

    def wait(self, *_: object) -> str:
        if self.error is not None:
            raise self.error("while waiting")
        return "waited"

    def is_completed(self) -> bool:
        if self.ended == "unknown":
            raise RuntimeError("nobody knows")
        return bool(self.ended)

    def done(self) -> bool:
        return bool(self.ended)


def _telling(size: Any) -> Told | None:
    told = Told()
    told.size = size
    return None if size == "nothing" else told


def _value_of(_: object, future: Handle) -> None:
    future.wait()


class Driver:
    """Makes the same calls over one core as its twin over the other."""

    def __init__(self, core: BuiltCore, capacity: int, steps: dict[str, Any]) -> None:
        self.core = core
        self.channel = new_channel(capacity, core.classes.Channel)
        self.recorder: Any = core.recorder(StepPolicy(**steps), self.channel)
        self.recorder._switch_on()
        self.group = Group(core.classes.CollectiveCount())
        self.spans: list[Any] = []
        self.operations: list[Any] = []
        self.waits: list[Any] = []
        self.labels: list[Any] = []
        self.callbacks: list[Callable[[], None]] = []
        self.requests: list[Any] = []
        of_core = core.classes
        self.handle_class = slotted(of_core)
        self.endpoints = [
            Endpoint(of_core, self.recorder, None),
            Endpoint(of_core, self.recorder, learn_size),
            Endpoint(of_core, self.recorder, of_core.LearnSize(size_of, 2, -1), self.handle_class),
        ]
        self.completing = completing_calls(of_core)
        self.kind = type(
            "Operation",
            (core.classes.BackgroundSpan,),
            {
                "value_of": _value_of,
                "call_when_done": lambda _, future, call: self.callbacks.append(lambda: call(future)),
            },
        )

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        # What the garbage collector ends while CPython 3.11 sets another ContextVar can crash it.
        while self.labels:
            self.unlabel()

    def do(self, action: str, *arguments: Any) -> object:
        """Do one thing; return what it returned or raised, without instants."""
        try:
            return getattr(self, action)(*arguments)
        except Exception as error:
            return f"raised {type(error).__name__}"

    # -- blocks -------------------------------------------------------------------------------------

    def timing(self, columns: dict[str, Any]) -> object:
        return self.recorder.record_timing(**columns)

    def interval(self, start_ns: Any, end_ns: Any, columns: dict[str, Any]) -> object:
        operation = columns.pop("operation", "A")
        return self.recorder.record_interval(operation, start_ns, end_ns, **columns)

    def span(self, columns: dict[str, Any]) -> str:
        self.spans.append(self.recorder.record_mpi_operation(**columns))
        return type(self.spans[-1]).__name__

    def device(self, columns: dict[str, Any]) -> str:
        self.spans.append(self.recorder.record_device_operation(**columns))
        return type(self.spans[-1]).__name__

    def begin_wait(self, which: list[int]) -> None:
        """Leave it open: the operations that it is for have ended or not when it is asked for them."""
        self.waits.append(self.recorder.begin_wait([self._operation(number) for number in which]))

    def enter(self, which: int) -> bool:
        span = self.spans[which % len(self.spans)]
        return span.__enter__() is span

    def leave(self, which: int, kind: type[BaseException] | None) -> object:
        return self.spans[which % len(self.spans)].__exit__(kind, kind and kind(), None)

    def process(self, which: int, work: Any) -> None:
        self.spans[which % len(self.spans)].work = work

    def drop(self, which: int) -> None:
        self.spans.pop(which % len(self.spans))

    def elapsed(self, which: int) -> str:
        elapsed_ms = self.spans[which % len(self.spans)].elapsed_ms
        return "open" if math.isnan(elapsed_ms) else str(elapsed_ms >= 0)

    # -- calls --------------------------------------------------------------------------------------

    def _call(self, outcome: str, error: type[Exception] | None, ended: object) -> object:
        if outcome == "records":
            self.recorder.record_timing("INSIDE", 1.0)
        if outcome == "raises":
            raise (error or ValueError)("at once")
        return Handle(error, ended) if outcome == "goes on" else outcome

    def time_call(self, outcome: str, error: type[Exception] | None, ended: object, size: Any) -> object:
        found = self.recorder.time_call(
            "ALLREDUCE", size, None, None, self.group, Handle, self._call, (outcome, error, ended)
        )
        return type(found).__name__

    def issue(
        self, outcome: str, error: type[Exception] | None, numbered: bool, goes_on: bool, size: Any
    ) -> object:
        operation, found = self.recorder.issue_call(
            self.kind, "IALLREDUCE", size, None, 1, self.group, numbered, goes_on, self._call,
            (outcome, error, True),
        )  # fmt: skip
        self.operations.append(operation)
        return type(found).__name__

    def _operation(self, which: int) -> Any:
        return self.operations[which % len(self.operations)]

    def end(self, which: int, failure: type[Exception] | None) -> object:
        return self._operation(which).end(failure)

    def lose(self, which: int) -> object:
        return self._operation(which).lose()

    def claim(self, which: int) -> object:
        return self._operation(which).claim()

    def wait(self, which: int, error: type[Exception] | None, ended: object) -> object:
        return self._operation(which).wait(Handle(error, ended))

    def end_by(self, which: int, error: type[Exception] | None, ended: object) -> object:
        return self._operation(which).end_by(Handle(error, ended))

    def call_back(self, which: int) -> object:
        return self.callbacks.pop(which % len(self.callbacks))()

    def block(self, which: int, behind: int | None) -> object:
        before = None if behind is None else self._operation(behind)
        if before is self._operation(which):
            before = None
        return self._operation(which).block_from(time.perf_counter_ns(), before)

    # -- operations that handles hold -----------------------------------------------------------------

    def send(self, which: int, nbytes: Any, rank: Any, outcome: str, by_name: bool) -> object:
        send = self.endpoints[which % 3].send  # type: ignore[attr-defined]
        buffer = SimpleNamespace(nbytes=nbytes)
        found = send(buffer, rank, outcome=outcome) if by_name else send(buffer, rank, outcome)
        self.requests.append(found)
        return type(found).__name__

    def _call_on_requests(self, which: list[int], blocks: bool) -> tuple[Any, list[Any]]:
        given = [self.requests[each % len(self.requests)] for each in which]
        return self.core.classes.Completion.of_handles(given, blocks), given

    def see(self, which: list[int], blocks: bool, some: bool, told: list[Any] | None) -> object:
        """See some of the operations end, or all, and return what was open meanwhile."""
        call, given = self._call_on_requests(which, blocks)
        if call is None:
            return None
        inside = self.state(), call.learns, len(call.of)
        call.saw([len(given) - 1] if some else None, told and [_telling(size) for size in told])
        return inside

    def complete(self, how: str, which: list[int], told: list[Any] | None, by_name: bool) -> object:
        """Make a call that sees operations end; return what it returned and what it told of them."""
        given: Any = [self.requests[each % len(self.requests)] for each in which]
        if how in ("one", "test one"):
            given = given[0] if given else "nobody"
            told = _telling(told[0]) if told else None  # type: ignore[assignment]
        elif told is not None:
            told = [_telling(size) for size in told]
        call = self.completing[how]
        if by_name:
            first = "self" if how in ("one", "test one") else "handles"
            result = call(told=told, **{first: given})
        else:
            result = call(given) if told is None else call(given, told)
        return result, [getattr(one, "size", None) for one in (told if isinstance(told, list) else [told])]

    def complete_wrongly(self, how: str) -> object:
        return self.completing[how](1, 2, 3, wrong=4)

    def see_none(self, which: list[int], error: type[Exception], over: bool) -> object:
        """Wait for the operations in vain, with an error after which they may be over."""
        call, given = self._call_on_requests(which, True)
        if call is None:
            return None
        for request in given[:1]:
            if isinstance(request, (Request, self.handle_class)):
                request.is_over = over
        return call.failed(error("while waiting"))

    def see_of(self, handles: Any) -> object:
        return self.core.classes.Completion.of_handles(handles, True)

    def drop_request(self, which: int) -> object:
        return self.core.classes.lose_operation(self.requests.pop(which % len(self.requests)))

    def forget_request(self, which: int) -> None:
        """Let a request go without a word: one of a class that the core knows is lost then."""
        self.requests.pop(which % len(self.requests))

    # -- what is in force ---------------------------------------------------------------------------

    def label(self, layer: Any, phase: Any) -> None:
        self.labels.append(self.recorder.label(layer, phase))
        self.labels[-1].__enter__()

    def unlabel(self) -> None:
        self.labels.pop().__exit__(None, None, None)

    def iteration(self, number: Any) -> bool:
        self.recorder.set_current_iteration(number)
        return bool(self.recorder.recording)

    def epoch(self, number: Any) -> None:
        self.recorder.set_current_epoch(number)

    def work(self, number: Any) -> None:
        self.recorder.set_current_work(number)

    # -- the channel --------------------------------------------------------------------------------

    def take(self, limit: int) -> object:
        batch = self.channel.take_packed(limit)
        records = [comparable(record) for record in batch]
        in_place = getattr(batch, "csv_lines", None)
        lines = in_place(0) if in_place else format_records(list(batch), 0).encode()
        self.channel.release()
        work = [line.rpartition(b",")[2] for line in lines.split(b"\n")]
        return records, lines.count(b"\n"), work

    def close(self) -> None:
        self.channel.close()

    def write_all(self) -> None:
        """Write all open calls. Of several in the background, the order is that of a set."""
        if len(self.recorder._open_calls.running) < 2:
            self.recorder._open_calls.write_all("unresolved")

    def state(self) -> object:
        """Return the counts, and the calls that are open now, the innermost first."""
        open_calls = [
            comparable(record)
            for caller in self.recorder._open_calls.callers.values()
            for call in caller.calls()
            for record in call.open_records("inflight")
        ]
        counts = tuple(self.channel.counts())
        return counts, open_calls, len(self.recorder._open_calls.running), self.group.count.collectives


def comparable(record: tuple[Any, ...]) -> list[str]:
    """Return the record with "now" for instants of the clock, which two runs do not share."""
    cells = list(map(repr, record))
    start_ns, end_ns = record[6:8]
    if is_now(end_ns):
        cells[7] = "now"
        if is_now(start_ns):
            assert start_ns <= end_ns, f"{record} ends before it starts"
        elif type(start_ns) is int:
            cells[6] = f"{end_ns - start_ns} before"
    if is_now(start_ns):
        cells[6] = "now"
    return cells


def is_now(instant_ns: object) -> bool:
    """Tell whether an instant was read from the clock: those that a test states are none of today."""
    return type(instant_ns) is int and 0 <= time.perf_counter_ns() - instant_ns < 30 * 10**9


# -- what is called, and with what --------------------------------------------------------------------------


class Name(str):
    """A name of a subclass of ``str``."""


NAMES = st.sampled_from(["A", "", "é" * 2000, "\ud800", Name("sub"), "a,b", b"bytes", 5, None, float("nan")])
NUMBERS = st.sampled_from(
    [None, 0, 1, 2, -1, 2**31, 2**62, 2**63, -(2**63) - 1, 10**400, True, 1.5, float("nan"), "7",
     np.int64(3), np.float32(2.5)]
)  # fmt: skip
WORK = NUMBERS | st.sampled_from([0.1, 1 / 3, 4096.0, 1e18, 1e21, -0.0, -0.5, float("inf")])
RANKS = st.sampled_from([0, 1, 1, 1, -2, True, None, 2**63, 10**400, "x", np.int64(3)])
STARTS = st.sampled_from([0, 1, 100, -5, 2**62, 2**70, None, True, 1.5, "x", np.int64(3)])
ERRORS = st.sampled_from([None, ValueError, KeyError])
ENDED = st.sampled_from([True, False, "unknown"])
OUTCOMES = st.sampled_from(["returns", "records", "raises", "goes on"])
WHICH = st.integers(0, 3)
TOLD = st.sampled_from([None, 0, 24, "nothing"])

common = {
    "message_size": NUMBERS, "layer_name": NAMES, "phase": NAMES, "iteration": NUMBERS, "epoch": NUMBERS,
    "group": NAMES, "group_size": NUMBERS, "seq": NUMBERS, "peer": NUMBERS, "work": WORK,
}  # fmt: skip
spelled = {"operation": NAMES, "message_size_bytes": NUMBERS, "mpi_op_name": NAMES}


def some_of(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=strategies)


def call(action: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(st.just(action), *arguments)


CALLS = st.one_of(
    call("timing", some_of(
        **common, **spelled, elapsed_ms=NUMBERS, start_counter=NUMBERS, end_counter=NUMBERS,
    )),
    call("interval", STARTS, STARTS, some_of(**common, operation=NAMES, status=NAMES, clock=NAMES,
                                             metadata=st.sampled_from([None, {"a": 1}, 5]))),
    call("span", some_of(**common, **spelled)), call("span", st.just({"operation": "A"})),
    call("device", some_of(**common, operation=NAMES)), call("device", st.just({"operation": "A"})),
    call("process", WHICH, WORK), call("begin_wait", st.lists(WHICH, max_size=3, unique=True)),
    call("enter", WHICH), call("enter", WHICH), call("leave", WHICH, st.sampled_from([None, KeyError])),
    call("leave", WHICH, st.none()), call("drop", WHICH), call("elapsed", WHICH),
    call("time_call", OUTCOMES, ERRORS, ENDED, NUMBERS),
    call("issue", OUTCOMES, ERRORS, st.booleans(), st.booleans(), NUMBERS),
    call("end", WHICH, ERRORS), call("lose", WHICH), call("claim", WHICH), call("wait", WHICH, ERRORS, ENDED),
    call("end_by", WHICH, ERRORS, st.booleans()), call("call_back", WHICH),
    call("block", WHICH, st.none() | WHICH),
    *[call("send", WHICH, NUMBERS, RANKS, st.sampled_from(["goes on", "goes on", "another", "raises"]),
           st.booleans())] * 3,
    *[call("see", st.lists(WHICH, max_size=3), st.booleans(), st.booleans(),
           st.none() | st.lists(TOLD, max_size=3))] * 3,
    *[call("complete", st.sampled_from(["all", "some", "one", "test one"]),
           st.lists(st.integers(0, 5), max_size=4), st.none() | st.lists(TOLD, max_size=3),
           st.booleans())] * 3,
    call("complete_wrongly", st.sampled_from(["all", "one"])),
    call("see_none", st.lists(WHICH, max_size=3), st.sampled_from([ValueError, KeyError]), st.booleans()),
    call("see_of", st.sampled_from([5, None, [], [5, None]])), call("drop_request", WHICH),
    call("forget_request", WHICH),
    call("label", NAMES, NAMES), call("unlabel"), call("iteration", NUMBERS), call("epoch", NUMBERS),
    call("work", WORK),
    call("take", st.integers(1, 5)), call("close"), call("write_all"),
)  # fmt: skip

STEPS = st.sampled_from([{}, {"start_step": 1, "end_step": 4}, {"record_every_n_steps": 2}])


ENDS_OF_REQUESTS = [
    *[("send", which, 8, rank, "goes on", False) for which in range(3) for rank in (1, 1, 0)],
    ("see", [0, 3], True, False, [24, 16]), ("see", [0, 1, 4], False, True, [0]),
    ("see", [2], True, False, None),
    ("see_none", [1, 2], ValueError, True), ("drop_request", 5), ("drop_request", 0), ("forget_request", 4),
    ("complete", "some", [4, 5, 5], None, False), ("complete", "all", [5, 6, 3, 5], [24], True),
    ("send", 2, 8, 1, "goes on", False), ("complete", "all", [0, 7], None, False),
    ("send", 2, 8, 1, "goes on", False), ("complete", "one", [8], None, False),
    ("send", 2, 8, 1, "goes on", False), ("complete", "all", [9, 0, 9], None, False),
    ("complete_wrongly", "all"),
    ("send", 0, 8, 1, "raises", False), ("send", 0, 8, None, "goes on", False),
]  # fmt: skip


@example(ENDS_OF_REQUESTS, 1000, {})
@given(st.lists(CALLS, max_size=30), st.sampled_from([3, 1000]), STEPS)
@settings(max_examples=SEQUENCES)
def test_both_cores_do_the_same(calls: list[tuple[Any, ...]], capacity: int, steps: dict[str, Any]) -> None:
    drivers = (Driver(CORES[name], capacity, steps) for name in ("native", "python"))
    with next(drivers) as native, next(drivers) as python:
        for number, (action, *arguments) in enumerate(calls):
            found = native.do(action, *copy.deepcopy(arguments))
            expected = python.do(action, *copy.deepcopy(arguments))
            assert found == expected, f"call {number}: {action}"
            assert native.do("state") == python.do("state"), f"after call {number}: {action}"
        while native.channel.counts().waiting:
            assert native.do("take", 5) == python.do("take", 5)


def test_a_difference_is_found() -> None:
    one, other = (Driver(CORES["python"], 10, {}) for _ in range(2))
    one.do("timing", {"operation": "A", "elapsed_ms": 1.0})
    other.do("timing", {"operation": "B", "elapsed_ms": 1.0})
    assert one.do("state") == other.do("state")
    assert one.do("take", 5) != other.do("take", 5)


@pytest.mark.slow("processes that chose either; in one that chose, the sequences above run both cores")
@pytest.mark.parametrize("chosen", ["native", "python"])
def test_both_cores_are_at_work_in_a_process_whichever_it_chose(chosen: str) -> None:
    done = run_python(BOTH, environment={"TIMING_LOGGER_CORE": chosen})
    assert done.stdout.split() == ["native", "B", "A", "WAIT", "C", "python", "B", "A", "WAIT", "C"], (
        done.stderr
    )


BOTH = """
from timing_logger.recording import native_recorder, recorder
from timing_logger.recording.cores.chosen import new_channel
from timing_logger.recording.sampling import StepPolicy

for kind in (native_recorder.NativeRecorder, recorder.Recorder):
    core = kind._core
    channel = new_channel(10, core.Channel)
    calls = kind(StepPolicy(), channel)
    calls._switch_on()
    with calls.record_mpi_operation("A"), calls.record_device_operation("B") as inner:
        assert isinstance(inner, core.Span)
        assert type(calls._caller) is core.Caller
    operation = calls.begin_operation(core.BackgroundSpan, "C", 1, None, "", 1, None)
    operation.begin(True, calls)
    waits = calls.begin_wait([operation])
    assert type(waits) is core.Wait
    calls._open_calls.write_all("inflight")
    print("python" if kind is recorder.Recorder else "native")
    print(*(record[3] for record in channel.take(9)))
"""

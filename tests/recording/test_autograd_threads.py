"""Rows of autograd's own threads: they are the business of the thread that called the backward pass.

Without an accelerator the engine works in the thread that calls it. One of its own it takes for passes within
passes, sixty deep: those are real here. Elsewhere a thread that Python did not start stands in for the
engine's, and a function in which another thread sits for the call of the pass.
"""

from __future__ import annotations

import _thread
import queue
import threading
from collections.abc import Callable, Iterator

import group_in_cpp
import pytest
from limits import LIMIT_S
from processes import run_warm

from timing_logger import TimingLogger
from timing_logger.recording import autograd_threads as _engine_threads
from timing_logger.recording import open_calls as _open_calls
from timing_logger.recording.autograd_threads import NO_PASS, Engine
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

_passes: dict[int, int] = {}


def sit_in_a_pass(until: threading.Event) -> None:
    """Stands for the function that begins a pass: the thread that calls it is blocked there."""
    assert until.wait(LIMIT_S)


def go_back_to_the_user(work: Callable[[], object]) -> None:
    """Stands for the method by which the engine calls a user's own function."""
    work()


class EnginesThread:
    """A thread that Python did not start, and that does one thing after the other."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[object] = queue.SimpleQueue()
        _thread.start_new_thread(self._work, ())

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._done.put(task())

    def do(self, task: Callable[[], object], number: int = NO_PASS) -> object:
        """``task`` there, in the pass with this number."""

        def in_pass() -> object:
            _passes[threading.get_ident()] = number
            return task()

        self._tasks.put(in_pass)
        return self._done.get(timeout=10)

    def end(self) -> None:
        self._tasks.put(None)


class Recording:
    """A logger in memory, whose rows are of the engine's thread."""

    def __init__(self) -> None:
        self._sink = MemorySink()
        self.logger = TimingLogger(0, None, sinks=[self._sink], flush_interval=3600.0)

    def record(self) -> None:
        with self.logger.record_mpi_operation("HOOK"):
            pass

    @property
    def rows(self) -> list[Record]:
        assert self.logger.flush()
        return self._sink.records

    @property
    def threads(self) -> list[str]:
        return [row.thread for row in self.rows]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    number = lambda: _passes.get(threading.get_ident(), NO_PASS)  # noqa: E731
    engine = Engine(number, sit_in_a_pass.__code__, go_back_to_the_user.__code__)
    monkeypatch.setattr(_engine_threads, "_found", engine)


@pytest.fixture
def recording() -> Iterator[Recording]:
    found = Recording()
    yield found
    found.logger.close()


@pytest.fixture
def engine() -> Iterator[EnginesThread]:
    found = EnginesThread()
    yield found
    found.end()


@pytest.fixture
def blocked() -> Iterator[Callable[[str], None]]:
    """Starts a thread of this name that sits in a pass until the test is over."""
    until, threads = threading.Event(), []

    def start(name: str) -> None:
        threads.append(threading.Thread(target=sit_in_a_pass, args=(until,), name=name))
        threads[-1].start()

    yield start
    until.set()
    for thread in threads:
        thread.join()


def own_name(engine: EnginesThread) -> object:
    return engine.do(lambda: threading.current_thread().name)


# -- stand-ins -------------------------------------------------------------------------------------------


def test_a_row_of_the_engines_thread_is_of_the_thread_that_called_the_pass(
    recording: Recording, engine: EnginesThread, blocked: Callable[[str], None]
) -> None:
    blocked("trainer")
    engine.do(recording.record, 1)
    assert recording.threads == ["trainer"]


def test_every_way_to_record_says_so(
    recording: Recording, engine: EnginesThread, blocked: Callable[[str], None]
) -> None:
    blocked("trainer")
    logger = recording.logger
    engine.do(lambda: logger.record_timing("A", 1.0), 1)
    engine.do(lambda: logger.record_interval("B", 1, 2), 1)
    engine.do(lambda: logger.record_device_operation("C").__enter__().__exit__(None, None, None), 1)
    assert recording.threads == ["trainer"] * 3


def test_outside_of_a_pass_a_row_is_of_its_own_thread(
    recording: Recording, engine: EnginesThread, blocked: Callable[[str], None]
) -> None:
    blocked("trainer")
    for number in (NO_PASS, 1, NO_PASS):
        engine.do(recording.record, number)
    assert recording.threads == [own_name(engine), "trainer", own_name(engine)]


def test_of_two_threads_that_sit_in_passes_nobody_can_tell_which(
    recording: Recording, engine: EnginesThread, blocked: Callable[[str], None]
) -> None:
    for name in ("trainer", "critic"):
        blocked(name)
    engine.do(recording.record, 1)
    assert recording.threads == [own_name(engine)]


def test_where_nobody_sits_in_a_pass_a_row_is_of_its_own_thread(
    recording: Recording, engine: EnginesThread
) -> None:
    engine.do(recording.record, 1)
    assert recording.threads == [own_name(engine)]


def test_a_thread_that_called_a_pass_itself_is_its_own(
    recording: Recording,
    engine: EnginesThread,
    blocked: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the host the engine works in the thread that calls it, also where C++ started that."""
    begin = go_back_to_the_user  # whoever is called by it is within a pass of this thread's
    monkeypatch.setattr(_engine_threads, "_found", _engine_threads._found._replace(begins=begin.__code__))  # type: ignore[union-attr]
    engine.do(lambda: begin(recording.record), 1)
    assert recording.threads == [own_name(engine)]


def test_a_thread_of_python_keeps_its_name_in_a_pass(
    recording: Recording, blocked: Callable[[str], None]
) -> None:
    def work() -> None:
        _passes[threading.get_ident()] = 1
        recording.record()

    blocked("trainer")
    thread = threading.Thread(target=work, name="worker")
    thread.start()
    thread.join()
    assert recording.threads == ["worker"]


def test_the_caller_is_looked_for_once_in_a_pass(
    recording: Recording, engine: EnginesThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter(["first", "second"])
    monkeypatch.setattr(_open_calls, "thread_that_called_the_pass", lambda: next(found))
    for number in (1, 1, 1, 2, 2):
        engine.do(recording.record, number)
    assert recording.threads == ["first"] * 3 + ["second"] * 2


def test_a_label_stays_in_force_in_a_pass_within_a_pass(
    recording: Recording, engine: EnginesThread, blocked: Callable[[str], None]
) -> None:
    def nested() -> None:
        with recording.logger.label("encoder"):
            _passes[threading.get_ident()] = 2
            recording.record()

    blocked("trainer")
    engine.do(nested, 1)
    assert [(row.thread, row.layer_name) for row in recording.rows] == [("trainer", "encoder")]


# -- the real engine -------------------------------------------------------------------------------------

_DEEP = """
    import os, sys, threading
    import torch, torch.distributed as dist
    from allreduce_instrumentation import init_process_group, instrument
    from timing_logger import TimingLogger
    from timing_logger.sinks.memory import MemorySink

    class PassInAPass(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth, hook):
            ctx.left = depth - 1, hook
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            with torch.enable_grad():
                backward(*ctx.left)
            return gradient, None, None

    def backward(depth, hook):
        leaf = torch.ones(3, requires_grad=True)
        if depth:
            PassInAPass.apply(leaf, depth, hook).sum().backward()
        else:
            leaf.register_hook(hook)
            (leaf * 2).sum().backward()

    def hook(gradient):
        engines.append(threading.current_thread().name)
        torch.autograd.Variable._execution_engine.queue_callback(at_the_end)
        with logger.record_mpi_operation("HOOK"):
            dist.all_reduce(gradient)
            running.append(dist.all_reduce(gradient, async_op=True))
        running[0].wait()

    def at_the_end():
        logger.record_timing("CALLBACK", 1.0)
        running[1].wait()

    sink = MemorySink()
    logger = TimingLogger(0, None, sinks=[sink])
    alone = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    if sys.argv[1] == "instrument":
        dist.init_process_group("gloo", **alone)
        instrument(timing_logger=logger)
    else:
        init_process_group("gloo", timing_logger=logger, **alone)
    engines = []
    for depth in map(int, sys.argv[2:]):
        running = [dist.all_reduce(torch.ones(1), async_op=True)]
        backward(depth, hook)
    logger.flush()
    print(engines)
    for row in sink.records:
        print(row.operation, row.thread)
    sys.stdout.flush()
    os._exit(0)  # torch ends such threads by aborting the process
"""


@pytest.mark.slow("imports torch; with a thread that stands in for the engine's the same is quick")
@pytest.mark.parametrize(
    "way", ["instrument", pytest.param("init_process_group", marks=pytest.mark.both_groups)]
)
def test_hooks_and_callbacks_of_a_thread_of_autograds_write_rows_of_the_thread_that_called_it(
    way: str,
) -> None:
    """61 deep the engine's thread was called by the engine alone; 64 deep it called further passes itself."""
    group_in_cpp.build_if_it_times()
    done = run_warm(_DEEP, way, 61, 64)
    assert done.returncode == 0, done.stderr
    engines, *rows = done.stdout.splitlines()
    assert "MainThread" not in engines
    assert sorted(rows) == sorted(
        f"{operation} MainThread"
        for operation in ["ALLREDUCE", "HOOK", "CALLBACK", "WAIT", "WAIT", "IALLREDUCE", "IALLREDUCE"] * 2
    )

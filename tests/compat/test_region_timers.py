"""Region timers: their forms of use, what is counted, on and off, and rows.

The device, where one is needed, is a scripted stand-in; ``test_compat_on_async_device.py`` has the rest.
"""

from __future__ import annotations

import copy
import logging
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from processes import run_warm
from scripted_device import ScriptedAccelerator

from timing_logger import TimingLogger
from timing_logger.analysis.rows.operations import is_communication
from timing_logger.compat import REGION, RegionTimer, RegionTimers, region_timer
from timing_logger.compat._intervals import FOLD_EVERY
from timing_logger.compat._region_timer import TimerSettings
from timing_logger.errors import ConfigurationError, TimerNotStartedError
from timing_logger.schema.record import Record
from timing_logger.sinks.memory import MemorySink

WORK_NS = 1_000_000_000
"""The scripted device's work between two marks."""


@pytest.fixture
def timers() -> RegionTimers:
    return RegionTimers()


@pytest.fixture
def gpu(scripted_device: ScriptedAccelerator) -> ScriptedAccelerator:
    scripted_device.work_ns = WORK_NS
    scripted_device.ahead_ns = -(10**15)  # so that its marks never wait for the host's clock
    return scripted_device


class Recording:
    """A logger in memory."""

    def __init__(self) -> None:
        self._sink = MemorySink()
        self.logger = TimingLogger(0, None, sinks=[self._sink], flush_interval=3600.0)

    @property
    def rows(self) -> list[Record]:
        assert self.logger.flush()
        return self._sink.records


@pytest.fixture
def recording() -> Iterator[Recording]:
    found = Recording()
    yield found
    found.logger.close()


def use(timer: RegionTimer, times: int = 1) -> None:
    for _ in range(times):
        with timer:
            pass


# -- the usage that the Nanotron timers document ---------------------------------------------------


def test_the_documented_usage_runs() -> None:
    nanotron_timer = RegionTimers()

    with nanotron_timer("my_operation"):
        pass
    with nanotron_timer("my_operation", timer_type="cuda"):
        pass
    with nanotron_timer("cpu_operation", timer_type="cpu"):
        pass

    timer = nanotron_timer("my_operation")
    timer.start()
    timer.end()

    elapsed_time = timer.elapsed
    total_time = timer.total_time
    avg_time = timer.average_time

    assert timer.call_count == 3
    assert 0 < elapsed_time < total_time
    assert avg_time == pytest.approx(total_time / 3)
    assert [name for name, _ in nanotron_timer.items()] == ["my_operation", "cpu_operation"]


def test_the_process_has_timers_of_its_own() -> None:
    assert isinstance(region_timer, RegionTimers)
    assert region_timer.is_enabled()
    assert region_timer.timing_logger is None


def test_a_timer_that_never_ran_has_zeros(timers: RegionTimers) -> None:
    timer = timers("forward")
    assert (timer.elapsed, timer.total_time, timer.average_time, timer.call_count) == (0.0, 0.0, 0.0, 0)


# -- the decorator ---------------------------------------------------------------------------------


def test_the_decorator_form_times_each_call(timers: RegionTimers) -> None:
    @timers("forward", timer_type="cpu")
    def forward(x: int, *, y: int = 1) -> int:
        "Adds."
        return x + y

    assert [forward(1), forward(1, y=5)] == [2, 6]
    assert timers("forward").call_count == 2
    assert (forward.__name__, forward.__doc__) == ("forward", "Adds.")


class Model:
    timers = RegionTimers()

    @timers
    def forward(self, x: int) -> int:
        return x + 1

    @staticmethod
    @timers("loss")
    def loss(x: int) -> int:
        return x * 2


def test_the_registry_decorates_methods_under_their_qualified_names() -> None:
    assert Model().forward(1) == 2
    assert Model().loss(2) == 4
    assert [(name, timer.call_count) for name, timer in Model.timers.items()] == [
        ("Model.forward", 1),
        ("loss", 1),
    ]


def test_each_level_of_a_recursion_is_a_call(gpu: ScriptedAccelerator, timers: RegionTimers) -> None:
    @timers("factorial")
    def factorial(n: int) -> int:
        return n * factorial(n - 1) if n else 1

    assert factorial(2) == 2
    timer = timers("factorial")
    assert timer.call_count == 3
    assert timer.total_time == 1.0 + 3.0 + 5.0
    assert timer.elapsed == 5.0  # the outermost ended last


def a_generator() -> Iterator[int]:
    yield 1


async def a_coroutine() -> None: ...


async def an_asynchronous_generator() -> Any:
    yield 1


@pytest.mark.parametrize("function", [a_generator, a_coroutine, an_asynchronous_generator])
def test_functions_whose_body_runs_later_are_refused(function: Any, timers: RegionTimers) -> None:
    for decorate in (timers, timers("later")):
        with pytest.raises(ConfigurationError, match=r"does not run in the call.*put a `with` block"):
            decorate(function)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (staticmethod(len), "put @staticmethod above"),
        (classmethod(len), "put @classmethod above"),
        (int, "decorates functions and methods"),
        (3, "decorates functions and methods"),
    ],
)
def test_what_is_no_function_is_not_decorated(target: Any, message: str, timers: RegionTimers) -> None:
    with pytest.raises(ConfigurationError, match=message):
        timers("forward")(target)


# -- nesting, threads, exceptions ------------------------------------------------------------------


def test_end_ends_what_was_started_last(gpu: ScriptedAccelerator, timers: RegionTimers) -> None:
    timer = timers("forward").start()
    timer.start()
    timer.end()
    assert timer.elapsed == 1.0
    timer.end()
    assert timer.elapsed == 3.0
    assert timer.call_count == 2


def test_end_without_start_is_an_error(timers: RegionTimers) -> None:
    timer = timers("forward")
    with pytest.raises(TimerNotStartedError, match=r"end\(\) of the timer 'forward' without start\(\)"):
        timer.end()
    use(timer)
    with pytest.raises(TimerNotStartedError, match="this thread has no open interval"):
        timer.end()


def test_open_intervals_belong_to_their_thread(timers: RegionTimers) -> None:
    timer = timers("forward").start()
    failures: list[BaseException] = []

    def elsewhere() -> None:
        try:
            timer.end()
        except TimerNotStartedError as error:
            failures.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(failures) == 1
    timer.end()
    assert timer.call_count == 1


def test_eight_threads_lose_no_nanosecond(timers: RegionTimers, recording: Recording) -> None:
    timers.timing_logger = recording.logger
    timer = timers("shared", timer_type="cpu")
    threads = [threading.Thread(target=use, args=(timer, 2000)) for _ in range(8)]
    for thread in threads:
        thread.start()
    reader_saw = timer.call_count  # a reader in between takes nothing away
    for thread in threads:
        thread.join()
    assert reader_saw <= timer.call_count == 16_000
    durations_ns = [row.end_ns - row.start_ns for row in recording.rows if row.end_ns is not None]
    assert len(durations_ns) == 16_000
    assert timer.total_time == sum(durations_ns) / 1e9


def test_recording_neither_waits_for_somebody_who_folds_nor_disturbs_him(timers: RegionTimers) -> None:
    timer = timers("forward", timer_type="cpu")
    with timer.sums._folding:  # as a thread that was interrupted while it folds
        use(timer, 10 * FOLD_EVERY)
        assert len(timer.sums._ended) == 10 * FOLD_EVERY
    assert timer.call_count == 10 * FOLD_EVERY


def test_an_exception_ends_the_interval_and_passes(timers: RegionTimers, recording: Recording) -> None:
    timers.timing_logger = recording.logger
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught, timers("forward"):
        raise error
    assert caught.value is error
    assert timers("forward").call_count == 1
    assert [row.status for row in recording.rows] == ["error:KeyError"]


def test_a_block_that_ends_its_timer_itself_counts_once(timers: RegionTimers) -> None:
    with timers("forward") as timer:
        timer.end()
    assert timer.call_count == 1


# -- on and off ------------------------------------------------------------------------------------


def test_enable_really_enables(timers: RegionTimers) -> None:
    timers.disable()
    early, late = timers("early"), timers("late")
    use(early)
    assert (early.enabled, early.call_count, timers.is_enabled()) == (False, 0, False)
    timers.enable()
    for timer in (early, late, timers("new")):
        use(timer)
        assert (timer.enabled, timer.call_count) == (True, 1)
    assert timers.is_enabled()


def test_one_timer_is_switched_by_name(timers: RegionTimers) -> None:
    use(timers("a", enabled=False))
    use(timers("b"))
    assert [timers.is_enabled(name) for name in "ab"] == [False, True]
    timers.enable("a")
    timers.disable("b")
    use(timers("a", enabled=False))  # as it was made; enable() came later
    use(timers("b"))
    assert [timer.call_count for _, timer in timers.items()] == [1, 1]
    assert timers.is_enabled()


def test_a_disabled_timer_makes_no_event(gpu: ScriptedAccelerator, timers: RegionTimers) -> None:
    timer = timers("forward", cuda_sync=True, enabled=False)
    use(timer, 10)
    timer.start().end()
    assert (gpu.made, gpu.asks, timer.call_count) == (0, [], 0)


def test_a_decorated_function_follows_the_switch(timers: RegionTimers) -> None:
    timers.disable()

    @timers("forward")
    def forward() -> None: ...

    forward()
    timers.enable()
    forward()
    assert timers("forward").call_count == 1


def test_a_region_ends_as_it_began_whatever_is_switched_meanwhile(timers: RegionTimers) -> None:
    timer = timers("forward")
    with timer:
        timers.disable()
        with timer:
            timers.enable()
        assert timer.call_count == 0
    assert timer.call_count == 1
    timers.disable()
    timer.start()
    timers.enable()
    timer.end()
    assert timer.call_count == 1
    timer.start()
    timers.disable()
    timer.end()
    assert timer.call_count == 2


# -- the registry ----------------------------------------------------------------------------------


def test_a_name_stands_for_one_timer(timers: RegionTimers) -> None:
    timer = timers("forward", timer_type="cpu", cuda_sync=True)
    assert timers("forward") is timers("forward", timer_type="cpu") is timer
    assert timers("forward", cuda_sync=True, enabled=True) is timer


@pytest.mark.parametrize("other", [{"timer_type": "cpu"}, {"cuda_sync": True}, {"enabled": False}])
def test_another_setting_for_the_same_name_is_a_value_error(
    other: dict[str, Any], timers: RegionTimers
) -> None:
    timers("forward")
    with pytest.raises(
        ValueError, match="made with timer_type='cuda', cuda_sync=False, enabled=True"
    ) as error:
        timers("forward", **other)
    assert isinstance(error.value, ConfigurationError)
    assert next(iter(other)) in str(error.value)


def test_another_setting_is_also_refused_where_another_thread_created_the_timer_meanwhile(
    timers: RegionTimers,
) -> None:
    timer = timers("forward", cuda_sync=True)
    assert timers._first("forward", TimerSettings(cuda_sync=True)) is timer
    with pytest.raises(ConfigurationError, match="cuda_sync is False, and the timer 'forward' was made with"):
        timers._first("forward", TimerSettings(cuda_sync=False))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda timers: timers("a", timer_type="gpu"), "timer_type must be 'cuda' or 'cpu', and is 'gpu'"),
        (lambda timers: timers("a", timer_type=["cuda"]), "timer_type must be 'cuda' or 'cpu'"),
        (lambda timers: timers("a", cuda_sync="yes"), "cuda_sync must be True or False, and is 'yes'"),
        (lambda timers: timers("a", enabled=1), "enabled must be True or False, and is 1"),
        (lambda timers: timers(""), "name is empty"),
        (lambda timers: timers(["a"]), "name must be a string, or a function"),
        (lambda timers: timers(None), "name must be a string, or a function"),
        (
            lambda timers: timers.reset("fwd"),
            "name is 'fwd', and no timer is called so: there are \\['known'\\]",
        ),
        (lambda timers: timers.enable("fwd"), "no timer is called so"),
        (lambda timers: timers.disable("fwd"), "no timer is called so"),
        (lambda timers: timers.is_enabled("fwd"), "no timer is called so"),
        (lambda timers: timers.log("fwd"), "no timer is called so"),
        (
            lambda timers: setattr(timers, "timing_logger", "logs"),
            "timing_logger must be a TimingLogger or None",
        ),
        (lambda timers: RegionTimers(enabled="no"), "enabled must be True or False, and is 'no'"),
    ],
)
def test_bad_arguments_are_named(
    call: Callable[[RegionTimers], Any], message: str, timers: RegionTimers
) -> None:
    timers("known")
    with pytest.raises(ConfigurationError, match=message):
        call(timers)
    assert [name for name, _ in timers.items()] == ["known"]


def test_reset_forgets_what_has_ended(gpu: ScriptedAccelerator, timers: RegionTimers) -> None:
    use(timers("a"), 3)
    use(timers("b"), 3)
    timers.reset("a")
    assert (timers("a").call_count, timers("a").elapsed, timers("b").call_count) == (0, 0.0, 3)
    with timers("a"):
        timers.reset_all()
    assert (timers("a").call_count, timers("b").call_count) == (1, 0)
    assert timers("a").total_time == 1.0


def test_logging_states_calls_total_and_average(
    gpu: ScriptedAccelerator, timers: RegionTimers, caplog: pytest.LogCaptureFixture
) -> None:
    use(timers("forward"), 3)
    timers("never")
    gpu.capturing = True
    use(timers("graph"), 2)
    caplog.set_level(logging.INFO)
    timers.log("forward", logging.getLogger("mine"))
    timers.log_all()
    forward = "region 'forward' (cuda): 3 calls, total 3000.000 ms, average 1000.000 ms"
    graph = "region 'graph' (cuda): 0 calls, total 0.000 ms, average 0.000 ms, 2 more captured into a graph"
    assert [(found.name, found.getMessage()) for found in caplog.records] == [
        ("mine", forward),
        ("timing_logger", forward),
        ("timing_logger", graph + " and not timed"),
    ]


# -- rows ------------------------------------------------------------------------------------------


def test_a_region_is_not_mistaken_for_communication() -> None:
    assert not is_communication(REGION)


def test_iterations_that_the_logger_leaves_out_are_timed_and_leave_no_row(timers: RegionTimers) -> None:
    sink = MemorySink()
    with TimingLogger(0, None, sinks=[sink], record_every_n_steps=2) as logger:
        timers.timing_logger = logger
        for iteration in range(4):
            logger.set_current_iteration(iteration)
            use(timers("forward"))
    assert [row.iteration for row in sink.records] == [0, 2]
    assert timers("forward").call_count == 4


# -- copies ------------------------------------------------------------------------------------------


def test_a_model_that_holds_a_timer_can_be_copied_and_pickled() -> None:
    """As for an average of its weights, a checkpoint, or a worker that is spawned."""
    timer = region_timer("held", timer_type="cpu")
    model = {"timer": timer, "weights": [1.0]}
    assert copy.copy(timer) is timer
    assert copy.deepcopy(model)["timer"] is timer
    assert pickle.loads(pickle.dumps(model))["timer"] is timer


def test_in_another_process_a_pickled_timer_is_the_one_of_that_name() -> None:
    data = pickle.dumps(region_timer("sent", timer_type="cpu"))
    run = run_warm(
        """
        import pickle, sys
        from timing_logger.compat import region_timer
        timer = pickle.loads(bytes.fromhex(sys.argv[1]))
        with timer:
            pass
        print(timer is region_timer("sent"), timer.call_count, timer.timer_type)
        """,
        data.hex(),
    )
    assert run.stdout == "True 1 cpu\n", run.stderr


def test_a_timer_of_ones_own_registry_cannot_be_pickled_and_the_error_says_why() -> None:
    with pytest.raises(TypeError, match=r"only timers of region_timer can be pickled"):
        pickle.dumps(RegionTimers()("mine"))

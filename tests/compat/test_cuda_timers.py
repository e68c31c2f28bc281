"""Timers that are started and stopped: only reading waits, and off makes no events.

The device, where one is needed, is a scripted stand-in; ``test_compat_on_async_device.py`` has the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scripted_device import ScriptedAccelerator

from timing_logger.compat.cuda_timers import CUDATimer, CUDATimerCollection
from timing_logger.errors import ConfigurationError, TimerNotStartedError


@pytest.fixture
def gpu(scripted_device: ScriptedAccelerator) -> ScriptedAccelerator:
    scripted_device.work_ns = 1_000_000_000
    scripted_device.ahead_ns = -(10**15)  # so that its marks never wait for the host's clock
    return scripted_device


def run(timer: CUDATimer) -> None:
    timer.start()
    timer.stop()


# -- the usage that the KempnerForge timers document -----------------------------------------------


def test_the_documented_usage_of_one_timer_runs() -> None:
    timer = CUDATimer()
    timer.start()
    timer.stop()
    elapsed_ms = timer.elapsed_ms()
    assert elapsed_ms > 0


def test_the_documented_usage_of_a_collection_runs() -> None:
    timers = CUDATimerCollection(regions=["forward", "backward", "comm"])
    timers.start("forward")
    timers.stop("forward")
    report = timers.elapsed_all()
    assert timers.enabled
    assert list(report) == ["forward", "backward", "comm"]
    assert report["forward"] == timers.elapsed_ms("forward") > 0
    assert report["backward"] == report["comm"] == 0.0


# -- one timer -------------------------------------------------------------------------------------


def test_a_timer_that_never_ran_is_at_zero(gpu: ScriptedAccelerator) -> None:
    timer = CUDATimer()
    assert timer.elapsed_ms() == 0.0
    timer.start()
    assert timer.elapsed_ms() == 0.0
    assert gpu.asks == ["record"]


def test_starting_again_begins_anew(gpu: ScriptedAccelerator) -> None:
    timer = CUDATimer()
    timer.start()
    run(timer)
    assert timer.elapsed_ms() == 1000.0


def test_stop_without_start_is_an_error() -> None:
    timer = CUDATimer()
    with pytest.raises(TimerNotStartedError, match=r"stop\(\) without start\(\)"):
        timer.stop()
    run(timer)
    with pytest.raises(TimerNotStartedError, match=r"stop\(\) without start\(\)"):
        timer.stop()


def test_ten_thousand_runs_take_a_few_events(gpu: ScriptedAccelerator) -> None:
    timer = CUDATimer()
    for _ in range(10_000):
        run(timer)
    assert gpu.made <= 4


# -- a collection ----------------------------------------------------------------------------------


def test_a_disabled_collection_makes_no_events_and_is_all_zeros(gpu: ScriptedAccelerator) -> None:
    timers = CUDATimerCollection(["forward", "backward"], enabled=False)
    timers.start("forward")
    timers.stop(region="forward")
    timers.stop("backward")
    assert not timers.enabled
    assert timers.elapsed_ms("forward") == 0.0
    assert timers.elapsed_all() == {"forward": 0.0, "backward": 0.0}
    assert (gpu.made, gpu.asks) == (0, [])


@pytest.mark.parametrize("call", ["start", "stop", "elapsed_ms"])
def test_an_unknown_region_is_named_together_with_the_known_ones(call: str) -> None:
    timers = CUDATimerCollection(["forward", "backward"])
    with pytest.raises(ConfigurationError, match=r"'fwd', and must be one of \['forward', 'backward'\]"):
        getattr(timers, call)("fwd")


def test_stopping_a_region_that_was_not_started_names_it() -> None:
    with pytest.raises(TimerNotStartedError, match=r"stop\('forward'\) without start\('forward'\)"):
        CUDATimerCollection(["forward"]).stop("forward")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CUDATimerCollection(["a", "b", "a"]), "regions has 'a' more than once"),
        (lambda: CUDATimerCollection("forward"), "regions must be names, .* and is 'forward'"),
        (lambda: CUDATimerCollection([1]), r"regions must be names, .* and is \[1\]"),
        (lambda: CUDATimerCollection(None), "regions must be names, .* and is None"),
        (lambda: CUDATimerCollection(["a"], enabled="no"), "enabled must be True or False, and is 'no'"),
        (lambda: CUDATimerCollection(["a", "a"], enabled=False), "more than once"),
    ],
)
def test_bad_arguments_are_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()

"""Region timers and the device: durations, waiting, memory, and what is lost.

The device, where one is needed, is a scripted stand-in; ``test_compat_on_async_device.py`` has the rest.
"""

from __future__ import annotations

import gc
import math
import os
import sys

import pytest
from processes import run_python
from scripted_device import ScriptedAccelerator
from slow import slow

from timing_logger.compat import RegionTimer, RegionTimers
from timing_logger.compat._intervals import FOLD_EVERY, KEPT
from timing_logger.compat._region_timer import MOST_OPEN


@pytest.fixture
def timers() -> RegionTimers:
    return RegionTimers()


@pytest.fixture
def gpu(scripted_device: ScriptedAccelerator) -> ScriptedAccelerator:
    scripted_device.work_ns = 1_000_000_000
    scripted_device.ahead_ns = -(10**15)  # so that its marks never wait for the host's clock
    return scripted_device


def use(timer: RegionTimer, times: int = 1) -> None:
    for _ in range(times):
        with timer:
            pass


# -- the clock -------------------------------------------------------------------------------------


def test_without_a_device_a_cuda_timer_can_be_used_again_and_again(timers: RegionTimers) -> None:
    timer = timers("forward")
    use(timer, 3)
    timer.start().end()
    assert timer.timer_type == "cuda"
    assert timer.call_count == 4
    assert 0 < timer.elapsed < timer.total_time


def test_a_cpu_timer_asks_nothing_of_the_device(gpu: ScriptedAccelerator, timers: RegionTimers) -> None:
    timer = timers("data", timer_type="cpu")
    use(timer, 3 * FOLD_EVERY)
    assert timer.total_time > 0
    assert gpu.asks == []


def test_nothing_is_asked_that_could_break_a_capture(gpu: ScriptedAccelerator, timers: RegionTimers) -> None:
    timer = timers("forward", cuda_sync=True)
    use(timer, 3 * FOLD_EVERY)
    use(timers("backward"), 3 * FOLD_EVERY)
    assert timer.average_time == timers("backward").average_time == 1.0
    assert {ask for ask in gpu.asks if not ask.endswith(" beside captures")} == {"record"}


def test_where_asking_could_break_a_capture_only_a_reader_asks(
    gpu: ScriptedAccelerator, timers: RegionTimers
) -> None:
    gpu.harmless = False
    timer = timers("forward")
    use(timer, 3 * FOLD_EVERY)
    assert set(gpu.asks) == {"record"}
    assert timer.total_time == 3.0 * FOLD_EVERY


def test_cuda_sync_without_a_device_is_harmless(timers: RegionTimers) -> None:
    use(timers("forward", cuda_sync=True))
    assert timers("forward").call_count == 1


# -- memory and loss -------------------------------------------------------------------------------


@pytest.mark.parametrize("thousands", [10, slow(100, "ten times as many")])
def test_thousands_of_uses_take_a_few_events(
    gpu: ScriptedAccelerator, timers: RegionTimers, thousands: int
) -> None:
    timer = timers("forward")
    for _ in range(thousands):
        use(timer, 1000)
        gpu.asks.clear()
    assert timer.call_count == 1000 * thousands
    assert timer.total_time == 1000.0 * thousands
    assert gpu.made <= 2 * (FOLD_EVERY + 2)


@pytest.mark.slow("a million uses; that thousands take a few events is quick")
def test_a_million_uses_take_no_more_memory_than_a_thousand(timers: RegionTimers) -> None:
    timer = timers("data", timer_type="cpu")
    use(timer, 1000)
    before = sys.getallocatedblocks()
    use(timer, 1_000_000)
    assert sys.getallocatedblocks() - before < 1000
    assert timer.call_count == 1_001_000


def test_events_of_many_timers_are_given_back_when_they_run_low(
    gpu: ScriptedAccelerator, timers: RegionTimers
) -> None:
    for i in range(200):
        use(timers(f"layer{i}"), FOLD_EVERY - 1)  # 6200 intervals, all finished, none folded by itself
    assert [timer.unresolved_count for _, timer in timers.items()] == [0] * 200


def test_a_device_far_behind_costs_the_newest_durations_and_says_so(
    gpu: ScriptedAccelerator, timers: RegionTimers
) -> None:
    gpu.busy = True
    timer = timers("forward")
    for number in range(3000):
        gpu.stream_id = number % 32  # none of them is full
        use(timer)
    assert timer.call_count == 3000
    assert timer.unresolved_count == 3000 - KEPT
    assert gpu.made <= 2 * (KEPT + FOLD_EVERY + 2)
    assert timer.total_time == float(KEPT)
    assert timer.average_time == 1.0
    assert f"3000 calls, total {KEPT}000.000 ms, average 1000.000 ms, {3000 - KEPT} of them unresolved" in (
        timer.describe()
    )


def test_a_device_that_fails_is_no_failure_of_the_program(
    gpu: ScriptedAccelerator, timers: RegionTimers
) -> None:
    timer = timers("forward")
    use(timer, 2)
    assert timer.total_time == 2.0
    gpu.fail_with = RuntimeError("device lost")
    use(timer, 3 * FOLD_EVERY)
    assert timer.unresolved_count == 3 * FOLD_EVERY
    assert timer.total_time == 2.0
    assert math.isnan(timer.elapsed)


def test_a_timer_that_nobody_holds_gives_its_events_back(gpu: ScriptedAccelerator) -> None:
    timers = RegionTimers()
    use(timers("forward"), 5)
    del timers
    gc.collect()
    made = gpu.made
    use(RegionTimers()("forward"), 5)
    assert gpu.made == made


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_while_somebody_folds_goes_on_by_itself() -> None:
    run = run_python(
        """
        import os
        from timing_logger.compat import region_timer
        timer = region_timer("forward", timer_type="cpu")
        with timer.sums._folding:  # in the child its holder is a thread that does not exist there
            child = os.fork()
            if not child:
                for _ in range(10_000):
                    with timer: pass
                os._exit(0 if timer.call_count == 10_000 and len(timer.sums._ended) < 100 else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert run.stdout == "0\n", run.stderr


def test_a_call_that_nobody_ends_does_not_keep_its_events_for_ever(
    gpu: ScriptedAccelerator, timers: RegionTimers
) -> None:
    timer = timers("forward")
    for _ in range(MOST_OPEN + 100):
        timer.start()
    assert gpu.made <= 2 * (MOST_OPEN + 1)
    assert timer.unresolved_count == 100
    assert "100 more started and never ended" in timer.describe()


class Watchdog(RuntimeError):
    """A user's own, of the kind that torch raises too."""


def test_an_exception_of_the_users_own_passes_while_folding(
    gpu: ScriptedAccelerator, timers: RegionTimers
) -> None:
    timer = timers("forward")
    gpu.busy = True
    use(timer, 2)
    gpu.fail_with = Watchdog()
    with pytest.raises(Watchdog):
        timer.sums.fold()
    gpu.fail_with = None
    gpu.get_on()
    use(timer)
    assert timer.call_count == 3


@pytest.mark.slow("a signal at any moment; what timers count is quick")
def test_exceptions_from_a_signal_handler_leave_a_timer_that_works() -> None:
    run = run_python(
        """
        import random, signal
        from timing_logger.compat import region_timer

        class Timeout(Exception):
            pass

        def interrupt(*_):
            raise Timeout

        signal.signal(signal.SIGALRM, interrupt)
        timer = region_timer("t", timer_type="cpu")
        for number in range(3000):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 3e-4))
                while True:
                    if number % 2:
                        timer.call_count
                    with timer:
                        pass
            except Timeout:
                pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        before = timer.sums.read().known
        for _ in range(100):
            with timer:
                pass
        assert timer.sums.read().known == before + 100
        assert timer.sums.read().waiting == 0
        """,
    )
    assert run.returncode == 0, run.stderr

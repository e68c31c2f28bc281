"""The timers and profilers on a real GPU: kernels of known length, and nobody waits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from spinning import Known, spin

from timing_logger import TimingLogger, read_timings
from timing_logger.compat import (
    CudaEventProfiler,
    CUDATimer,
    CUDATimerCollection,
    RegionTimers,
    RuntimeProfiler,
)


@pytest.fixture(autouse=True)
def idle_device() -> None:
    torch.cuda.synchronize()


def test_a_region_timer_measures_the_kernel_and_not_its_launch() -> None:
    timer = RegionTimers()("forward")
    for _ in range(3):
        with Known() as known, timer:
            spin(20)
    assert timer.elapsed == pytest.approx(known.ms / 1e3, rel=0.05)
    assert timer.call_count == 3
    assert timer.total_time == pytest.approx(3 * known.ms / 1e3, rel=0.1)


def test_a_region_timer_returns_while_the_device_works() -> None:
    timer = RegionTimers()("forward")
    with timer:
        spin(500)
    done = torch.cuda.Event()
    done.record()
    assert not done.query()
    assert timer.elapsed > 0.1


def test_cuda_sync_waits_for_the_device() -> None:
    done = torch.cuda.Event()
    with RegionTimers()("forward", cuda_sync=True):
        spin(100)
        done.record()
    assert done.query()


def test_a_region_timer_called_a_hundred_thousand_times_keeps_few_events() -> None:
    from timing_logger.recording.device.devices import devices_in_use

    timer = RegionTimers()("forward")
    for _ in range(100_000):
        with timer:
            pass
    torch.cuda.synchronize()
    assert timer.call_count == 100_000
    assert sum(device.pool.made for device in devices_in_use()) <= 4096


def test_a_cuda_timer_measures_the_kernel() -> None:
    timer = CUDATimer()
    timer.start()
    with Known() as known:
        spin(20)
    timer.stop()
    assert timer.elapsed_ms() == pytest.approx(known.ms, rel=0.05)


def test_a_collection_tells_regions_apart() -> None:
    timers = CUDATimerCollection(["forward", "backward", "comm"])
    known = {}
    for region, ms in (("forward", 10), ("backward", 30)):
        timers.start(region)
        with Known() as known[region]:
            spin(ms)
        timers.stop(region)
    elapsed = timers.elapsed_all()
    assert elapsed["comm"] == 0.0
    for region in known:
        assert elapsed[region] == pytest.approx(known[region].ms, rel=0.05)


def test_the_event_profiler_sees_copies_off_the_current_stream(tmp_path: Path) -> None:
    copying = torch.cuda.Stream()
    on_host = torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True)
    on_device = torch.empty_like(on_host, device="cuda")
    with CudaEventProfiler(True, tmp_path, 0, {"record_every_n_steps": 1}) as profiler:
        with torch.cuda.stream(copying), Known() as known:
            on_device.copy_(on_host, non_blocking=True)
        with profiler.record("host_to_device", 0, stream=copying), torch.cuda.stream(copying):
            on_device.copy_(on_host, non_blocking=True)
    (row,) = map(json.loads, (tmp_path / "cuda_events_rank_0.jsonl").read_text().splitlines())
    assert row["duration_ms"] == pytest.approx(known.ms, rel=0.2)


def test_the_event_profiler_does_not_wait(tmp_path: Path) -> None:
    with CudaEventProfiler(
        True, tmp_path, 0, {"record_every_n_steps": 1, "flush_every_n_steps": 1}
    ) as profiler:
        for step in range(3):
            with profiler.record("training_step", step):
                spin(100)
            profiler.maybe_flush(step)
        done = torch.cuda.Event()
        done.record()
        assert not done.query()


def test_the_runtime_profiler_measures_forward_on_the_device(tmp_path: Path) -> None:
    logger = TimingLogger(0, tmp_path, device_timeout=30.0)
    with RuntimeProfiler(timing_logger=logger) as profiler:
        for _ in profiler.wrap([0, 1, 2], "main"):
            with Known() as known, profiler.forward():
                spin(20)
            with profiler.backward():
                spin(20)
            with profiler.optimizer():
                spin(1)
    logger.close()
    df = read_timings(tmp_path)
    forward = df[df.operation == "FORWARD"]
    assert set(forward.clock) == {"device"}
    assert forward.elapsed_ms.median() == pytest.approx(known.ms, rel=0.05)
    assert set(df[df.operation == "DATA"].clock) == {"host"}

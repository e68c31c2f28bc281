"""On one process: timers, profilers and copies on a device that goes on by itself."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _recordings import mark, ms, recording
from _scenarios import run
from torch import Stream

from allreduce_instrumentation.compressors import TopK
from allreduce_instrumentation.copies import copy_to_device, copy_to_host
from allreduce_instrumentation.sparse._call import TimedCompressor
from timing_logger.compat import RegionTimers
from timing_logger.compat._intervals import FOLD_EVERY
from timing_logger.compat.cuda_event_profiler import CudaEventProfiler
from timing_logger.compat.cuda_timers import CUDATimer, CUDATimerCollection
from timing_logger.compat.runtime_profiler import RuntimeProfiler
from timing_logger.errors import ConfigurationError
from timing_logger.integrations._operations import OpenOperations
from timing_logger.recording.device.devices import MOST_INTERVALS

device = torch.asyncdev
HERE = torch.device("asyncdev", 0)
HOST = torch.device("cpu")


def _tasks_captured(block: Callable[[], object]) -> int:
    with device.capture() as tasks:
        block()
    return tasks[0]


# -- timers that are started and stopped -----------------------------------------------------------------


def _spin(timer: Any, spun_ms: float) -> None:
    timer.start()
    device.spin(spun_ms)
    timer.stop()


# This one comes first: afterwards the process has used its device.
def before_the_device_is_used() -> list[Any]:
    """Whether device 0 has a context then, and the clock of a row."""
    with recording() as (logger, rows):
        with logger.record_device_operation("FORWARD"):
            pass
        clock = rows()[0].clock
    used = device.has_context(0)
    device.spin(0)
    return [used, clock]


def cuda_timer() -> list[bool]:
    """What it says after a kernel, while it runs again, and after that."""
    timer = CUDATimer()
    _spin(timer, 20)
    first_ms = timer.elapsed_ms()
    timer.start()
    device.spin(first_ms + 20)
    meanwhile_ms = timer.elapsed_ms()
    timer.stop()
    return [first_ms >= 20, meanwhile_ms == first_ms, timer.elapsed_ms() >= first_ms + 20]


def cuda_timer_waits() -> list[bool]:
    """Starting and stopping go on beside a stream that stands still; reading waits for the end alone."""
    timer = CUDATimer()
    gate = device.hold()
    _spin(timer, 5)
    went_on = not mark().query()
    gate.open()
    gate = device.hold()
    read = timer.elapsed_ms() >= 5
    held = not mark().query()
    gate.open()
    return [went_on, read, held]


def cuda_timer_captured() -> list[Any]:
    timer = CUDATimer()
    tasks = _tasks_captured(lambda: _spin(timer, 1))
    return [tasks, timer.elapsed_ms()]


def cuda_timers() -> list[bool]:
    """Two regions, one inside of the other, and one that never ran."""
    timers = CUDATimerCollection(("step", "forward", "comm"))
    timers.start("step")
    timers.start("forward")
    device.spin(10)
    timers.stop("forward")
    device.spin(20)
    timers.stop("step")
    elapsed = timers.elapsed_all()
    return [elapsed["forward"] >= 10, elapsed["step"] >= elapsed["forward"] + 20, elapsed["comm"] == 0]


# -- regions ---------------------------------------------------------------------------------------------


def _use(timer: Any, times: int = 1, spun_ms: float = 0.0) -> None:
    for _ in range(times):
        with timer:
            device.spin(spun_ms)


def region_timer() -> list[bool]:
    timers = RegionTimers()
    with timers("step"):
        _use(timers("forward"), 3, spun_ms=10)
    step, forward = timers("step"), timers("forward")
    return [
        forward.elapsed >= 0.01,
        forward.total_time >= 0.03,
        step.elapsed >= forward.total_time,
        math.isclose(forward.average_time, forward.total_time / 3),
    ]


def region_timer_waits() -> list[bool]:
    timer = RegionTimers()("forward")
    gate = device.hold()
    with timer:
        device.spin(5)
    _use(timer, 2 * FOLD_EVERY)
    went_on = not mark().query()
    gate.open()
    gate = device.hold()
    read = timer.total_time >= 0.005
    held = not mark().query()
    gate.open()
    return [went_on, read, held, timer.call_count == 2 * FOLD_EVERY + 1]


def region_timer_that_synchronises() -> list[bool]:
    """Of each kind: whether what came before was waited for at the start, and what is inside at the end."""
    timers = RegionTimers()
    found = []
    for kind in ("cuda", "cpu"):
        timer = timers(kind, timer_type=kind, cuda_sync=True)
        device.spin(20)
        before = mark()
        timer.start()
        found.append(before.query())
        device.spin(20)
        inside = mark()
        timer.end()
        found += [inside.query(), timer.elapsed >= 0.02]
    return found


def region_timer_in_a_full_stream() -> list[Any]:
    """A mark there would hold the interpreter's lock, and nobody could open the gate."""
    timer = RegionTimers()("forward")
    gate = device.hold()
    for _ in range(2 * MOST_INTERVALS):
        with timer:
            pass
    gate.open()
    waited_for = timer.total_time > 0
    sums = timer.sums.read()
    return [timer.call_count, waited_for, sums.known, sums.unresolved]


def region_timer_captured() -> list[Any]:
    with recording() as (logger, rows):
        timers = RegionTimers()
        timers.timing_logger = logger
        timer = timers("forward", cuda_sync=True)
        tasks = _tasks_captured(lambda: _use(timer, 2))
        captured = [timer.call_count, timer.captured_count]
        _use(timer)
        return [tasks, captured, [timer.call_count, timer.captured_count], len(rows())]


def region_rows() -> list[Any]:
    """The row of a region states the duration that its timer states."""
    with recording() as (logger, rows):
        timers = RegionTimers()
        timers.timing_logger = logger
        logger.set_current_iteration(7)
        side = Stream()
        with side, timers("send"):
            device.spin(5)
        with timers("data", timer_type="cpu"):
            pass
        found = {row.layer_name: row for row in rows()}
        return [
            [[row.iteration, row.operation, row.clock] for _, row in sorted(found.items())],
            found["send"].stream == f"asyncdev:0/{side.stream_id}",
            [ms(found["send"]), timers("send").elapsed * 1e3],
        ]


# -- the sampled profiler --------------------------------------------------------------------------------


def _lines(profiler: CudaEventProfiler) -> list[dict[str, Any]]:
    assert profiler.path is not None
    return [json.loads(line) for line in profiler.path.read_text().splitlines()]


def _profiler(name: str) -> CudaEventProfiler:
    return CudaEventProfiler(True, Path(sys.argv[1], name), 0, {"record_every_n_steps": 1})


def event_profiler_waits() -> list[Any]:
    """Recording and flushing beside a stream that stands still, and what is in the file then and after."""
    with _profiler("waits") as profiler:
        gate = device.hold()
        for step in range(10):
            with profiler.record("training_step", step):
                device.spin(2)
            profiler.maybe_flush(step)
        flushed = [profiler.flush(), profiler.flush(blocking=True, timeout=0.05)]
        early, held = _lines(profiler), not mark().query()
        gate.open()
        flushed.append(profiler.flush(blocking=True))
        rows = _lines(profiler)
        steps = [row["step"] for row in rows if row["duration_ms"] >= 2]
        return [flushed, early, held, steps, profiler.flush()]


def event_profiler_in_another_stream() -> list[Any]:
    """A copy off the current stream, while that one stands still."""
    copies = Stream()
    with _profiler("copies") as profiler:
        gate = device.hold()
        with profiler.record("host_to_device", 0, stream=copies), copies:
            device.spin(7)
        flushed = profiler.flush(blocking=True)
        held = not mark().query()
        gate.open()
        (row,) = _lines(profiler)
    return [flushed, held, row["duration_ms"] >= 7, "stream" in row]


def event_profiler_captured() -> list[Any]:
    with _profiler("captured") as profiler:

        def kernels() -> None:
            with profiler.record("training_step", 0):
                device.spin(1)

        tasks = _tasks_captured(kernels)
        assert profiler.flush(blocking=True)
        return [tasks, _lines(profiler)]


# -- the runtime profiler --------------------------------------------------------------------------------


class _Scalars:
    def __init__(self) -> None:
        self.written: list[tuple[str, float, int]] = []

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self.written.append((tag.rpartition("/")[2], value, step))

    def steps(self, what: str) -> list[int]:
        return [step for tag, _, step in self.written if tag == f"time_{what}_ms"]

    def least_ms(self, what: str) -> float:
        return min(value for tag, value, _ in self.written if tag == f"time_{what}_ms")


def _step(profiler: RuntimeProfiler) -> None:
    with profiler.forward():
        device.spin(10)
    with profiler.backward():
        device.spin(20)
    with profiler.optimizer():
        device.spin(5)


def runtime_profiler() -> list[Any]:
    """Scalars come when the device is done, and the second step's do not overtake the first's."""
    scalars = _Scalars()
    with RuntimeProfiler(scalars) as profiler:
        gate = device.hold()
        for _ in profiler.wrap([1, 2], "main"):
            _step(profiler)
        early = profiler.flush(timeout=0.01), list(scalars.written)
        gate.open()
        assert profiler.flush()
    parts = {"forward": 10, "backward": 20, "optimizer": 5}
    return [
        early,
        [scalars.steps(part) for part in ("data", *parts)],
        [scalars.least_ms(part) >= spun_ms for part, spun_ms in parts.items()],
    ]


def runtime_profiler_with_a_captured_step() -> list[Any]:
    """The second of three steps is captured: it has times of the host only, and waits for the first."""
    scalars = _Scalars()
    side = Stream()
    with RuntimeProfiler(scalars) as profiler:
        gate = device.hold()
        for number, _ in enumerate(profiler.wrap([1, 2, 3], "main")):
            if number == 1:
                with side:
                    tasks = _tasks_captured(lambda: _step(profiler))
            else:
                _step(profiler)
        early = profiler.flush(timeout=0.01), list(scalars.written)[:1]
        gate.open()
        assert profiler.flush()
    order = [step for _, _, step in scalars.written]
    return [early, tasks, scalars.steps("data"), scalars.steps("forward"), order == sorted(order)]


def runtime_profiler_that_synchronises() -> list[bool]:
    """Whether a block waited for what came before it, and for what is in it: never, unless told to."""
    found = []
    with RuntimeProfiler(_Scalars()) as profiler:
        gate = device.hold()
        with profiler.forward("main"):
            found.append(mark().query())
        found.append(mark().query())
        gate.open()
    with RuntimeProfiler(_Scalars(), synchronize=True) as profiler:
        device.spin(20)
        before = mark()
        with profiler.forward("main"):
            found.append(before.query())
            device.spin(20)
            inside = mark()
        found.append(inside.query())
    return found


def runtime_profiler_captured() -> list[Any]:
    """Waiting would break the capture."""
    with (
        recording() as (logger, rows),
        RuntimeProfiler(timing_logger=logger, synchronize=True, dataloader_names=["main"]) as profiler,
    ):
        tasks = _tasks_captured(lambda: _step(profiler))
        return [tasks, profiler.global_step, rows()]


# -- parts of a step, for the frameworks' callbacks ------------------------------------------------------


def operations() -> list[list[str]]:
    with recording() as (logger, rows):
        parts = OpenOperations()
        parts.start(logger)
        parts.wait()
        parts.end_wait("DATA")
        parts.begin("FORWARD")
        device.spin(1)
        parts.end("FORWARD")
        return [[row.operation, row.clock, row.status] for row in rows()]


# -- copies ----------------------------------------------------------------------------------------------


def copies_go_on() -> list[Any]:
    """Both ways, from and to pinned memory, beside a stream that stands still."""
    with recording() as (logger, rows):
        given, there = torch.arange(2.0).pin_memory(), torch.zeros(2, device=HERE)
        options: dict[str, Any] = {"non_blocking": True, "layer_name": "fc", "timing_logger": logger}
        gate = device.hold()
        same = copy_to_device(given, HERE, out=there, **options) is there
        back = copy_to_host(there, **options)
        held = not mark().query()
        gate.open()
        found = [
            [row.operation, row.message_size_bytes, row.layer_name, row.clock, row.status, ms(row) > 0]
            for row in rows()
        ]
        return [same, held, back.is_pinned(), back.tolist(), found]


def copies_that_block() -> list[Any]:
    """Their results can be read at once; their memory is pinned if it is asked for."""
    there = copy_to_device(torch.arange(3.0), "asyncdev")
    device.spin(10)
    plain, pinned = copy_to_host(there), copy_to_host(there, pin_memory=True)
    return [[copy.is_pinned(), copy.tolist()] for copy in (plain, pinned)]


def copies_between_devices() -> list[Any]:
    with recording() as (logger, rows):
        first = torch.arange(3.0).to(HERE)
        stays = copy_to_device(first, HERE, timing_logger=logger) is first
        beside = copy_to_device(first, HERE, out=torch.empty_like(first), timing_logger=logger)
        second = copy_to_device(first, "asyncdev:1", timing_logger=logger)
        operations = [row.operation for row in rows()]
        return [stays, operations, str(second.device), beside.tolist(), second.tolist()]


def copies_that_are_refused() -> list[str]:
    said = []
    there = torch.ones(1, device=HERE)
    for call in (
        lambda: copy_to_host(there, non_blocking=True, out=torch.zeros(1)),
        lambda: copy_to_device(there, "cpu"),
    ):
        try:
            call()
        except ConfigurationError as error:
            said.append(str(error))
    return said


def payloads() -> dict[str, Any]:
    """Of a tensor on the device, with a transport on the host."""
    with recording() as (logger, rows):
        timed = TimedCompressor(TopK(0.5), HERE, HOST, logger)
        payload = timed.compress(torch.tensor([1.0, -4.0, 2.0, 3.0]).to(HERE), "w")
        on_host = {str(payload.indices.device), str(payload.values.device)}
        kept, _ = timed.merge([payload, payload], 1)
        timed.give_back("w", kept.indices, kept.values)
        mean = timed.decompress_mean([kept], 2)
        return {
            "payload": sorted(on_host),
            "mean": [str(mean.device), mean.tolist()],
            "rows": sorted([row.operation, row.clock] for row in rows()),
        }


if __name__ == "__main__":
    run(globals())

"""On one process: what timing does with a device, and what it leaves alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import torch
from _recordings import mark, ms, recording
from _scenarios import run
from torch import Stream

from timing_logger import TimingLogger
from timing_logger._clock import perf_counter_ns
from timing_logger._device.devices import PAIRS_PER_DEVICE
from timing_logger._device.stream_marks import MOST_INTERVALS

device = torch.asyncdev
POOL = 32


def _clocks(logger: TimingLogger) -> dict[str, Any]:
    """What the sidecar would say of device 0."""
    clocks = {clock.device: clock._asdict() for clock in logger._flusher._device_rows.info()}
    found: dict[str, Any] = clocks["asyncdev:0"]
    return found


# This one comes first: afterwards device 0 has a context.
def thread_without_a_device() -> list[Any]:
    """The process works on device 1; the current device of a thread that was just started is 0."""
    device.set_device(1)
    device.spin(0)

    def work() -> None:
        current.append(device.current_device())
        with logger.record_device_operation("FORWARD"):
            device.spin(20, 1)

    current: list[int] = []
    with recording() as (logger, rows):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        (row,) = rows()
    has_context = device.has_context(0)
    device.set_device(0)
    return [current, has_context, row.clock, row.stream, ms(row) >= 20]


def durations() -> list[Any]:
    """Of kernels of 20 ms and 5 ms, while the host goes on."""
    with recording() as (logger, rows):
        gate = device.hold()
        for spun_ms in (20, 5):
            with logger.record_device_operation("FORWARD"):
                device.spin(spun_ms)
        gate.open()
        return [[ms(row), row.clock, row.status, row.stream] for row in rows()]


def placement() -> list[bool]:
    """Each span begins after its issue and the one before it in its stream, and ends before it was seen."""
    device.synchronize()
    issued, seen = [], []
    with recording() as (logger, rows):
        for _ in range(20):
            issued.append(perf_counter_ns())
            with logger.record_device_operation("FORWARD"):
                device.spin(3)
            device.synchronize()
            seen.append(perf_counter_ns())
        found = rows()
        slack_ns = _clocks(logger)["worst_uncertainty_ns"] + 1000
    starts, ends = [row.start_ns for row in found], [row.end_ns for row in found]
    return [
        all(start >= at for start, at in zip(starts, issued, strict=True)),
        all(end <= at + slack_ns for end, at in zip(ends, seen, strict=True)),
    ]


def nobody_waits() -> list[Any]:
    """Everything but reading goes on beside a stream that stands still, its logger's close included."""
    gate = device.hold()
    with recording(flush_interval=0.01, device_timeout=0.05) as (logger, _):
        for _ in range(100):
            with logger.record_device_operation("FORWARD"):
                device.spin(0)
        flushed = logger.flush(timeout=0.05)
    held = not mark().query()
    gate.open()
    device.synchronize()
    return [flushed, held]


def full_stream() -> list[Any]:
    """A mark in a full stream would hold the interpreter's lock, and nobody could open the gate."""
    gate = device.hold()
    with recording() as (logger, rows):
        for _ in range(2 * MOST_INTERVALS):
            with logger.record_device_operation("FORWARD"):
                pass
        gate.open()
        found = [row.status for row in rows()]
        full = _clocks(logger)["full"]
        with logger.record_device_operation("FORWARD"):
            pass
        return [found.count("ok"), found.count("unresolved"), full, rows()[-1].status]


def pool_of_events() -> list[Any]:
    """More blocks than there are events for, in streams that all stand still."""
    streams = [Stream(device="asyncdev") for _ in range(POOL)]
    gates = []
    with recording() as (logger, rows):
        for stream in streams:
            with stream:
                gates.append(device.hold())
                for _ in range(MOST_INTERVALS - 50):
                    with logger.record_device_operation("FORWARD"):
                        pass
        for gate in gates:
            gate.open()
        statuses = [row.status for row in rows()]
        clock = _clocks(logger)
    asked = POOL * (MOST_INTERVALS - 50)
    return [
        clock["event_pairs"] <= PAIRS_PER_DEVICE,
        clock["exhausted"] >= asked - PAIRS_PER_DEVICE,
        statuses.count("ok") + clock["exhausted"] == asked,
    ]


def _tasks_captured(block: Callable[[], None]) -> int:
    with device.capture() as tasks:
        block()
    return tasks[0]


def capture() -> list[Any]:
    """A block inside of a capture adds nothing to the graph, and asking about others does not break it."""
    device.synchronize()
    with recording(flush_interval=0.005) as (logger, rows):
        with logger.record_device_operation("BEFORE"):
            device.spin(5)

        def kernels() -> None:
            for _ in range(3):
                with logger.record_device_operation("INSIDE"):
                    device.spin(1)
            threading.Event().wait(0.05)  # the flush thread asks meanwhile

        inside = _tasks_captured(kernels)
        alone = _tasks_captured(lambda: [device.spin(1) for _ in range(3)])  # type: ignore[arg-type, return-value]
        found = [row.operation for row in rows()]
        return [inside == alone, found, _clocks(logger)["captured"]]


def forked_child() -> list[Any]:
    """It has no device: its blocks are timed by the host's clock."""
    with recording() as (logger, rows):
        with logger.record_device_operation("FORWARD"):
            device.spin(1)
        rows()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        with recording() as (child, _):
            with child.record_device_operation("FORWARD") as span:
                pass
            os.write(write, f"{type(span.interval).__name__} {span.elapsed_ms >= 0}".encode())
        os._exit(0)
    os.close(write)
    said = os.read(read, 100).decode()
    os.waitpid(pid, 0)
    return said.split()


if __name__ == "__main__":
    run(globals())

"""On one process: what timing does with a device, and what it leaves alone."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _recordings import mark, ms, recording
from _scenarios import run
from torch import Stream

from timing_logger import TimingLogger, read_timings
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.device.devices import MOST_INTERVALS, PAIRS_PER_DEVICE
from timing_logger.recording.device.intervals import open_interval

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


def streams() -> list[Any]:
    """Of blocks in the current stream, in one given beside it, in one left meanwhile, and of the host."""
    current, side = device.current_stream(), Stream()
    with recording() as (logger, rows):
        gate = device.hold()
        with logger.record_device_operation("GIVEN", stream=side):
            pass
        given = logger.flush()  # the other one stands still
        held = not mark().query()
        gate.open()
        with logger.record_device_operation("LEFT"):
            device.set_stream(side)
        with logger.record_device_operation("CURRENT"):
            pass
        interval = open_interval()
        device.set_stream(current)
        assert interval is not None
        interval.end()
        start, end, clock = interval.columns
        logger.record_interval("REGION", start, end, clock=clock)
        with logger.record_mpi_operation("ALLREDUCE"):
            pass
        names = {f"asyncdev:0/{current.stream_id}": "current", f"asyncdev:0/{side.stream_id}": "side"}
        found = {row.operation: names.get(row.stream, row.stream) for row in rows()}
    return [given, held, found]


def device_left_meanwhile() -> list[Any]:
    """A block that leaves another device current."""
    with recording() as (logger, rows):
        with logger.record_device_operation("FORWARD"):
            device.spin(5)
            device.set_device(1)
        (row,) = rows()
    device.set_device(0)
    return [row.status, row.stream, ms(row) >= 5]


def order_of_rows() -> list[Any]:
    """A stream that comes half way: what is there by then, and in the end."""
    with recording() as (logger, rows):
        first = device.hold()
        for number in range(50):
            if number == 25:
                second = device.hold()
            with logger.record_device_operation("FORWARD", iteration=number):
                device.spin(0)
        first.open()
        while logger.stats.written < 25:
            logger.flush(timeout=0.05)
        logger.flush(timeout=0.05)
        half = logger.stats.written
        second.open()
        return [half, [row.iteration for row in rows()]]


def reading() -> list[bool]:
    """It waits for the block's end, and for nothing behind it."""
    with recording() as (logger, _):
        gate = device.hold()
        with logger.record_device_operation("FORWARD") as span:
            device.spin(20)
            inside = math.isnan(span.elapsed_ms)
        gate.open()
        gate = device.hold()
        found = [inside, span.elapsed_ms >= 20, not mark().query()]
        gate.open()
    return found


def flush_and_the_host() -> list[Any]:
    """Rows of the host are written while those of the device are waited for, and flush says which came."""
    with recording() as (logger, rows):
        gate = device.hold()
        with logger.record_device_operation("FORWARD"):
            pass
        with logger.record_mpi_operation("ALLREDUCE"):
            pass
        flushed, stats = logger.flush(timeout=0.05), logger.stats
        early = [stats.accepted, stats.written, stats.dropped, stats.pending]
        threading.Timer(0.05, gate.open).start()
        return [flushed, early, [row.operation for row in rows()]]


def flush_and_what_came_after_it() -> list[Any]:
    with recording() as (logger, _):
        first = device.hold()
        with logger.record_device_operation("FIRST"):
            pass

        def go_on() -> None:
            later.append(device.hold())
            with logger.record_device_operation("SECOND"):
                pass
            first.open()

        later: list[Any] = []
        threading.Timer(0.05, go_on).start()
        found = [logger.flush(), logger.stats.pending]
        later[0].open()
    return found


def _closed(seconds_to_wait: float, close: Callable[[Any, TimingLogger], None], name: str) -> list[Any]:
    """What is in the files after a close beside a stream that was held before it."""
    logs = Path(sys.argv[1], name)
    logger = TimingLogger(0, logs, device_timeout=seconds_to_wait)
    gate = device.hold()
    with logger.record_device_operation("FORWARD"):
        device.spin(5)
    close(gate, logger)
    row = read_timings(logs).iloc[0]
    counters = json.loads((logs / "timing-rank0.meta.json").read_text())["counters"]
    return [row.status, row.clock, bool(row.elapsed_ms >= 5), counters["written"], counters["pending"]]


def close_in_vain() -> list[Any]:
    def close(gate: Any, logger: TimingLogger) -> None:
        logger.close()
        assert not mark().query()
        gate.open()

    return _closed(0.05, close, "in vain")


def close_in_time() -> list[Any]:
    def close(gate: Any, logger: TimingLogger) -> None:
        threading.Timer(0.05, gate.open).start()
        logger.close()

    return _closed(60.0, close, "in time")


def full_stream() -> list[Any]:
    """A mark in a full stream would hold the interpreter's lock, and nobody could open the gate."""
    gate = device.hold()
    with recording() as (logger, rows):
        for _ in range(2 * MOST_INTERVALS):
            with logger.record_device_operation("FORWARD"):
                pass
        with Stream(), logger.record_device_operation("FORWARD"):  # there is room in another
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
    lost = statuses.count("unresolved")
    return [
        clock["event_pairs"] <= PAIRS_PER_DEVICE,
        clock["exhausted"] >= asked - PAIRS_PER_DEVICE,
        lost == clock["exhausted"] == asked - statuses.count("ok"),
    ]


def _tasks_captured(block: Callable[[], None]) -> int:
    with device.capture() as tasks:
        block()
    return tasks[0]


def capture() -> list[Any]:
    """A block inside of a capture adds nothing to the graph, and asking about others does not break it."""
    device.synchronize()
    elapsed_ms: list[float] = []
    with recording(flush_interval=0.005) as (logger, rows):
        with logger.record_device_operation("BEFORE"):
            device.spin(5)

        def kernels() -> None:
            for _ in range(3):
                with logger.record_device_operation("INSIDE") as span:
                    device.spin(1)
                elapsed_ms.append(span.elapsed_ms)
            threading.Event().wait(0.05)  # the flush thread asks meanwhile

        inside = _tasks_captured(kernels)
        alone = _tasks_captured(lambda: [device.spin(1) for _ in range(3)])  # type: ignore[arg-type, return-value]
        found = [row.operation for row in rows()]
        return [inside == alone, found, _clocks(logger)["captured"], all(map(math.isnan, elapsed_ms))]


def capture_that_begins_inside() -> list[Any]:
    """The block's end is not marked: that would be in the graph."""
    with recording() as (logger, rows):
        span = logger.record_device_operation("FORWARD")
        span.__enter__()
        tasks = _tasks_captured(lambda: span.__exit__(None, None, None))
        (row,) = rows()
        return [tasks, row.status, row.stream]


def forked_child() -> list[Any]:
    """It has no device: its blocks are timed by the host's clock, and it ends none of its parent's."""
    with recording() as (logger, rows):
        with logger.record_device_operation("FORWARD") as open_span:
            device.spin(1)
            said = _said_by_child(open_span)
        return [*said, [[row.operation, row.status] for row in rows()]]


def _said_by_child(open_span: Any) -> list[str]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        open_span.__exit__(None, None, None)
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

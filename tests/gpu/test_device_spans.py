"""The device clock on a real GPU: how exact, who waits, graph captures, the pool, failures."""

from __future__ import annotations

import itertools
import math
import statistics
import threading
import time
from pathlib import Path

import pytest
import torch
from processes import rows as rows_in
from processes import run_python
from recordings import Figure, Recording, elapsed_ms
from spinning import Known, spin

from timing_logger import TimingLogger

# -- exactness ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ms", [1, 10, 100])
def test_a_kernel_of_known_length_is_timed_within_5_percent(
    recording: Recording, figure: Figure, ms: int
) -> None:
    spin(1)
    with Known() as known, recording.logger.record_device_operation("SPIN"):
        spin(ms)
    (row,) = recording.rows
    figure(f"kernel of {known.ms:.3f} ms (torch.cuda events around it)", f"{elapsed_ms(row):.3f} ms")
    assert row.clock == "device"
    assert elapsed_ms(row) == pytest.approx(known.ms, rel=0.05)


@pytest.mark.parametrize("size_mb", [1, 16, 256])
@pytest.mark.parametrize("direction", ["H2D", "D2H"])
def test_copies_are_timed_like_the_known_copy_rate(
    recording: Recording, figure: Figure, size_mb: int, direction: str
) -> None:
    from allreduce_instrumentation import copy_to_device, copy_to_host

    on_host = torch.empty(size_mb << 20, dtype=torch.uint8, pin_memory=True)
    on_device = torch.empty_like(on_host, device="cuda")
    spin(20)  # so that copies follow one another on the device, and the host's pace is not in them
    known_ms = _copy_ms(*((on_device, on_host) if direction == "H2D" else (on_host, on_device)))
    spin(20)
    for _ in range(20):
        if direction == "H2D":
            copy_to_device(on_host, "cuda", out=on_device, non_blocking=True, timing_logger=recording.logger)
        else:
            copy_to_host(on_device, out=on_host, non_blocking=True, timing_logger=recording.logger)
    rows = recording.rows
    measured_ms = statistics.median(map(elapsed_ms, rows))
    rate, known_rate = (on_host.nbytes / ms / 1e6 for ms in (measured_ms, known_ms))
    figure(f"{direction}, {size_mb} MiB, pinned", f"{rate:.1f} GB/s; bare copies {known_rate:.1f} GB/s")
    assert {row.message_size_bytes for row in rows} == {on_host.nbytes}
    assert {(row.operation, row.clock) for row in rows} == {(direction, "device")}
    assert measured_ms == pytest.approx(known_ms, rel=0.1, abs=0.02)


def _copy_ms(target: torch.Tensor, source: torch.Tensor) -> float:
    """Of one copy, from twenty in a row."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(21)]
    target.copy_(source, non_blocking=True)
    for event in events:
        event.record()
        target.copy_(source, non_blocking=True)
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in itertools.pairwise(events))


def test_work_on_another_stream_is_timed_there(recording: Recording) -> None:
    stream = torch.cuda.Stream()
    spin(50)  # keeps the current stream busy; the other one is free
    with recording.logger.record_device_operation("SPIN", stream=stream), torch.cuda.stream(stream):
        spin(1)
    (row,) = recording.rows
    assert row.clock == "device"
    assert row.stream == f"{stream.device}/{stream.stream_id}"
    assert elapsed_ms(row) < 20


def test_a_row_states_the_stream_that_is_current(recording: Recording) -> None:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), recording.logger.record_device_operation("SPIN"):
        spin(1)
    with recording.logger.record_device_operation("SPIN"):
        spin(1)
    index = torch.cuda.current_device()
    assert [row.stream for row in recording.rows] == [f"cuda:{index}/{side.stream_id}", f"cuda:{index}/0"]


def test_a_block_that_begins_and_ends_in_different_streams_takes_nobody_else_along(
    recording: Recording,
) -> None:
    busy, free = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(busy):
        spin(100)
        span = recording.logger.record_device_operation("CROSSING")
        span.__enter__()
    with torch.cuda.stream(free):
        span.__exit__(None, None, None)
    with recording.logger.record_device_operation("NEXT"):
        spin(1)
    assert {(row.operation, row.status) for row in recording.rows} == {
        ("CROSSING", "unresolved"),
        ("NEXT", "ok"),
    }


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_block_that_leaves_another_device_current_ends_on_its_own(recording: Recording) -> None:
    try:
        with recording.logger.record_device_operation("SPIN"):
            spin(10)
            torch.cuda.set_device(1)
    finally:
        torch.cuda.set_device(0)
    assert [row.status for row in recording.rows] == ["ok"]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_rank_of_another_device_makes_no_context_on_the_first() -> None:
    run = run_python(
        """
        import torch
        from timing_logger import TimingLogger
        from timing_logger.sinks.memory import MemorySink
        torch.cuda.set_device(1)
        torch.ones(1, device="cuda")
        logger = TimingLogger(1, None, sinks=[MemorySink()])
        with logger.record_device_operation("H2D"):
            pass
        assert logger.flush()
        print(torch._C._cuda_hasPrimaryContext(0))
        """
    )
    assert run.stdout == "False\n", run.stderr


def test_starts_are_never_before_the_work_was_issued_nor_after_it_was_seen_done(
    recording: Recording, tmp_path: Path
) -> None:
    issued_and_done = []
    for _ in range(100):
        issued_ns = time.perf_counter_ns()
        with recording.logger.record_device_operation("SPIN"):
            spin(0.1)
        torch.cuda.synchronize()
        issued_and_done.append((issued_ns, time.perf_counter_ns()))
    slack_ns = 50_000
    for row, (issued_ns, done_ns) in zip(recording.rows, issued_and_done, strict=True):
        assert issued_ns - slack_ns <= row.start_ns
        assert row.end_ns is not None
        assert row.end_ns <= done_ns + slack_ns


# -- who waits ---------------------------------------------------------------------------------------


def test_the_profiler_sees_no_synchronisation(recording: Recording) -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(200):
            with recording.logger.record_device_operation("SPIN"):
                spin(0.1)
        while recording.logger.stats.pending:  # the flush thread resolves them all
            pass
    names = {event.name for event in profiler.events()}
    assert "cudaEventRecord" in names or "hipEventRecord" in names or "cudaEventRecordWithFlags" in names
    # the profiler itself ends with cudaDeviceSynchronize
    assert not {name for name in names if "Synchronize" in name and "DeviceSynchronize" not in name}


def test_a_busy_stream_holds_up_nobody(recording: Recording, figure: Figure) -> None:
    done = torch.cuda.Event()
    spin(2000)
    started_s = time.perf_counter()
    for _ in range(200):  # a stream takes about a thousand marks; then any call that queues waits
        with recording.logger.record_device_operation("NOTHING"):
            pass
    recording.logger.record_timing("SEND", 1.0)
    took_s = time.perf_counter() - started_s
    done.record()
    time.sleep(0.1)  # the flush thread looks at them many times
    assert not done.query(), "the stream was not kept busy for long enough to tell"
    figure("200 spans recorded while the stream is busy for 2 s", f"{took_s * 1e3:.1f} ms")
    assert len(recording.rows) == 201


# -- graph capture -----------------------------------------------------------------------------------


def test_captures_in_global_mode_survive_spans_and_the_flush_thread(
    recording: Recording, figure: Figure
) -> None:
    """Another thread records all the time, so that spans are unresolved while a capture is open."""
    x = torch.ones(1000, device="cuda")
    _warm_up(x)
    stop = threading.Event()
    thread = threading.Thread(target=_keep_recording, args=(recording.logger, stop))
    thread.start()
    captures, asked = 0, 0
    try:
        end_s = time.monotonic() + 5
        while time.monotonic() < end_s:
            written = recording.logger.stats.written
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="global"):
                for _ in range(200):
                    x.add_(1)
                time.sleep(0.05)
            asked += recording.logger.stats.written > written
            graph.replay()
            captures += 1
    finally:
        stop.set()
        thread.join()
    torch.cuda.synchronize()
    assert {row.status for row in recording.rows} == {"ok"}
    figure("graphs captured (global mode) while spans were recorded and resolved", f"{captures}, none broken")
    assert asked, "no span was resolved while a capture was open: this shows nothing"
    assert recording.clock.failure == ""


def _keep_recording(logger: TimingLogger, stop: threading.Event) -> None:
    with torch.cuda.stream(torch.cuda.Stream()):
        while not stop.is_set():
            with logger.record_device_operation("SPIN"):
                spin(0.1)
            time.sleep(0.001)


def test_asking_from_another_thread_without_care_breaks_a_capture() -> None:
    """The control of the test above: what it guards against is real on this device."""
    run = run_python(
        """
        import threading, torch
        x = torch.ones(1000, device="cuda")
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x.add_(1)
        torch.cuda.synchronize()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        def ask():
            try:
                event.query()
            except Exception as error:
                print("query:", type(error).__name__)
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="global"):
                x.add_(1)
                thread = threading.Thread(target=ask)
                thread.start()
                thread.join()
        except Exception as error:
            print("capture:", type(error).__name__)
        """
    )
    assert "query:" in run.stdout or "capture:" in run.stdout, run.stdout + run.stderr


def test_blocks_inside_a_capture_pass_and_are_counted(recording: Recording) -> None:
    x = torch.ones(1000, device="cuda")
    _warm_up(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="global"):
        with recording.logger.record_device_operation("FORWARD") as span:
            x.add_(1)
        assert math.isnan(span.elapsed_ms)
    with recording.logger.record_device_operation("REPLAY"):
        graph.replay()
    assert [row.operation for row in recording.rows] == ["REPLAY"]
    assert recording.clock.captured >= 1


def _warm_up(x: torch.Tensor) -> None:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x.add_(1)
    torch.cuda.synchronize()


# -- the pool, failures -------------------------------------------------------------------------------


def test_a_million_spans_need_a_constant_pool(recording: Recording, figure: Figure) -> None:
    for _ in range(1000):
        for _ in range(1000):
            with recording.logger.record_device_operation("NOTHING"):
                pass
        recording.logger.flush(timeout=60)
    clock = recording.clock
    unresolved = sum(row.status != "ok" for row in recording.rows)
    figure("event pairs made for 1,000,000 spans", str(clock.event_pairs))
    figure("of 1,000,000 spans unresolved", str(unresolved))
    assert len(recording.rows) == 1_000_000
    assert clock.event_pairs <= 4096
    assert unresolved == clock.exhausted == 0


def test_threads_on_streams_of_their_own_are_each_timed(recording: Recording) -> None:
    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(100):
                with recording.logger.record_device_operation(f"THREAD{number}"):
                    spin(0.1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = recording.rows
    assert len(rows) == 400
    assert {row.status for row in rows} == {"ok"}


def test_after_a_device_error_the_job_ends_as_it_would_have(tmp_path: Path) -> None:
    run = run_python(
        """
        import sys, torch
        from timing_logger import init_timing_logger
        logger = init_timing_logger(0, sys.argv[1], flush_interval=0.005)
        torch.cuda.synchronize()
        with logger.record_device_operation("BEFORE"):
            torch.cuda._sleep(1000)
        logger.flush()
        with logger.record_device_operation("FAILS"):
            torch.ones(10, device="cuda")[torch.tensor([99], device="cuda")]
        try:
            torch.cuda.synchronize()
        except Exception:
            pass
        with logger.record_device_operation("AFTER"):
            pass
        sys.exit(3)
        """,
        tmp_path,
    )
    assert run.returncode == 3, run.stderr
    found = {row[4]: row[16] for row in rows_in(tmp_path / "timing-rank0.csv")}
    assert found == {"BEFORE": "ok", "FAILS": "unresolved", "AFTER": "unresolved"}

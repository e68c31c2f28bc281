"""What recording costs: every way in, as a ratio to the least that timing anything can cost.

The floor is what no logger can go below in Python: two readings of ``perf_counter_ns``, one tuple,
one ``deque.append``, written inline. Each contender is timed in short turns, all of them in every
round, and the medians over the rounds are compared: on a machine whose speed drifts, ratios of one
run hold where absolute times do not.

Run it with ``make bench``.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import os
import platform
import queue
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import device_spans

from timing_logger import TimingLogger
from timing_logger.record import HOST_CLOCK, OK, format_records
from timing_logger.recording.flusher import CHUNK
from timing_logger.timers import RegionTimers
from timing_logger.timers.cuda_timers import CUDATimerCollection

CALLS = 2000
ROUNDS = 200

EMPTY = "empty method call"
DISABLED_START = "disabled CUDATimerCollection, start"

Turn = Callable[[], int]
"""A function that runs one contender CALLS times and returns the nanoseconds that it took."""


def timed(loop: Callable[[], None]) -> Turn:
    def turn() -> int:
        start_ns = time.perf_counter_ns()
        loop()
        return time.perf_counter_ns() - start_ns

    return turn


def floor() -> None:
    clock = time.perf_counter_ns
    append = deque[Any](maxlen=CALLS).append
    for _ in range(CALLS):
        start_ns = clock()
        end_ns = clock()
        append((
            3, 0, "layer1", "ALLREDUCE", "dense", 1024, start_ns, end_ns, HOST_CLOCK, "", None, None, None,
            "MainThread", OK, "", None,
        ))  # fmt: skip


def context_manager(logger: TimingLogger) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(CALLS):
            with logger.record_mpi_operation("ALLREDUCE", 1024, "layer1", "dense", 3, 0):
                pass

    return loop


def direct(logger: TimingLogger) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(CALLS):
            logger.record_timing("ALLREDUCE", 5.234, "layer1", 1024, "dense", 3, 0)

    return loop


class GuideLogger:
    """A logger of the design in the guide: a generator context manager, a dict, a queue.Queue."""

    def __init__(self) -> None:
        self.queue: queue.Queue[dict[str, Any]] = queue.Queue(maxsize=0)

    @contextlib.contextmanager
    def record_mpi_operation(
        self, operation: str, size: int, layer: str, phase: str, iteration: int, epoch: int
    ) -> Iterator[None]:
        start = time.perf_counter()
        yield
        end = time.perf_counter()
        self.queue.put({
            "timestamp": datetime.datetime.now().isoformat(), "iteration": iteration, "epoch": epoch,
            "layer_name": layer, "operation": operation, "phase": phase, "message_size_bytes": size,
            "elapsed_ms": (end - start) * 1000, "start_counter": start, "end_counter": end,
        })  # fmt: skip


def guide_design(logger: GuideLogger) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(CALLS):
            with logger.record_mpi_operation("ALLREDUCE", 1024, "layer1", "dense", 3, 0):
                pass
        logger.queue = queue.Queue()

    return loop


def barrier(communicator: Any) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(CALLS):
            communicator.Barrier()

    return loop


class Empty:
    """An object whose method is empty, which is the least that a call can cost."""

    def start(self, region: str) -> None:
        pass


def start_calls(timers: Empty | CUDATimerCollection) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(CALLS):
            timers.start("forward")

    return with_own_code(loop)


def region(timers: RegionTimers) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(CALLS):
            with timers("forward"):
                pass

    return with_own_code(loop)


def with_own_code(loop: Any) -> Callable[[], None]:
    """Return a copy of ``loop`` with its own code, as the interpreter specialises code for one class."""
    return FunctionType(loop.__code__.replace(), globals(), closure=loop.__closure__)


def measure(contenders: dict[str, Turn], between: Callable[[], object]) -> dict[str, list[float]]:
    """Return the nanoseconds per call of each contender, one value per round; ``between`` is not timed."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, turn in contenders.items():
            found[name].append(turn() / CALLS)
            between()
    return found


def cpu_timers() -> RegionTimers:
    timers = RegionTimers()
    timers("forward", timer_type="cpu")
    return timers


def contenders(on: TimingLogger, off: TimingLogger) -> dict[str, Turn]:
    chosen = {
        "floor": timed(floor),
        "disabled logger, with": timed(context_manager(off)),
        "record_mpi_operation, with": timed(context_manager(on)),
        "record_timing": timed(direct(on)),
        "the guide's design, with": timed(guide_design(GuideLogger())),
        EMPTY: timed(start_calls(Empty())),
        DISABLED_START: timed(start_calls(CUDATimerCollection(["forward"], enabled=False))),
        "disabled region_timer, with": timed(region(RegionTimers(enabled=False))),
        "region_timer(cpu), with": timed(region(cpu_timers())),
    }
    with contextlib.suppress(ImportError):
        from mpi4py import MPI

        from allreduce_instrumentation import TimedIntracomm

        chosen["bare Barrier, 1 rank"] = timed(barrier(MPI.COMM_SELF))
        chosen["TimedIntracomm.Barrier, 1 rank"] = timed(
            barrier(TimedIntracomm(MPI.COMM_SELF, timing_logger=on))
        )
    return chosen


def flusher_rows_per_second() -> float:
    """Return how many rows of a training run one core formats and writes per second: the median.

    There are as many rows as in a busy second, in chunks as the flush thread takes them.
    """
    start_ns = time.perf_counter_ns()
    rows = [
        (i // 10, 0, f"conv{i % 4}.weight (+3 more)", "ALLREDUCE", "dense", 110_280_000, start_ns + i * 1000,
         start_ns + i * 1000 + 5_234_567, HOST_CLOCK, "MPI_COMM_WORLD", 4, i, None, "AllReducer", OK, "",
         None)
        for i in range(10 * CHUNK)
    ]  # fmt: skip
    rates = []
    with tempfile.TemporaryFile() as file:
        for _ in range(50):
            before_ns = time.thread_time_ns()
            for i in range(0, len(rows), CHUNK):
                os.write(file.fileno(), format_records(rows[i : i + CHUNK], before_ns).encode())
            rates.append(len(rows) / (time.thread_time_ns() - before_ns) * 1e9)
            file.seek(0)
    return statistics.median(rates)


def import_ms() -> float:
    """Return the median time of the import in fresh interpreters, in ms, without the interpreter's start."""
    program = (
        "import time; t = time.perf_counter_ns(); import timing_logger; print(time.perf_counter_ns() - t)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True) for _ in range(7)
    ]
    return statistics.median(int(run.stdout) for run in runs) / 1e6


def print_table(found: dict[str, list[float]]) -> None:
    floors = found["floor"]
    print(f"{'per call':36} {'median ns':>10} {'x floor':>8}")
    for name, nanoseconds in found.items():
        print_row(name, nanoseconds, floors)
    if "bare Barrier, 1 rank" in found:
        pairs = zip(found["TimedIntracomm.Barrier, 1 rank"], found["bare Barrier, 1 rank"], strict=True)
        extra = [timed_ns - bare_ns for timed_ns, bare_ns in pairs]
        print_row("TimedIntracomm.Barrier minus bare", extra, floors)
    ratio = median_ratio(found[DISABLED_START], found[EMPTY])
    print(f"{'disabled start / empty method call':36} {ratio:10.2f}")


def print_row(name: str, nanoseconds: list[float], floors: list[float]) -> None:
    print(f"{name:36} {statistics.median(nanoseconds):10.0f} {median_ratio(nanoseconds, floors):8.2f}")


def median_ratio(nanoseconds: list[float], others: list[float]) -> float:
    """Return the median of the rounds' ratios of ``nanoseconds`` to ``others``."""
    return statistics.median(ns / other_ns for ns, other_ns in zip(nanoseconds, others, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="and what timing work on a GPU costs")
    options = parser.parse_args()
    print(f"{platform.python_implementation()} {platform.python_version()}")
    off = TimingLogger(0, enabled=False)
    with tempfile.TemporaryDirectory() as folder, TimingLogger(0, folder, flush_interval=3600) as on:
        gc.disable()
        # Flushed between turns, as a full queue, which drops rows, would be cheaper than a working one.
        print_table(measure(contenders(on, off), between=lambda: on.flush(60)))
        gc.enable()
        if on.stats.dropped:
            raise SystemExit("records were dropped: these figures are worthless")
    print(f"{'flusher, rows per second and core':36} {flusher_rows_per_second():10,.0f}")
    print(f"{'import timing_logger, ms':36} {import_ms():10.1f}")
    if options.gpu:
        device_spans.main()


if __name__ == "__main__":
    main()

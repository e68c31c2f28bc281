"""What recording costs: every way in, and its peers, as a ratio to the least that timing anything can cost.

The floor is what no logger can go below in Python: two readings of ``perf_counter_ns``, one tuple,
one ``deque.append``, written inline. Each contender is timed in short turns, all of them in every
round, and the medians over the rounds are compared: on a machine whose speed drifts, ratios of one
run hold where absolute times do not.

Run it with ``make bench``.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import device_spans
from _first_round import FirstRound, first_rounds
from _peers import CALLS, Contender, installed

import timing_logger
from timing_logger import TimingLogger
from timing_logger.compat import RegionTimers
from timing_logger.compat.cuda_timers import CUDATimerCollection
from timing_logger.recording.cores.channel import MOST_AT_ONCE
from timing_logger.recording.cores.chosen import new_channel
from timing_logger.schema.record import HOST_CLOCK, OK
from timing_logger.sinks.csv import CsvSink

ROUNDS = 200
LONG_CALLS, LONG_ROUNDS = 50_000, 40
"""Of turns that are so long that the flush thread is at work meanwhile."""

FLOOR = "floor"
SPAN, DIRECT = "record_mpi_operation, with", "record_timing"
BARRIER, BARE_BARRIER = "TimedIntracomm.Barrier, 1 rank", "bare Barrier, 1 rank"
EMPTY = "empty method call"
DISABLED_START = "disabled CUDATimerCollection, start"


def floor(calls: int = CALLS) -> None:
    clock = time.perf_counter_ns
    append = deque[Any](maxlen=CALLS).append
    for _ in range(calls):
        start_ns = clock()
        end_ns = clock()
        append((
            3, 0, "layer1", "ALLREDUCE", "dense", 1024, start_ns, end_ns, HOST_CLOCK, "", None, None, None,
            "MainThread", OK, "", None,
        ))  # fmt: skip


def context_manager(logger: TimingLogger, calls: int = CALLS) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(calls):
            with logger.record_mpi_operation("ALLREDUCE", 1024, "layer1", "dense", 3, 0):
                pass

    return loop


def direct(logger: TimingLogger, calls: int = CALLS) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(calls):
            logger.record_timing("ALLREDUCE", 5.234, "layer1", 1024, "dense", 3, 0)

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


def cpu_timers() -> RegionTimers:
    timers = RegionTimers()
    timers("forward", timer_type="cpu")
    return timers


def contenders(on: TimingLogger, off: TimingLogger) -> dict[str, Contender]:
    chosen = {
        FLOOR: Contender(floor),
        "disabled logger, with": Contender(context_manager(off)),
        SPAN: Contender(context_manager(on)),
        DIRECT: Contender(direct(on)),
        EMPTY: Contender(start_calls(Empty())),
        DISABLED_START: Contender(start_calls(CUDATimerCollection(["forward"], enabled=False))),
        "disabled region_timer, with": Contender(region(RegionTimers(enabled=False))),
        "region_timer(cpu), with": Contender(region(cpu_timers())),
    }
    with contextlib.suppress(ImportError):
        from mpi4py import MPI

        from allreduce_instrumentation import TimedIntracomm

        chosen[BARE_BARRIER] = Contender(barrier(MPI.COMM_SELF))
        chosen[BARRIER] = Contender(barrier(TimedIntracomm(MPI.COMM_SELF, timing_logger=on)))
    return chosen


def measure(
    chosen: dict[str, Contender], rounds: int, calls: int, between: Callable[[], object]
) -> dict[str, list[float]]:
    """Return the nanoseconds per call of each contender, one value per round; ``between`` is not timed."""
    found: dict[str, list[float]] = {name: [] for name in chosen}
    for _ in range(rounds):
        for name, contender in chosen.items():
            with contender.around():
                contender.loop()  # what ran before has filled the caches with its own
                start_ns = time.perf_counter_ns()
                contender.loop()
                found[name].append((time.perf_counter_ns() - start_ns) / calls)
            between()
    return found


def while_rows_are_written(logger: TimingLogger) -> dict[str, Contender]:
    """Return contenders of long turns, at whose beginning the flush thread is called."""

    def around() -> contextlib.AbstractContextManager[object]:
        logger.flush_soon()
        return contextlib.nullcontext()

    return {
        FLOOR: Contender(lambda: floor(LONG_CALLS), around),
        SPAN: Contender(context_manager(logger, LONG_CALLS), around),
        DIRECT: Contender(direct(logger, LONG_CALLS), around),
    }


def flusher_rows_per_second(folder: Path) -> float:
    """Return how many rows of a training run one core formats and writes per second: the median."""
    start_ns = time.perf_counter_ns()
    rows = [
        (i // 10, 0, f"conv{i % 4}.weight (+3 more)", "ALLREDUCE", "dense", 110_280_000, start_ns + i * 1000,
         start_ns + i * 1000 + 5_234_567, HOST_CLOCK, "MPI_COMM_WORLD", 4, i, None, "AllReducer", OK, "",
         None)
        for i in range(5 * MOST_AT_ONCE)
    ]  # fmt: skip
    channel, sink, rates = new_channel(len(rows)), CsvSink(folder, 0), []
    for _ in range(20):
        for row in rows:
            channel.put(row)
        before_ns = time.thread_time_ns()
        while len(channel):
            sink.write(channel.take_packed(MOST_AT_ONCE), start_ns)
            channel.release()
        rates.append(len(rows) / (time.thread_time_ns() - before_ns) * 1e9)
    sink.close()
    return statistics.median(rates)


class Beside(NamedTuple):
    """What a busy loop of Python suffers from rows that are written meanwhile.

    Attributes:
        slower: how much longer the loop takes, as a part of it.
        longest_ms: how much longer than usual its slowest piece of 10 us took, in ms.
    """

    slower: float
    longest_ms: float


def beside_the_flusher(folder: Path, per_s: int = 100_000, seconds: float = 0.5, rounds: int = 8) -> Beside:
    """Measure a loop of pieces that end with a record each, 100,000 a second: written at once, or kept."""

    def run(logger: TimingLogger) -> list[int]:
        clock, pieces, due_ns = time.perf_counter_ns, [], time.perf_counter_ns()
        for i in range(int(per_s * seconds)):
            begin_ns = clock()
            with logger.record_mpi_operation("ALLREDUCE", 1024, "layer1", "dense", i, 0):
                sum(range(250))
            pieces.append(clock() - begin_ns)
            due_ns += 10**9 // per_s
            while clock() < due_ns:
                pass
        return pieces

    slower, longest_ns = [], []
    options: dict[str, Any] = {"maxsize": int(2 * per_s * seconds)}
    with (
        TimingLogger(0, folder / "kept", flush_interval=3600, **options) as kept,
        TimingLogger(0, folder / "written", flush_interval=0.01, **options) as written,
    ):
        for _ in range(rounds):
            alone, beside = run(kept), run(written)
            slower.append(sum(beside) / sum(alone) - 1)
            longest_ns.append(max(beside) - max(alone))
            kept.flush(60)
            written.flush(60)
    return Beside(statistics.median(slower), statistics.median(longest_ns) / 1e6)


def import_ms() -> float:
    """Return the median time of the import in fresh interpreters, in ms, without the interpreter's start."""
    program = (
        "import time; t = time.perf_counter_ns(); import timing_logger; print(time.perf_counter_ns() - t)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True) for _ in range(7)
    ]
    return statistics.median(int(run.stdout) for run in runs) / 1e6


# -- printing -------------------------------------------------------------------------------------

_WIDTH = 54


def print_table(title: str, found: dict[str, list[float]]) -> None:
    floors = found[FLOOR]
    print(f"{title:{_WIDTH}} {'median ns':>10} {'x floor':>8}")
    for name, nanoseconds in found.items():
        print_row(name, nanoseconds, floors)
    if BARRIER in found:
        pairs = zip(found[BARRIER], found[BARE_BARRIER], strict=True)
        print_row("TimedIntracomm.Barrier minus bare", [timed - bare for timed, bare in pairs], floors)
    if EMPTY in found:
        ratio = median_ratio(found[DISABLED_START], found[EMPTY])
        print_figure("disabled start / empty method call", f"{ratio:.2f}")


def print_first_rounds(found: dict[str, FirstRound]) -> None:
    print(f"{'per call, until the ring has gone round once':{_WIDTH}} {'median ns':>10} {'x floor':>8}")
    for name, one in found.items():
        print_row(name, one.blocks, one.floors)
    for name, one in found.items():
        print_figure(name.replace("a timed block", "making a logger, ms"), f"{one.made_ms:.0f}")


def print_row(name: str, nanoseconds: list[float], floors: list[float]) -> None:
    print(f"{name:{_WIDTH}} {statistics.median(nanoseconds):10.0f} {median_ratio(nanoseconds, floors):8.2f}")


def print_figure(name: str, figure: str) -> None:
    print(f"{name:{_WIDTH}} {figure:>10}")


def median_ratio(nanoseconds: list[float], others: list[float]) -> float:
    """Return the median of the rounds' ratios of ``nanoseconds`` to ``others``."""
    return statistics.median(ns / other_ns for ns, other_ns in zip(nanoseconds, others, strict=True))


def draw(path: Path, found: dict[str, list[float]], peers: Collection[str]) -> None:
    """Draw how many times the floor each takes."""
    import matplotlib.pyplot as plt

    ours = (FLOOR, "disabled logger, with", SPAN, DIRECT)
    ratios = {name: median_ratio(found[name], found[FLOOR]) for name in (*ours, *peers)}
    names = sorted(ratios, key=lambda name: -ratios[name])
    figure, axes = plt.subplots(figsize=(8, 0.32 * len(names) + 0.8), layout="constrained")
    colours = ["#2f6fb0" if name in ours else "#b8b8b8" for name in names]
    bars = axes.barh(names, [ratios[name] for name in names], color=colours)
    axes.bar_label(bars, [f"{ratios[name]:.{1 if ratios[name] < 10 else 0}f}" for name in names], padding=3)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("one timed block, times the floor (two clocks, a tuple, an append)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.15)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="and what timing work on a GPU costs")
    parser.add_argument("--no-peers", action="store_true", help="only what this project does")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="a picture of the first table")
    options = parser.parse_args()
    core = timing_logger.recording_core
    print(f"{platform.python_implementation()} {platform.python_version()}, {core} core")
    off = TimingLogger(0, enabled=False)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with TimingLogger(0, folder / "quiet", flush_interval=3600) as on:
            gc.disable()
            # Flushed between turns, as a full queue, which drops rows, would be cheaper than a working one.
            peers = {} if options.no_peers else installed(folder)
            quiet = measure(contenders(on, off) | peers, ROUNDS, CALLS, between=lambda: on.flush(60))
            print_table("per call", quiet)
            written = measure(
                while_rows_are_written(on), LONG_ROUNDS, LONG_CALLS, between=lambda: on.flush(60)
            )
            print_table("per call, while rows are written", written)
            if core == "native":
                print_first_rounds(first_rounds(folder / "first", floor, context_manager))
            gc.enable()
            if on.stats.dropped:
                raise SystemExit("records were dropped: these figures are worthless")
        beside = beside_the_flusher(folder)
        print_figure("rows written per second and core", f"{flusher_rows_per_second(folder / 'rate'):,.0f}")
    print_figure("slowdown of a busy loop by 100,000 rows/s", f"{beside.slower:+.1%}")
    print_figure("longest delay of that loop, ms", f"{beside.longest_ms:.2f}")
    print_figure("import timing_logger, ms", f"{import_ms():.1f}")
    if options.draw:
        draw(options.draw, quiet, peers)
    if options.gpu:
        device_spans.main()


if __name__ == "__main__":
    main()

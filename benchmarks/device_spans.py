"""Measures what timing work on a GPU costs the thread that queues it, as a ratio to two bare marks.

The floor is the least possible cost: two ``event.record()`` calls on events that exist already. All
contenders are timed in turn, in every round, and medians of ratios are compared.

Run it with ``make bench BENCH_ARGS=--gpu`` on a machine with a GPU.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

CALLS = 500
ROUNDS = 200
TO_REACH = 1.3


def bare_marks(new_event: Callable[[], Any]) -> Callable[[], None]:
    pairs = [(new_event(), new_event()) for _ in range(CALLS)]

    def loop() -> None:
        for start, end in pairs:
            start.record()
            end.record()

    return loop


def device_spans(logger: TimingLogger) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(CALLS):
            with logger.record_device_operation("H2D", 1024, "layer1", "dense", 3, 0):
                pass

    return loop


def measure(
    contenders: dict[str, Callable[[], None]], between: Callable[[], object]
) -> dict[str, list[float]]:
    """Return the nanoseconds per call of each contender, one value per round; ``between`` is not timed."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, loop in contenders.items():
            start_ns = time.perf_counter_ns()
            loop()
            found[name].append((time.perf_counter_ns() - start_ns) / CALLS)
            between()
    return found


def compare() -> dict[str, list[float]]:
    """Return the nanoseconds per call of all contenders on the current GPU, the floor first."""
    import torch

    sink = MemorySink()
    on, off = TimingLogger(0, None, sinks=[sink], flush_interval=3600), TimingLogger(0, enabled=False)

    def between() -> None:
        torch.cuda.synchronize()
        on.flush(60)
        sink.records.clear()

    contenders = {
        "two bare marks (pooled events)": bare_marks(lambda: torch.Event("cuda", enable_timing=True)),
        "record_device_operation, with": device_spans(on),
        "disabled logger, with": device_spans(off),
    }
    for loop in contenders.values():
        loop()  # the pool is filled, torch is warm
    with on:
        return measure(contenders, between)


def ratios(found: dict[str, list[float]]) -> dict[str, float]:
    """Return for each contender the median of its ratios to the floor in the same round."""
    floors = next(iter(found.values()))
    return {
        name: statistics.median(ns / floor_ns for ns, floor_ns in zip(nanoseconds, floors, strict=True))
        for name, nanoseconds in found.items()
    }


def main() -> None:
    """Print the table, or that there is no GPU."""
    import torch

    if not torch.cuda.is_available():
        print("device spans: not measured, there is no GPU here")
        return
    found = compare()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(f"{'per call':34} {'median ns':>10} {'x marks':>8}")
    for name, ratio in ratios(found).items():
        print(f"{name:34} {statistics.median(found[name]):10.0f} {ratio:8.2f}")
    met = "met" if ratios(found)["record_device_operation, with"] <= TO_REACH else "missed"
    print(f"target: a device span at or under {TO_REACH} x two bare marks: {met}")


if __name__ == "__main__":
    main()

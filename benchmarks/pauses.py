"""Measures what rows of pauses cost where there is no pause to record: at each collection, at each import.

Turns with and without are taken one after the other in every round, so that the state of the machine affects
both alike; medians over rounds are printed. What is 0 or less in a quarter of the rounds is not told
from noise.

Run it with ``make bench``, or: python benchmarks/pauses.py; TIMING_LOGGER_CORE=python for the Python core.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import timing_logger
from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink

ROUNDS, TIMES = 100, 100
NEW_LISTS = {0: 700, 1: 7_000, 2: 70_000}
"""How many new lists are there to look through when each generation is collected."""

IMPORTS = {"a module that is there": "import json", "a module that is not": "import nowhere_at_all"}


class Measured(NamedTuple):
    """Medians in ns: without rows, and of what rows add in the same round, with its lower quartile."""

    bare_ns: float
    added_ns: float
    low_ns: float

    def __str__(self) -> str:
        shares = f"{self.added_ns:12.0f} {self.added_ns / self.bare_ns:8.1%}"
        is_noise = self.low_ns <= 0
        return f"{self.bare_ns / 1e3:10.1f} " + (f"{'not told from noise':>21}" if is_noise else shares)


def measure(turn_ns: Callable[[], float], logger: TimingLogger, rounds: int = ROUNDS) -> Measured:
    """Take turns with the rows of pauses of ``logger`` and without them, in every round in another order."""
    found = []
    for number in range(rounds + 5):
        took = {}
        for with_rows in (number % 2 == 0, number % 2 == 1):
            if with_rows:
                logger._pause_rows.begin()
            took[with_rows] = turn_ns()
            logger._pause_rows.end()
        found.append((took[False], took[True] - took[False]))
    warm = found[5:]
    added = [each for _, each in warm]
    low_ns, added_ns, _ = statistics.quantiles(added, n=4)
    return Measured(statistics.median(bare for bare, _ in warm), added_ns, low_ns)


def collection_ns(generation: int) -> float:
    """Return the nanoseconds of a collection; of several, if they are short."""
    total_ns, times = 0, TIMES if generation == 0 else 1
    for _ in range(times):
        new: list[list[object]] = [[] for _ in range(NEW_LISTS[generation])]
        start_ns = time.perf_counter_ns()
        gc.collect(generation)
        total_ns += time.perf_counter_ns() - start_ns
        del new
    return total_ns / times


def import_ns(statement: str) -> float:
    """Return the nanoseconds of an import statement."""
    code, start_ns = compile(statement, "import", "exec"), time.perf_counter_ns()
    for _ in range(TIMES):
        with suppress(ImportError):
            exec(code, {})
    return (time.perf_counter_ns() - start_ns) / TIMES


def main() -> None:
    gc.disable()
    print(f"CPython {sys.version.split()[0]}, {timing_logger.recording_core} core")
    with TimingLogger(0, log_dir=None, sinks=[MemorySink()]) as logger:
        logger.set_current_iteration(0)
        print(f"{'where there is no row':40} {'takes us':>10} {'rows add ns':>12} {'of it':>8}")
        for generation in NEW_LISTS:
            found = measure(partial(collection_ns, generation), logger, ROUNDS if generation < 2 else 20)
            print(f"{f'a collection of generation {generation}':40} {found}")
        for name, statement in IMPORTS.items():
            print(f"{f'an import of {name}':40} {measure(partial(import_ns, statement), logger)}")


if __name__ == "__main__":
    main()

"""Measures what the host's counters cost: processor time and bytes of a line, of which there is one a second.

In an idle process, and in one whose main thread computes in Python without pause.

Run it with ``make bench``, or: python benchmarks/host_counters.py [--seconds 20]
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import timing_logger
from timing_logger import TimingLogger
from timing_logger.run_info import read_sidecar

NS_PER_S, NS_PER_MS = 1e9, 1e6
SHORT_S = 3.0
MOST_BYTES, MOST_SHARE = 200, 0.001


def idle(seconds: float) -> None:
    time.sleep(seconds)


def busy(seconds: float) -> None:
    until_s = time.perf_counter() + seconds
    while time.perf_counter() < until_s:
        sum(range(1000))


class Cost(NamedTuple):
    """What the counters of one run cost: processor time in ns, and the number and bytes of its lines."""

    cpu_ns: int
    lines: int
    size_bytes: int


def cost_of(work: Callable[[float], None], seconds: float) -> Cost:
    """Return what the counters cost while ``work`` is done, as the sidecar says it at the end."""
    with tempfile.TemporaryDirectory() as folder:
        with TimingLogger(0, folder, host_counters=True):
            work(seconds)
        sidecar = read_sidecar(Path(folder) / "timing-rank0.csv")
        _, *lines = (Path(folder) / "host-rank0.csv").read_bytes().splitlines(keepends=True)
    assert sidecar is not None
    return Cost(sidecar["host_counters"]["cpu_ns"], len(lines), sum(map(len, lines)))


def measure(work: Callable[[float], None], seconds: float) -> tuple[float, float]:
    """Return the ns of processor time and the bytes of a line.

    The time is that of a long run less a short one, as finding the counters takes time, too.
    """
    short, long = cost_of(work, SHORT_S), cost_of(work, SHORT_S + seconds)
    line_ns = (long.cpu_ns - short.cpu_ns) / (long.lines - short.lines)
    return line_ns, long.size_bytes / long.lines


def main() -> None:
    parser = argparse.ArgumentParser(description="What the host's counters cost.")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    seconds = parser.parse_args().seconds
    print(f"CPython {platform.python_version()}, {timing_logger.recording_core} core, {os.cpu_count()} cores")
    print(f"{'a line of host counters':24} {'processor':>12} {'of a core':>9} {'bytes':>8}")
    met = True
    for work in (idle, busy):
        line_ns, size_bytes = measure(work, seconds)
        share = line_ns / NS_PER_S
        met = met and share < MOST_SHARE and size_bytes <= MOST_BYTES
        name = f"in a process that is {work.__name__}"
        print(f"{name:24} {line_ns / NS_PER_MS:9.2f} ms {share:9.3%} {size_bytes:8.0f}")
    outcome = "met" if met else "missed"
    print(f"target: at most {MOST_BYTES} bytes a line, under {MOST_SHARE:.1%} of a core: {outcome}")


if __name__ == "__main__":
    main()

"""Measures what the files beside a timing file cost: host counters and stack samples, for each second.

In an idle process, and in one whose main thread computes in Python without pause.

Run it with ``make bench``, or: python benchmarks/files_beside.py [--seconds 20]
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
from timing_logger.process.sidecar_files import read_sidecar
from timing_logger.schema.timing_files import HOST, STACKS, FilesBeside

NS_PER_S, NS_PER_MS = 1e9, 1e6
SHORT_S = 3.0
MOST_SHARE = 0.001


class Kind(NamedTuple):
    """A kind of file: what it is called, the logger's option, and how many bytes a second it may have."""

    name: str
    files: FilesBeside
    option: str
    most_bytes: int


KINDS = (
    Kind("host counters", HOST, "host_counters", 200),
    Kind("stack samples", STACKS, "stack_samples", 500),
)


def idle(seconds: float) -> None:
    time.sleep(seconds)


def busy(seconds: float) -> None:
    until_s = time.perf_counter() + seconds
    while time.perf_counter() < until_s:
        sum(range(1000))


class Cost(NamedTuple):
    """What the file of one run cost: processor time in ns, and its bytes without the header."""

    cpu_ns: int
    size_bytes: int


def cost_of(kind: Kind, work: Callable[[float], None], seconds: float) -> Cost:
    """Return what the file costs while ``work`` is done, as the sidecar says it at the end."""
    with tempfile.TemporaryDirectory() as folder:
        with TimingLogger(0, folder, **{kind.option: True}):
            work(seconds)
        timing_file = Path(folder) / "timing-rank0.csv"
        sidecar = read_sidecar(timing_file)
        _, *lines = kind.files.path(timing_file).read_bytes().splitlines(keepends=True)
    assert sidecar is not None
    return Cost(sidecar[kind.option]["cpu_ns"], sum(map(len, lines)))


def measure(kind: Kind, work: Callable[[float], None], seconds: float) -> tuple[float, float]:
    """Return the ns of processor time and the bytes of a second.

    They are those of a long run less a short one, as beginning takes time, too.
    """
    short, long = (cost_of(kind, work, length_s) for length_s in (SHORT_S, SHORT_S + seconds))
    return (long.cpu_ns - short.cpu_ns) / seconds, (long.size_bytes - short.size_bytes) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="What the files beside a timing file cost.")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    seconds = parser.parse_args().seconds
    print(f"CPython {platform.python_version()}, {timing_logger.recording_core} core, {os.cpu_count()} cores")
    print(f"{'in each second':48} {'processor':>12} {'of a core':>9} {'bytes':>8}")
    for kind in KINDS:
        met = True
        for work in (idle, busy):
            each_ns, size_bytes = measure(kind, work, seconds)
            share = each_ns / NS_PER_S
            met = met and share < MOST_SHARE and size_bytes <= kind.most_bytes
            name = f"{kind.name}, in a process that is {work.__name__}"
            print(f"{name:48} {each_ns / NS_PER_MS:9.2f} ms {share:9.3%} {size_bytes:8.0f}")
        outcome = "met" if met else "missed"
        print(
            f"  target: at most {kind.most_bytes} bytes a second, under {MOST_SHARE:.1%} of a core: {outcome}"
        )


if __name__ == "__main__":
    main()

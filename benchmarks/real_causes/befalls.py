"""What befalls a rank in each scenario: a function per scenario, whose docstring says it.

Each takes the rank and a source of chance that is alike on all ranks.
"""

from __future__ import annotations

import atexit
import gc
import mmap
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from real_causes.befall import COMPUTE_MS, TOKENS, VICTIM, Befall
from real_causes.computing import compute, compute_on_a_device
from real_causes.control_groups import MEMORY_BYTES, entered, swapping_out
from real_causes.device import ThrottledDevice
from real_causes.link import SHORT, SLOW, behind_link
from timing_logger import get_timing_logger

_PAGE_BYTES = 4096
_BLOCK = os.urandom(1 << 20)
_LOOKED_UP = 400  # rows, of a page each, in a step: to read half of them from a disk takes some 10 ms


def healthy(rank: int, rng: random.Random) -> Befall:
    """nothing"""
    return Befall()


# -- the interpreter ------------------------------------------------------------------------------------


def collector(rank: int, rng: random.Random) -> Befall:
    """the garbage collector stops each rank at other steps, in one of eight"""
    kept = [[number] for number in range(200_000)]
    own = random.Random(f"{rank} {rng.random()}")

    def collect() -> None:
        if kept and own.random() < 1 / 4:
            gc.collect()

    return Befall(compute=collect)


def compilation(rank: int, rng: random.Random) -> Befall:
    """one rank compiles a function anew in one of ten steps"""
    if rank != VICTIM:
        return Befall()
    own = random.Random(rng.random())

    def compile_anew() -> None:
        if own.random() < 1 / 10:
            torch._dynamo.reset()
            torch.compile(lambda x: (x * 2 + 1).sum(), backend="eager", dynamic=False)(torch.ones(4))

    compile_anew()
    return Befall(compute=compile_anew)


# -- processors -----------------------------------------------------------------------------------------


def burner(rank: int, rng: random.Random) -> Befall:
    """another process computes on one rank's core"""
    if rank != VICTIM:
        return Befall()
    core = max(os.sched_getaffinity(0))
    pinned = f"import os; os.sched_setaffinity(0, {{{core}}})"
    program = f"{pinned}\nwhile os.getppid() == {os.getpid()}: sum(range(10**5))"
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)
    atexit.register(child.kill)  # a child that was stopped would outlive this process
    child.send_signal(signal.SIGSTOP)
    return Befall(switched=lambda on: child.send_signal(signal.SIGCONT if on else signal.SIGSTOP))


def quota(rank: int, rng: random.Random) -> Befall:
    """one rank's control group may use half of a core"""
    return Befall(switched=entered("quota") if rank == VICTIM else None)


def crowd(rank: int, rng: random.Random) -> Befall:
    """four ranks share two cores"""
    return Befall()


# -- memory and disks -----------------------------------------------------------------------------------


def faults(rank: int, rng: random.Random) -> Befall:
    """one rank's memory comes from a file, page by page, as after it was swapped out"""
    if rank != VICTIM:
        return Befall()
    file = _file(16 << 20)
    memory = mmap.mmap(file, 0, prot=mmap.PROT_READ)
    memory.madvise(mmap.MADV_RANDOM)

    def touch() -> None:
        memory.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        until_s = time.perf_counter() + 0.01
        while time.perf_counter() < until_s:
            memory[_PAGE_BYTES * rng.randrange(len(memory) // _PAGE_BYTES)]

    return Befall(compute=touch)


def memory(rank: int, rng: random.Random) -> Befall:
    """one rank's embeddings do not fit into its memory: what they need in a step was swapped out before"""
    swap_out = swapping_out() if rank == VICTIM else None  # of what is allocated from here on
    table = np.ones((MEMORY_BYTES // _PAGE_BYTES, _PAGE_BYTES), np.uint8)
    drawn = np.random.default_rng(rank)

    class Embeddings(Befall):
        def exchange(self, step: int) -> None:
            with get_timing_logger().operation("EMBEDDING"):
                table[drawn.integers(0, len(table), _LOOKED_UP), 0].sum()

    return Embeddings(compute=swap_out)


def disk(rank: int, rng: random.Random) -> Befall:
    """one rank's loader reads from a disk for 10 ms"""
    if rank != VICTIM:
        return Befall()
    file, buffer = _file(64 << 20, os.O_DIRECT), mmap.mmap(-1, _PAGE_BYTES)

    def read() -> None:
        until_s = time.perf_counter() + 0.01
        while time.perf_counter() < until_s:
            os.preadv(file, [buffer], _PAGE_BYTES * rng.randrange((64 << 20) // _PAGE_BYTES))

    return Befall(load=read)


def write_back(rank: int, rng: random.Random) -> Befall:
    """one rank writes for 10 ms, and waits until the disk has it, in no row"""
    if rank != VICTIM:
        return Befall()
    file = _file(0)
    return Befall(between=lambda: _write(file, 10))


def checkpoint(rank: int, rng: random.Random) -> Befall:
    """rank 0 writes a checkpoint for 60 ms in every 40th step"""
    if rank:
        return Befall()
    file = _file(0)

    class Saves(Befall):
        def exchange(self, step: int) -> None:
            if step % 40 == 39:
                with get_timing_logger().operation("CHECKPOINT"):
                    _write(file, 60)

    return Saves()


def asleep(rank: int, rng: random.Random) -> Befall:
    """one rank's loader waits 10 ms for a service that no counter of the host shows"""
    return Befall(load=(lambda: time.sleep(0.01)) if rank == VICTIM else None)


def _file(size: int, flags: int = 0) -> int:
    """Return a file of that size, without a name, on a disk."""
    file, name = tempfile.mkstemp(dir=os.environ.get("REAL_CAUSES_DISK"))
    for start in range(0, size, 1 << 20):
        os.pwrite(file, os.urandom(1 << 20), start)
    os.fsync(file)
    opened = os.open(name, os.O_RDWR | flags)
    os.unlink(name)
    os.close(file)
    return opened


def _write(file: int, ms: float) -> None:
    """Write to a disk for some time, and wait each time until it has what was written."""
    until_s = time.perf_counter() + ms / 1e3
    while time.perf_counter() < until_s:
        os.pwrite(file, _BLOCK, 0)
        os.fsync(file)


# -- networks and devices -------------------------------------------------------------------------------


def network(rank: int, rng: random.Random) -> Befall:
    """one rank's link to the others carries 20 Mbit/s: its messages are late"""
    return Befall(switched=behind_link(SLOW) if rank == VICTIM else None)


def loss(rank: int, rng: random.Random) -> Befall:
    """one rank's link drops what its short queue cannot hold, and TCP sends it again"""
    return Befall(switched=behind_link(SHORT) if rank == VICTIM else None)


def device_clock(rank: int, rng: random.Random) -> Befall:
    """one rank's device is hot and takes 1.6 times as long; device and NVML are stand-ins"""
    if rank != VICTIM:
        return Befall()
    return ThrottledDevice(int(os.environ["LOCAL_RANK"]))


# -- work -----------------------------------------------------------------------------------------------


class _Lengths(Befall):
    """Batches of other lengths in every step, of which one rank may get more."""

    def __init__(self, rank: int, factor: float, sigma: float) -> None:
        super().__init__()
        self._rank, self._factor, self._sigma = rank, factor, sigma

    def work(self, step: int, lengths: np.random.Generator) -> float:
        drawn = np.exp(lengths.normal(0.0, self._sigma, 64))[self._rank]
        return float(round(TOKENS * drawn * (self._factor if self._rank == VICTIM else 1.0)))


def longer(rank: int, rng: random.Random) -> Befall:
    """one rank gets batches with 1.4 times the tokens"""
    return _Lengths(rank, 1.4, 0.1)


def packed(rank: int, rng: random.Random) -> Befall:
    """every rank gets batches of other lengths in every step"""
    return _Lengths(rank, 1.0, 0.4)


def experts(rank: int, rng: random.Random) -> Befall:
    """one rank's experts are sent 1.5 times the tokens, over an uneven all-to-all"""

    class Experts(Befall):
        def exchange(self, step: int) -> None:
            size = dist.get_world_size()
            drawn = np.random.default_rng([step, 7]).lognormal(0.0, 0.2, size)
            counts = [round(1000 * drawn[to] * (1.5 if to == VICTIM else 1.0)) for to in range(size)]
            given, taken = torch.ones(sum(counts)), torch.empty(size * counts[rank])
            dist.all_to_all_single(taken, given, [counts[rank]] * size, counts)
            with get_timing_logger().operation("EXPERT"):
                computes = compute if rank == VICTIM else compute_on_a_device
                computes(COMPUTE_MS * counts[rank] / 1000)
            dist.all_to_all_single(given, taken, counts, [counts[rank]] * size)

    return Experts()


SCENARIOS: dict[str, Any] = {
    one.__name__: one
    for one in (
        healthy, collector, compilation, burner, quota, crowd, faults, memory, disk, write_back, checkpoint,
        asleep, network, loss, device_clock, longer, packed, experts,
    )
}  # fmt: skip

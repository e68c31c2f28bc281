"""Measures what timing adds to one all_reduce of 4 bytes in a group of one rank: the host's share of a call.

Every contender makes a turn of calls in each round, in a random order, and is compared
with the bare turn of the same round. There are two backends: gloo, whose threads do the work; and torch's
``fake``, written in C++, which is done at once, so that what remains is the cost in Python.

Over gloo everything is measured twice: on one core, and on all of them. On several cores its threads wake
each other across cores or on the same one, as the scheduler has placed them: two equal groups differ by
tens of microseconds a call for as long as the process lives. On one core only the work itself counts.

DeepSpeed's comms logger is measured as well if it is installed (``pip install '.[bench]'``). It is emptied
after every turn, as its cost grows with what it has logged.

Run it with ``make bench``, or: python benchmarks/process_group.py
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.multiprocessing
import torch.testing._internal.distributed.fake_pg  # registers the backend
from _paired import METHOD, Estimate, estimate, shuffled

import allreduce_instrumentation
from allreduce_instrumentation.torch_distributed import TimedProcessGroup
from allreduce_instrumentation.torch_distributed.which_group import CHOSEN
from timing_logger import TimingLogger

CALLS = 50
WARM_CALLS = 5
ROUNDS = 300
TO_REACH_US = 5.0

RECORDED, NOT_RECORDED = 0, 1
"""Two iterations of a logger that records every second one."""

BARE = "bare torch"
TIMED = "timed, recorded"


class Contender(NamedTuple):
    """A way to call all_reduce; the context manager ``around`` encloses its turn and is not measured."""

    call: Callable[[torch.Tensor, bool], Any]
    around: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


class Turn(NamedTuple):
    """Microseconds per call: wall time, and processor time of the calling thread."""

    wall: float
    processor: float


def over(group: dist.ProcessGroup) -> Callable[[torch.Tensor, bool], Any]:
    return lambda tensor, async_op: dist.all_reduce(tensor, group=group, async_op=async_op)


def contenders(group: dist.ProcessGroup, logger: TimingLogger) -> dict[str, Contender]:
    """Return the contenders, all over the same untimed ``group``, so that the same threads do the work."""
    # fake works on the host as gloo does; under its own name it would be taken for a device's backend
    timed = TimedProcessGroup(group, logger, {"cpu": "gloo"})

    @contextlib.contextmanager
    def unsampled() -> Iterator[None]:
        logger.set_current_iteration(NOT_RECORDED)
        yield
        logger.set_current_iteration(RECORDED)

    return {
        BARE: Contender(over(group)),
        TIMED: Contender(over(timed)),
        "timed, iteration not recorded": Contender(over(timed), unsampled),
    }


def only_over_gloo(
    group: dist.ProcessGroup, off: dist.ProcessGroup, logger: TimingLogger
) -> dict[str, Contender]:
    """Return the contenders that need the group's backend to have a name, or make the group themselves."""

    @contextlib.contextmanager
    def instrumented() -> Iterator[None]:
        allreduce_instrumentation.instrument(logger)
        yield
        allreduce_instrumentation.uninstrument()

    return {
        "instrument(), recorded": Contender(over(group), instrumented),
        "init_process_group, logger off": Contender(over(off)),
        **deepspeed_logger(group),
    }


def deepspeed_logger(group: dist.ProcessGroup) -> dict[str, Contender]:
    """Return DeepSpeed's comms logger, at its first calls and after 1000; empty if it is not installed."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it builds
        try:
            deepspeed: Any = importlib.import_module("deepspeed.comm")
        except ImportError:
            return {}
        deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)
    timers = deepspeed.comm.timers

    def call(tensor: torch.Tensor, async_op: bool) -> Any:
        return deepspeed.all_reduce(tensor, group=group, async_op=async_op)

    def after(calls: int) -> Callable[[], contextlib.AbstractContextManager[None]]:
        @contextlib.contextmanager
        def enabled() -> Iterator[None]:
            deepspeed.configure(enabled=True, prof_all=True, verbose=False)
            timers("all_reduce").event_timers[:] = [1e-5] * calls
            yield
            deepspeed.configure(enabled=False)
            timers.get_timers().clear()
            deepspeed.comm.comms_logger.reset_data()

        return enabled

    return {
        "DeepSpeed comms logger, its first calls": Contender(call, after(0)),
        "DeepSpeed comms logger, after 1,000": Contender(call, after(1000)),
    }


def turn(contender: Contender, tensor: torch.Tensor, async_op: bool) -> Turn:
    with contender.around():
        loop(contender.call, tensor, async_op, WARM_CALLS)
        processor_ns, wall_ns = time.thread_time_ns(), time.perf_counter_ns()
        loop(contender.call, tensor, async_op, CALLS)
        wall_ns, processor_ns = time.perf_counter_ns() - wall_ns, time.thread_time_ns() - processor_ns
    return Turn(wall_ns / CALLS / 1e3, processor_ns / CALLS / 1e3)


def loop(call: Callable[[torch.Tensor, bool], Any], tensor: torch.Tensor, async_op: bool, times: int) -> None:
    if async_op:
        for _ in range(times):
            call(tensor, True).wait()
    else:
        for _ in range(times):
            call(tensor, False)


def measure(
    chosen: dict[str, Contender], async_op: bool, between: Callable[[], object]
) -> dict[str, list[Turn]]:
    """Return the turns of every contender, one per round; ``between`` is not timed."""
    tensor, generator = torch.zeros(1), random.Random(0)
    found: dict[str, list[Turn]] = {name: [] for name in chosen}
    for _ in range(ROUNDS):
        for name in shuffled(list(chosen), generator):
            found[name].append(turn(chosen[name], tensor, async_op))
            between()
    return found


def print_table(title: str, found: dict[str, list[Turn]]) -> Estimate:
    """Print the table, and return the wall time that timing adds per call, in microseconds."""
    print(f"{title:42} {'us':>8} {'adds us':>8} {'95% interval':>18} {'adds CPU us':>12}")
    added = {}
    for name, turns in found.items():
        pairs = list(zip(turns, found[BARE], strict=True))
        wall = added[name] = estimate(one.wall - bare.wall for one, bare in pairs)
        processor = estimate(one.processor - bare.processor for one, bare in pairs)
        line = f"{name:42} {statistics.median(one.wall for one in turns):8.2f}"
        if name != BARE:
            line += f" {wall.median:8.2f} {f'{wall.low:.2f} to {wall.high:.2f}':>18} {processor.median:12.2f}"
        print(line)
    return added[TIMED]


def measure_and_print(backends: Sequence[str], logger: TimingLogger, off: dist.ProcessGroup) -> None:
    def between() -> None:
        logger.flush(60)  # a full queue, which drops rows, would be cheaper than a working one

    for backend in backends:
        group = dist.new_group(backend=backend)
        chosen = contenders(group, logger)
        if backend == "gloo":
            chosen |= only_over_gloo(group, off, logger)
            if not any(name.startswith("DeepSpeed") for name in chosen):
                print("DeepSpeed's comms logger: not installed (pip install '.[bench]')")
        for async_op in (False, True):
            how = "async and wait()" if async_op else "synchronous"
            added = print_table(f"{backend}, {how}", measure(chosen, async_op, between))
            met = "met" if added.high < TO_REACH_US else "missed"
            print(f"target: {TIMED!r} adds less than {TO_REACH_US:g} us at the upper end: {met}")


class Place(NamedTuple):
    """The cores on which threads may run, and the backends measured there; no cores means no restriction."""

    name: str
    cores: set[int]
    backends: Sequence[str]


def places() -> list[Place]:
    both = ("gloo", "fake")
    if sys.platform != "linux":
        return [Place("wherever the system runs it", set(), both)]
    cores = os.sched_getaffinity(0)
    return [Place("on one core", {min(cores)}, both), Place(f"on {len(cores)} cores", cores, ("gloo",))]


def measure_at(_: int, place: Place) -> None:
    """Measure at ``place``, in a process of its own, as threads keep the cores on which they were made."""
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        if place.cores:
            os.sched_setaffinity(0, place.cores)
    off = TimingLogger(0, enabled=False)
    with tempfile.TemporaryDirectory() as folder:
        allreduce_instrumentation.init_process_group(
            "gloo",
            timing_logger=off,
            store=dist.FileStore(str(Path(folder, "store")), 1),
            rank=0,
            world_size=1,
        )
        world: Any = dist.group.WORLD
        gc.disable()
        with TimingLogger(0, folder, flush_interval=3600, record_every_n_steps=2) as logger:
            measure_and_print(place.backends, logger, world)
            if logger.stats.dropped:
                raise SystemExit("records were dropped: these figures are worthless")
        gc.enable()
        dist.destroy_process_group()


def main() -> None:
    print(f"all_reduce of 4 bytes, 1 rank, torch {torch.__version__}, timed in {CHOSEN.name};")
    print(f"{ROUNDS} rounds of {CALLS} calls each")
    print(f"adds: {METHOD}")
    for place in places():
        print(f"\n== {place.name}", flush=True)
        torch.multiprocessing.spawn(measure_at, args=(place,), nprocs=1)


if __name__ == "__main__":
    main()

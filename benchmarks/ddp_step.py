"""What timing adds to a training step of ``DistributedDataParallel``: 2 ranks, gloo, two models.

One model in one process, whose gradients are reduced in turn over the timed group, over the untimed one
inside it, and over a group in Python that does nothing but pass the call on: the least that a process
group in Python adds to a step. Short blocks of steps, one of each kind per round, in an order that is
drawn anew for every round and alike on both ranks. What is timed sets the iteration and makes its rows;
they are written after each block, by another thread, and that is measured apart.

Run it with ``make bench``, or: python benchmarks/ddp_step.py
"""

from __future__ import annotations

import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.multiprocessing
from _paired import METHOD, Estimate, estimate, shuffled
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import allreduce_instrumentation
from allreduce_instrumentation.process_group import TimedProcessGroup
from timing_logger import TimingLogger

RANKS = 2
WARM_ROUNDS = 5
TO_REACH_PERCENT = 0.5

Step = Callable[[], None]


UNTIMED, PASSED_ON, TIMED = "untimed", "passed on by Python", "timed"


class PassingGroup(TimedProcessGroup):
    """Passes on what DDP's reducer asks for."""

    def allreduce(self, *args: Any, **kwargs: Any) -> Any:
        return dist.ProcessGroup.allreduce(self.untimed, *args, **kwargs)


class Training(NamedTuple):
    """A model of equal linear layers, and how it is measured."""

    layers: int
    width: int
    batch: int
    bucket_mib: int
    steps_per_block: int
    rounds: int

    def __str__(self) -> str:
        mib = self.layers * (self.width + 1) * self.width * 4 / 2**20
        return f"{self.layers} x Linear({self.width}), {mib:.1f} MiB, batch {self.batch}"


TRAININGS = (Training(4, 64, 32, 25, 20, 300), Training(10, 512, 128, 2, 2, 150))


class Block(NamedTuple):
    """Microseconds per step: on the clock, of the process's threads, and of writing the rows after it."""

    wall: float
    processor: float
    writing: float = 0.0


Rounds = list[dict[str, Block]]


def make_step(model: DistributedDataParallel, training: Training) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(training.batch, training.width)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


def block(step: Step, steps: int, before_step: Callable[[int], object], first: int) -> Block:
    processor_ns, wall_ns = time.process_time_ns(), time.perf_counter_ns()
    for number in range(first, first + steps):
        before_step(number)
        step()
    wall_ns, processor_ns = time.perf_counter_ns() - wall_ns, time.process_time_ns() - processor_ns
    return Block(wall_ns / steps / 1e3, processor_ns / steps / 1e3)


def measure(training: Training, logger: TimingLogger) -> tuple[Rounds, float]:
    """One block of each kind per round, and the number of timed calls per step."""
    torch.manual_seed(0)
    world: Any = dist.group.WORLD
    groups = {UNTIMED: world.untimed, TIMED: world}
    groups[PASSED_ON] = PassingGroup(world.untimed, logger, {"cpu": "gloo"})
    layers = [nn.Linear(training.width, training.width) for _ in range(training.layers)]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=training.bucket_mib)
    step, steps = make_step(model, training), training.steps_per_block
    block(step, 5, int, 0)  # DDP has built its buckets anew
    generator, rounds = random.Random(0), []
    calls_before = world.timing.identity.collectives
    for first in range(0, steps * (WARM_ROUNDS + training.rounds), steps):
        found: dict[str, Block] = {}
        for kind in shuffled(list(groups), generator):
            model.reducer._update_process_group(groups[kind])
            world.untimed.barrier().wait()
            # int() of the number is what the others do instead: as long a loop
            before_step = logger.set_current_iteration if kind == TIMED else int
            found[kind] = block(step, steps, before_step, first)
            if kind == TIMED:
                found[kind] = written_after(found[kind], logger, steps)
        rounds.append(found)
    calls = world.timing.identity.collectives - calls_before
    return rounds[WARM_ROUNDS:], calls / (steps * len(rounds))


def written_after(timed: Block, logger: TimingLogger, steps: int) -> Block:
    start_ns = time.perf_counter_ns()
    logger.flush(60)
    return timed._replace(writing=(time.perf_counter_ns() - start_ns) / steps / 1e3)


def in_percent(part: Estimate, whole: float) -> str:
    share = part.in_units_of(whole / 100)
    return f"{share.median:+.2f}% ({share.low:+.2f} to {share.high:+.2f})"


def report(training: Training, rounds: Rounds, calls_per_step: float) -> None:
    untimed = [found[UNTIMED] for found in rounds]
    step_us = statistics.median(one.wall for one in untimed)
    processor_us = statistics.median(one.processor for one in untimed)
    quarter, _, three_quarters = statistics.quantiles([one.wall for one in untimed], n=4)
    print(f"{training}: {calls_per_step:.0f} timed calls per step,", end="")
    print(f" n = {len(rounds)} rounds of {training.steps_per_block} steps of each kind")
    print(
        f"  untimed step {step_us:.0f} us (half of the blocks: {quarter:.0f} to {three_quarters:.0f}),",
        end="",
    )
    print(f" {processor_us:.0f} us of CPU in all threads")
    print(f"  {'per step':22} {'adds us':>8}  {'% of the step (95% interval)':32} {'adds CPU us':>11}")
    for kind in (PASSED_ON, TIMED):
        pairs = [(found[kind], found[UNTIMED]) for found in rounds]
        added = estimate(one.wall - bare.wall for one, bare in pairs)
        processor = estimate(one.processor - bare.processor for one, bare in pairs)
        print(f"  {kind:22} {added.median:8.1f}  {in_percent(added, step_us):32} {processor.median:11.1f}")
    writing = statistics.median(found[TIMED].writing for found in rounds)
    print(f"  {'writing the rows':22} {writing:8.1f}  by another thread, not in the above")
    met = "met" if 100 * added.high / step_us < TO_REACH_PERCENT else "missed"
    print(f"  to reach: timed under {TO_REACH_PERCENT}% at the upper end: {met}")


def train(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    if platform.system() == "Linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with TimingLogger(rank, Path(folder, "rows"), world_size=RANKS, flush_interval=3600) as logger:
        store = dist.FileStore(str(Path(folder, "store")), RANKS)
        allreduce_instrumentation.init_process_group(
            "gloo", timing_logger=logger, store=store, rank=rank, world_size=RANKS
        )
        for training in TRAININGS:
            rounds, calls_per_step = measure(training, logger)
            if rank == 0:
                report(training, rounds, calls_per_step)
        if logger.stats.dropped:
            raise SystemExit("records were dropped: these figures are worthless")
        dist.destroy_process_group()


def main() -> None:
    print(f"a step of DDP, {RANKS} ranks, gloo, torch {torch.__version__}; seen from rank 0")
    print(f"adds: {METHOD}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, args=(folder,), nprocs=RANKS)


if __name__ == "__main__":
    main()

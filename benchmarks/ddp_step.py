"""What timing adds to a training step of ``DistributedDataParallel``: 2 ranks, gloo, three models.

One model in one process, whose gradients are reduced in turn over the timed group, over the untimed one
inside it, and over groups in Python that do less than timing: one that passes the call on, and one that
also has an empty function called when the work is done. Those two are the least that a process group in
Python adds to a step, and the least that anything adds which asks in Python when a bucket was reduced. The
largest model is measured without them: its steps are long, and many are needed to see so small a part.
So are groups in C++, of which more steps of a kind tell more; of these, what setting the iteration adds is
measured apart.

One step of each kind per round, in an order that is drawn anew for every round and alike on both ranks: what
is compared lies milliseconds apart, so a machine that is faster or slower for a while does not show.
What is timed sets the iteration and makes its rows; they are written between the rounds, by another thread,
and that is measured apart.

Run it with ``make bench``, or: python benchmarks/ddp_step.py [--large-rounds 600]
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.multiprocessing
from _paired import METHOD, Estimate, estimate, shuffled
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import allreduce_instrumentation
from allreduce_instrumentation.torch_distributed import TimedProcessGroup
from allreduce_instrumentation.torch_distributed.which_group import CHOSEN
from timing_logger import TimingLogger

RANKS = 2
WARM_ROUNDS = 10
ROUNDS_PER_FLUSH = 10
TO_REACH_PERCENT = 0.5

Step = Callable[[], None]


UNTIMED, PASSED_ON, TOLD, TIMED = "untimed", "passed through Python", "plus an empty callback", "timed"
SET = "the iteration alone"
WITH_ITERATION = SET, TIMED


class PassingGroup(TimedProcessGroup):
    """A group that only passes the calls of DDP's reducer on."""

    def allreduce(self, *args: Any, **kwargs: Any) -> Any:
        return dist.ProcessGroup.allreduce(self.untimed, *args, **kwargs)


class ToldGroup(TimedProcessGroup):
    """A group that passes the reducer's calls on, and has an empty function called when each is done."""

    def allreduce(self, *args: Any, **kwargs: Any) -> Any:
        work = dist.ProcessGroup.allreduce(self.untimed, *args, **kwargs)
        work.get_future().add_done_callback(id)
        return work


class Training(NamedTuple):
    """A model of equal linear layers, with the number of rounds and the groups to measure it over."""

    layers: int
    width: int
    batch: int
    bucket_mib: int
    rounds: int
    kinds: tuple[str, ...] = (UNTIMED, PASSED_ON, TOLD, TIMED)

    def __str__(self) -> str:
        mib = self.layers * (self.width + 1) * self.width * 4 / 2**20
        return (
            f"{self.layers} x Linear({self.width}), {mib:.1f} MiB in buckets of {self.bucket_mib} MiB, "
            f"batch {self.batch}"
        )


TRAININGS_IN_PYTHON = (
    Training(4, 64, 32, 25, 2000),
    Training(10, 512, 128, 2, 300),
    Training(10, 1024, 1024, 25, 60, (UNTIMED, TIMED)),
)
TRAININGS_IN_CPP = (
    Training(4, 64, 32, 25, 12000, (UNTIMED, SET, TIMED)),
    Training(10, 512, 128, 2, 7000, (UNTIMED, TIMED)),
    Training(10, 1024, 1024, 25, 60, (UNTIMED, TIMED)),
)
TRAININGS = TRAININGS_IN_CPP if CHOSEN.name == "native" else TRAININGS_IN_PYTHON


class Cost(NamedTuple):
    """What one step cost, in microseconds: wall time, and processor time of all threads of the process."""

    wall: float
    processor: float


Rounds = list[dict[str, Cost]]


def make_step(model: DistributedDataParallel, training: Training) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(training.batch, training.width)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


def cost_of(step: Step) -> Cost:
    processor_ns, wall_ns = time.process_time_ns(), time.perf_counter_ns()
    step()
    wall_ns, processor_ns = time.perf_counter_ns() - wall_ns, time.process_time_ns() - processor_ns
    return Cost(wall_ns / 1e3, processor_ns / 1e3)


class Measured(NamedTuple):
    """The result of :func:`measure`.

    Attributes:
        rounds: the cost of a step of each kind, per round.
        calls_per_step: the number of timed calls per step.
        writing_us: microseconds to write a step's rows.
    """

    rounds: Rounds
    calls_per_step: float
    writing_us: float


def measure(training: Training, logger: TimingLogger) -> Measured:
    torch.manual_seed(0)
    world: Any = dist.group.WORLD
    groups = {
        UNTIMED: world.untimed,
        SET: world.untimed,
        PASSED_ON: PassingGroup(world.untimed, logger, {"cpu": "gloo"}),
        TOLD: ToldGroup(world.untimed, logger, {"cpu": "gloo"}),
        TIMED: world,
    }
    layers = [nn.Linear(training.width, training.width) for _ in range(training.layers)]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=training.bucket_mib)
    step = make_step(model, training)
    for _ in range(5):  # by then DDP has rebuilt its buckets
        step()
    generator, rounds, writing_us = random.Random(0), [], []
    calls_before = world.timing.identity.collectives
    for number in range(WARM_ROUNDS + training.rounds):
        found: dict[str, Cost] = {}
        for kind in shuffled(training.kinds, generator):
            model.reducer._update_process_group(groups[kind])
            world.untimed.barrier().wait()
            loggers = (logger,) if kind in WITH_ITERATION else ()
            found[kind] = cost_of(partial(step_of_iteration, loggers, number, step))
        rounds.append(found)
        if number % ROUNDS_PER_FLUSH == 0:
            start_ns = time.perf_counter_ns()
            logger.flush(60)
            writing_us.append((time.perf_counter_ns() - start_ns) / ROUNDS_PER_FLUSH / 1e3)
    calls = world.timing.identity.collectives - calls_before
    return Measured(rounds[WARM_ROUNDS:], calls / len(rounds), statistics.median(writing_us))


def step_of_iteration(loggers: Iterable[TimingLogger], number: int, step: Step) -> None:
    for logger in loggers:
        logger.set_current_iteration(number)
    step()


def in_percent(part: Estimate, whole: float) -> str:
    share = part.in_units_of(whole / 100)
    return f"{share.median:+.2f}% ({share.low:+.2f} to {share.high:+.2f})"


def report(training: Training, measured: Measured) -> None:
    rounds, calls = measured.rounds, measured.calls_per_step
    untimed = [found[UNTIMED] for found in rounds]
    step_us = statistics.median(one.wall for one in untimed)
    processor_us = statistics.median(one.processor for one in untimed)
    quarter, _, three_quarters = statistics.quantiles([one.wall for one in untimed], n=4)
    print(f"{training}: {calls:.0f} timed calls per step, n = {len(rounds)} steps of each kind")
    print(
        f"  untimed step {step_us:.0f} us (middle half: {quarter:.0f} to {three_quarters:.0f}),",
        f"{processor_us:.0f} us of CPU in all threads",
    )
    print(f"  {'per step':22} {'adds us':>8}  {'% of the step (95% interval)':32} {'adds CPU us':>11}")
    for kind in training.kinds[1:]:
        pairs = [(found[kind], found[UNTIMED]) for found in rounds]
        added = estimate(one.wall - bare.wall for one, bare in pairs)
        processor = estimate(one.processor - bare.processor for one, bare in pairs)
        print(f"  {kind:22} {added.median:8.1f}  {in_percent(added, step_us):32} {processor.median:11.1f}")
    print(f"  {'writing the rows':22} {measured.writing_us:8.1f}  by another thread, not included above")
    met = "met" if 100 * added.high / step_us < TO_REACH_PERCENT else "missed"
    print(f"  target: timed adds under {TO_REACH_PERCENT}% at the upper end: {met}")


def train(rank: int, folder: str, trainings: Sequence[Training]) -> None:
    torch.set_num_threads(1)
    if platform.system() == "Linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with TimingLogger(rank, Path(folder, "rows"), world_size=RANKS, flush_interval=3600) as logger:
        store = dist.FileStore(str(Path(folder, "store")), RANKS)
        allreduce_instrumentation.init_process_group(
            "gloo", timing_logger=logger, store=store, rank=rank, world_size=RANKS
        )
        for training in trainings:
            measured = measure(training, logger)
            if rank == 0:
                report(training, measured)
        if logger.stats.dropped:
            raise SystemExit("records were dropped: these figures are worthless")
        dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large-rounds", type=int, default=TRAININGS[-1].rounds, help="of the largest model")
    *others, large = TRAININGS
    trainings = [*others, large._replace(rounds=parser.parse_args().large_rounds)]
    about = f"{RANKS} ranks, gloo, torch {torch.__version__}, timed in {CHOSEN.name}; measured on rank 0"
    print(f"a step of DDP, {about}")
    print(f"adds: {METHOD}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, args=(folder, trainings), nprocs=RANKS)


if __name__ == "__main__":
    main()

"""What timing adds to a training step of FSDP2: 12 layers, each sharded by itself, over gloo and ``fake``.

One model, whose parameters are gathered and whose gradients are reduced in turn over a timed group and over
the untimed one inside it: two groups of the same ranks differ by more than timing adds. One step over each a
round, in an order that is drawn anew every time, alike on both ranks.

Two ranks that wait for each other on two cores vary by more than timing adds. So the same is measured of one
rank of two over torch's ``fake`` backend, which sends nothing. Groups in C++ also follow the ranges by which
FSDP2 tells profilers what it does, over whichever group: what a range takes more is measured apart.

Run it with ``make bench``, or: python benchmarks/fsdp_step.py [--rounds 600]
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from _paired import METHOD, estimate, shuffled
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.profiler import ProfilerActivity, profile, record_function
from torch.testing._internal.distributed.fake_pg import FakeStore

import allreduce_instrumentation
from allreduce_instrumentation.torch_distributed.which_group import CHOSEN
from timing_logger import TimingLogger

RANKS, LAYERS, WIDTH, BATCH = 2, 12, 64, 32
WARM_ROUNDS = 10
RANGES, REPEATS = 10_000, 9
UNTIMED, TIMED = "untimed", "timed"


def sharded(group: dist.ProcessGroup) -> nn.Module:
    model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])
    mesh = DeviceMesh.from_group(group, "cpu")
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def communicate_over(group: dist.ProcessGroup, model: Any) -> None:
    """Have all parts of a sharded model communicate over ``group`` from now on."""
    for part in model.modules():
        held = part._get_fsdp_state()._fsdp_param_group
        if held is not None:  # the model itself has no parameters of its own
            held.mesh_info.shard_process_group = group


def measure(rounds: int, logger: TimingLogger) -> tuple[dict[str, list[float]], float]:
    """Return the microseconds of the steps over each group, and the number of timed calls per step."""
    world: Any = dist.group.WORLD
    model, groups = sharded(world), {UNTIMED: world.untimed, TIMED: world}
    inputs, generator = torch.randn(BATCH, WIDTH), random.Random(0)
    found: dict[str, list[float]] = {name: [] for name in groups}
    before = world.timing.identity.collectives
    for number in range(WARM_ROUNDS + rounds):
        for name in shuffled(list(groups), generator):
            communicate_over(groups[name], model)
            world.untimed.barrier().wait()
            start_ns = time.perf_counter_ns()
            if name == TIMED:
                logger.set_current_iteration(number)
            step(model, inputs)
            found[name].append((time.perf_counter_ns() - start_ns) / 1e3)
        if number % 20 == 0:
            logger.flush(60)
            gc.collect()
    calls = (world.timing.identity.collectives - before) / (WARM_ROUNDS + rounds)
    return {name: steps[WARM_ROUNDS:] for name, steps in found.items()}, calls


def step(model: nn.Module, inputs: torch.Tensor) -> None:
    model(inputs).square().mean().backward()


def range_us() -> float:
    """Return the microseconds that a range for profilers takes while none looks: the least of some means."""
    means = []
    for _ in range(REPEATS):
        start_ns = time.perf_counter_ns()
        for _ in range(RANGES):
            with record_function("FSDP::all_gather (layers.3)"):
                pass
        means.append((time.perf_counter_ns() - start_ns) / 1e3 / RANGES)
    return min(means)


def ranges_of_a_step() -> int:
    """Return how many ranges for profilers FSDP2 makes in a step."""
    model, inputs = sharded(dist.group.WORLD), torch.randn(BATCH, WIDTH)
    step(model, inputs)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        step(model, inputs)
    return sum(event.count for event in seen.key_averages() if event.key.startswith("FSDP::"))


def report(backend: str, found: dict[str, list[float]], calls: float) -> None:
    step_us = statistics.median(found[UNTIMED])
    added = estimate(timed - bare for timed, bare in zip(found[TIMED], found[UNTIMED], strict=True))
    share = added.in_units_of(step_us / 100)
    print(
        f"{backend}: {LAYERS} x Linear({WIDTH}), batch {BATCH}, {calls:.0f} timed calls a step,",
        f"n = {len(found[TIMED])}",
    )
    print(f"  untimed step {step_us:.0f} us; timed, in {CHOSEN.name}, adds {added.median:.1f} us", end=" ")
    print(
        f"({added.low:.1f} to {added.high:.1f}), {share.median:+.2f}% ({share.low:+.2f} to {share.high:+.2f})"
    )
    of_call = added.in_units_of(calls)
    print(f"  that is {of_call.median:.1f} us a call ({of_call.low:.1f} to {of_call.high:.1f})")


def train(rank: int, folder: str, rounds: int) -> None:
    torch.set_num_threads(1)
    with TimingLogger(rank, Path(folder, "logs"), flush_interval=3600) as logger:
        allreduce_instrumentation.init_process_group(
            "gloo",
            timing_logger=logger,
            store=dist.FileStore(str(Path(folder, "store")), RANKS),
            rank=rank,
            world_size=RANKS,
        )
        gc.disable()
        found, calls = measure(rounds, logger)
        if logger.stats.dropped:
            raise SystemExit("records were dropped: these figures are worthless")
        if rank == 0:
            report("gloo, 2 ranks", found, calls)
        dist.destroy_process_group()


def train_alone(_: int, folder: str, rounds: int) -> None:
    torch.set_num_threads(1)
    bare_us = range_us()
    with TimingLogger(0, Path(folder, "alone"), flush_interval=3600) as logger:
        allreduce_instrumentation.init_process_group(
            "fake", timing_logger=logger, store=FakeStore(), rank=0, world_size=RANKS
        )
        more_us, ranges = range_us() - bare_us, ranges_of_a_step()
        gc.disable()
        report("fake, 1 rank of 2", *measure(rounds, logger))
        if CHOSEN.name == "native":
            print(
                f"  not included: {ranges * more_us:.1f} us a step, as each of FSDP2's {ranges} ranges",
                end=" ",
            )
            print(f"for profilers takes {1e3 * more_us:.0f} ns more")
        dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=600)
    rounds = parser.parse_args().rounds
    print(f"a step of FSDP2, torch {torch.__version__}; measured on rank 0")
    print(f"adds: {METHOD}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train_alone, args=(folder, rounds), nprocs=1)
        torch.multiprocessing.spawn(train, args=(folder, rounds), nprocs=RANKS)


if __name__ == "__main__":
    main()

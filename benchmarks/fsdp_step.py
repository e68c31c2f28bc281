"""What timing adds to a training step of FSDP2: 2 ranks, gloo, 12 layers, each sharded by itself.

One model, whose parameters are gathered and whose gradients are reduced in turn over a timed group and over
the untimed one inside it: two groups of the same ranks differ by more than timing adds. One step over each a
round, in an order that is drawn anew every time, alike on both ranks.

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

import allreduce_instrumentation
from allreduce_instrumentation.process_group.in_cpp.which_group import CHOSEN
from timing_logger import TimingLogger

RANKS, LAYERS, WIDTH, BATCH = 2, 12, 64, 32
WARM_ROUNDS = 10
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
            model(inputs).square().mean().backward()
            found[name].append((time.perf_counter_ns() - start_ns) / 1e3)
        if number % 20 == 0:
            logger.flush(60)
            gc.collect()
    calls = (world.timing.identity.collectives - before) / (WARM_ROUNDS + rounds)
    return {name: steps[WARM_ROUNDS:] for name, steps in found.items()}, calls


def report(found: dict[str, list[float]], calls: float) -> None:
    step_us = statistics.median(found[UNTIMED])
    added = estimate(timed - bare for timed, bare in zip(found[TIMED], found[UNTIMED], strict=True))
    share = added.in_units_of(step_us / 100)
    print(
        f"{LAYERS} x Linear({WIDTH}), batch {BATCH}: {calls:.0f} timed calls a step, n = {len(found[TIMED])}"
    )
    print(f"  untimed step {step_us:.0f} us; timed, in {CHOSEN.name}, adds {added.median:.1f} us", end=" ")
    print(
        f"({added.low:.1f} to {added.high:.1f}), {share.median:+.2f}% ({share.low:+.2f} to {share.high:+.2f})"
    )


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
            report(found, calls)
        dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=600)
    rounds = parser.parse_args().rounds
    print(f"a step of FSDP2, {RANKS} ranks, gloo, torch {torch.__version__}; measured on rank 0")
    print(f"adds: {METHOD}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, args=(folder, rounds), nprocs=RANKS)


if __name__ == "__main__":
    main()

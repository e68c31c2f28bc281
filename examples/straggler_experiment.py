"""Finds a slow rank and the ranks that wait for it, and measures what the profiler costs. On eight ranks:

mpiexec -n 8 python -m mpi4py examples/straggler_experiment.py --steps 900 --slow-rank 0

Every rank writes the times of the operations in sampled steps to cuda_events_rank_<rank>.jsonl, measured on
its device if it has one. The table is made from those files. Then the same steps run without a slow rank,
with the profiler off and on in turn.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from mpi4py import MPI
from torch import nn

from timing_logger.compat import CudaEventProfiler

BATCH, WIDTH = 32, 256
COMMON_OPERATIONS = ("host_to_device", "training_step", "all_reduce", "training_metrics")
STRAGGLER = "synthetic_straggler"
OPERATIONS = (*COMMON_OPERATIONS[:2], STRAGGLER, *COMMON_OPERATIONS[2:])
OFF = "off"
OVERHEAD_RUNS: dict[str, dict[str, int] | None] = {
    OFF: None,
    "off, once more (the noise)": None,
    "every step, flush every 10": {"record_every_n_steps": 1, "flush_every_n_steps": 10},
    "every 10th step, flush every 10": {"record_every_n_steps": 10, "flush_every_n_steps": 10},
}
LEAST = {"steps": 1, "record_every": 1, "slow_ms": 1, "blocks": 2, "block_steps": 1}

Medians = dict[str, float]
"""The median duration of each operation, in ms."""


def main() -> None:
    comm = MPI.COMM_WORLD
    options = parse_options(comm.size)
    torch.set_num_threads(1)  # the ranks share the cores: more threads would compete for them
    training = Training(comm)
    directory = Path(options.directory)
    training.run(CudaEventProfiler(), range(20))  # to warm up
    found = comm.gather(straggler_run(training, directory / "straggler", options))
    block_ms = overhead_runs(training, directory / "overhead", options)
    if found is not None:
        print(straggler_report(found, options))
        print(overhead_report(block_ms, options))


class Training:
    """Data-parallel training of one layer on random numbers: small, but each operation does real work."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm
        device = device_of(comm.rank)
        self.layer = nn.Linear(WIDTH, WIDTH, device=device)
        self.batch_on_host = torch.randn(BATCH, WIDTH)
        self.batch = torch.empty(BATCH, WIDTH, device=device)
        self.gradient_on_host = torch.empty(WIDTH, WIDTH)
        self.loss = 0.0

    def run(self, profiler: CudaEventProfiler, steps: Iterable[int], late_ms: float = 0) -> None:
        """Run ``steps`` on all ranks. Collective.

        Args:
            profiler: times the operations.
            steps: the numbers of the steps.
            late_ms: how late this rank comes to every all-reduce, in ms.
        """
        for step in steps:
            with profiler.record("host_to_device", step):
                self.batch.copy_(self.batch_on_host, non_blocking=True)
            with profiler.record("training_step", step):
                self.layer.zero_grad()
                loss = self.layer(self.batch).square().mean()
                loss.backward()
            if late_ms:
                with profiler.record(STRAGGLER, step):
                    keep_busy(late_ms)
            with profiler.record("all_reduce", step):
                self.average_gradients()
            with profiler.record("training_metrics", step):
                self.loss = 0.9 * self.loss + 0.1 * loss.item()
            profiler.maybe_flush(step)

    def average_gradients(self) -> None:
        """Replace the layer's gradient by its mean over the ranks. Collective."""
        gradient = self.layer.weight.grad
        assert gradient is not None
        self.gradient_on_host.copy_(gradient)
        self.comm.Allreduce(MPI.IN_PLACE, self.gradient_on_host.numpy())
        gradient.copy_(self.gradient_on_host.div_(self.comm.size))


def device_of(rank: int) -> torch.device:
    """Return the rank's accelerator, or the host if there is none."""
    if not torch.accelerator.is_available():
        return torch.device("cpu")
    torch.accelerator.set_device_index(rank % torch.accelerator.device_count())
    return torch.accelerator.current_accelerator() or torch.device("cpu")


def keep_busy(duration_ms: float) -> None:
    """Occupy the processor for ``duration_ms`` milliseconds."""
    until_s = time.perf_counter() + duration_ms / 1000
    while time.perf_counter() < until_s:
        pass


# -- the slow rank -------------------------------------------------------------------------------


def straggler_run(training: Training, directory: Path, options: argparse.Namespace) -> tuple[int, Medians]:
    """Run the steps with one slow rank; return this rank's number of rows, and each operation's median."""
    rank = training.comm.rank
    config = {"record_every_n_steps": options.record_every}
    with CudaEventProfiler(True, directory, rank, config) as profiler:
        late_ms = options.slow_ms if rank == options.slow_rank else 0
        training.run(profiler, range(options.steps), late_ms)
    assert profiler.path is not None
    rows = [json.loads(line) for line in profiler.path.read_text().splitlines()]
    return len(rows), medians_ms(rows)


def medians_ms(rows: Iterable[dict[str, Any]]) -> Medians:
    """Return the median duration of each operation in ``rows``."""
    durations_ms = defaultdict(list)
    for row in rows:
        durations_ms[row["name"]].append(row["duration_ms"])
    return {name: median(values) for name, values in durations_ms.items()}


def straggler_report(found: list[tuple[int, Medians]], options: argparse.Namespace) -> str:
    """Return the table of all ranks' operations; ``found``: what :func:`straggler_run` returned per rank."""
    ranks = [medians for _, medians in found]
    samples = len(range(0, options.steps, options.record_every))
    expected = [
        samples * (len(COMMON_OPERATIONS) + (rank == options.slow_rank)) for rank, _ in enumerate(ranks)
    ]
    written = [rows for rows, _ in found]
    lines = [
        f"{len(ranks)} ranks, {options.steps} steps, 1 in {options.record_every} recorded; rank "
        f"{options.slow_rank} comes {options.slow_ms:g} ms late to each all_reduce",
        "",
        f"rank   rows  expected{''.join(f'  {name:>{width(name)}}' for name in OPERATIONS)}   (median ms)",
        *(
            f"{rank:4} {written[rank]:6} {expected[rank]:9}"
            + "".join(cell(medians, name) for name in OPERATIONS)
            for rank, medians in enumerate(ranks)
        ),
        f" all {sum(written):6} {sum(expected):9}",
        "",
        finding(ranks),
    ]
    return "\n".join(lines)


def finding(ranks: list[Medians]) -> str:
    """Say which rank is slow: the one with the shortest all_reduce, as the others wait for it in theirs."""
    all_reduce_ms = [medians["all_reduce"] for medians in ranks]
    shortest = all_reduce_ms.index(min(all_reduce_ms))
    others_ms = median(ms for rank, ms in enumerate(all_reduce_ms) if rank != shortest)
    slow = ", ".join(f"rank {rank}" for rank, medians in enumerate(ranks) if STRAGGLER in medians)
    return (
        f"{STRAGGLER} is an operation of {slow}; the shortest all_reduce is that of rank {shortest}: "
        f"{all_reduce_ms[shortest]:.2f} ms,\nand {others_ms:.2f} ms on the other ranks, which wait "
        f"{others_ms - all_reduce_ms[shortest]:.2f} ms longer."
    )


def width(name: str) -> int:
    return max(8, len(name))


def cell(medians: Medians, name: str) -> str:
    value = f"{medians[name]:.3f}" if name in medians else "-"
    return f"  {value:>{width(name)}}"


# -- the overhead --------------------------------------------------------------------------------


def overhead_runs(training: Training, directory: Path, options: argparse.Namespace) -> dict[str, list[float]]:
    """Run all settings of the profiler in turn, each round in another order. Collective.

    Returns:
        The ms per step in each block, by the setting's name.
    """
    profilers = {
        name: CudaEventProfiler(
            config is not None,
            directory / name.partition(",")[0].replace(" ", "_"),
            training.comm.rank,
            config,
        )
        for name, config in OVERHEAD_RUNS.items()
    }
    block_ms: dict[str, list[float]] = {name: [] for name in profilers}
    names = list(profilers)
    for block in range(options.blocks):
        steps = range(block * options.block_steps, (block + 1) * options.block_steps)
        for name in names[block % len(names) :] + names[: block % len(names)]:
            training.comm.Barrier()
            began_s = time.perf_counter()
            training.run(profilers[name], steps)
            block_ms[name].append((time.perf_counter() - began_s) * 1000 / len(steps))
    for profiler in profilers.values():
        profiler.close()
    return block_ms


def overhead_report(block_ms: dict[str, list[float]], options: argparse.Namespace) -> str:
    """Return the table of :func:`overhead_runs`."""
    lines = [
        "",
        f"the profiler's cost: ms/step on rank 0, medians of {options.blocks} blocks of "
        f"{options.block_steps} steps, by turns;",
        "and against the block of the same round with the profiler off: the median, and the middle half",
        *(
            f"  {name:<32} {median(blocks):8.3f}{against_off(block_ms, name)}"
            for name, blocks in block_ms.items()
        ),
    ]
    return "\n".join(lines)


def against_off(block_ms: dict[str, list[float]], name: str) -> str:
    """Return by how much setting ``name`` is slower than the profiler off: median and middle half."""
    if name == OFF:
        return ""
    ratios = [ms / off_ms for ms, off_ms in zip(block_ms[name], block_ms[OFF], strict=True)]
    low, middle, high = (ratio - 1 for ratio in quantiles(ratios, n=4))
    return f"  {middle:+6.1%}  ({low:+.1%} to {high:+.1%})"


def parse_options(size: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Find a slow rank by the operations in sampled steps.")
    parser.add_argument("--steps", type=int, default=900, help="with a slow rank")
    parser.add_argument("--record-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--slow-rank", type=int, default=0)
    parser.add_argument("--slow-ms", type=float, default=10.0, help="how late it comes to each all-reduce")
    parser.add_argument("--blocks", type=int, default=40, help="blocks of steps with each overhead setting")
    parser.add_argument("--block-steps", type=int, default=30)
    parser.add_argument("--directory", default="logs/straggler", help="folder of the profiles")
    options = parser.parse_args()
    if size < 2:
        parser.error("one rank waits for nobody: start it with mpiexec -n 2 or more")
    if not 0 <= options.slow_rank < size:
        parser.error(f"argument --slow-rank: there is no rank {options.slow_rank} among {size} ranks")
    for name, least in LEAST.items():
        if not getattr(options, name) >= least:
            parser.error(f"argument --{name.replace('_', '-')}: must be at least {least}")
    return options


if __name__ == "__main__":
    main()

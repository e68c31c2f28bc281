"""What a monitor costs the training that it judges: steps of two ranks, with it and without it in turn."""

from __future__ import annotations

import os
import platform
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.multiprocessing
from _paired import METHOD, Estimate, estimate, shuffled
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import allreduce_instrumentation
from timing_logger import TimingLogger
from timing_logger.process.monitor import Monitor, MonitorProcess

RANKS = 2
TURN_S = 10.0
WITH, WITHOUT = "with", "without"


class Training(NamedTuple):
    """A model of equal linear layers."""

    layers: int
    width: int
    batch: int


TRAININGS = (Training(4, 64, 32), Training(10, 512, 96))


class Measured(NamedTuple):
    """What turns came to.

    Attributes:
        n_ranks: the number of ranks.
        apart: whether the monitor has a processor to itself, and the ranks share another one.
        n_pairs: how many pairs of turns there were.
        step_ms: how long a step takes without a monitor: the median of the turns.
        longer: the ratio of the mean steps of two turns, less one.
        monitor_share: the part of a processor that the monitor took while it was at work.
    """

    n_ranks: int
    apart: bool
    n_pairs: int
    step_ms: float
    longer: Estimate
    monitor_share: float


class Result(NamedTuple):
    """The steps of the turns, by kind, in ms on average; and the processor time that the monitor took."""

    step_ms: dict[str, list[float]]
    monitor_s: float


def measure(training: Training, n_ranks: int, pairs: int, apart: bool) -> Measured:
    """Train on so many ranks; the monitor is stopped in every other turn, and goes on in the next.

    With ``apart`` all ranks are on the first processor, and the monitor is on the second.
    """
    with tempfile.TemporaryDirectory() as folder:
        arguments = (n_ranks, folder, training, pairs, apart)
        torch.multiprocessing.spawn(_train, args=arguments, nprocs=n_ranks)
        result: Result = torch.load(Path(folder, "result"), weights_only=False)
    ratios = [a / b - 1 for a, b in zip(result.step_ms[WITH], result.step_ms[WITHOUT], strict=True)]
    share = result.monitor_s / (pairs * TURN_S)
    step_ms = float(torch.tensor(result.step_ms[WITHOUT]).median())
    return Measured(n_ranks, apart, pairs, step_ms, estimate(ratios), share)


def _train(rank: int, n_ranks: int, folder: str, training: Training, pairs: int, apart: bool) -> None:
    if apart:
        os.sched_setaffinity(0, {0})
    torch.set_num_threads(1)
    if platform.system() == "Linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    rows = Path(folder, "rows")
    with TimingLogger(rank, rows, world_size=n_ranks) as logger:
        store = dist.FileStore(str(Path(folder, "store")), n_ranks)
        allreduce_instrumentation.init_process_group(
            "gloo", timing_logger=logger, store=store, rank=rank, world_size=n_ranks
        )
        step = _steps(training, logger)
        turns = _Turns(rows, step, pairs, apart)
        result = turns.led() if rank == 0 else turns.followed()
        if result is not None:
            torch.save(result, Path(folder, "result"))
        dist.destroy_process_group()


def _steps(training: Training, logger: TimingLogger) -> Callable[[], None]:
    torch.manual_seed(0)
    layers = [nn.Linear(training.width, training.width) for _ in range(training.layers)]
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(training.batch, training.width)
    number = 0

    def step() -> None:
        nonlocal number
        logger.set_current_iteration(number)
        with logger.operation("FORWARD"):
            loss = model(inputs).square().mean()
        with logger.operation("BACKWARD"):
            loss.backward()
        with logger.operation("OPTIMIZER"):
            optimizer.step()
            optimizer.zero_grad()
        number += 1

    return step


class _Turns:
    """Turns of training, whose number of steps the first rank tells the others."""

    def __init__(self, rows: Path, step: Callable[[], None], pairs: int, apart: bool) -> None:
        self._rows, self._step, self._pairs, self._apart = rows, step, pairs, apart

    def led(self) -> Result:
        """Measure, as the first rank."""
        n_steps = self._n_steps()
        heard: list[object] = []
        monitor = MonitorProcess(Monitor().settings(str(self._rows)), heard.append)
        pid, generator = _monitor_pid(), random.Random(0)
        found: dict[str, list[float]] = {WITH: [], WITHOUT: []}
        self._turn(n_steps)  # in which the monitor starts
        if self._apart:
            _move_to_the_second_processor(pid)
        cpu_s = _cpu_s(pid)
        for _ in range(self._pairs):
            for kind in shuffled((WITH, WITHOUT), generator):
                os.kill(pid, signal.SIGCONT if kind == WITH else signal.SIGSTOP)
                found[kind].append(self._turn(n_steps))
        os.kill(pid, signal.SIGCONT)
        spent_s = _cpu_s(pid) - cpu_s
        self._say(0)
        monitor.close(30.0)
        return Result(found, spent_s)

    def followed(self) -> None:
        """Take part, as another rank."""
        while n_steps := self._say(0):
            for _ in range(n_steps):
                self._step()

    def _n_steps(self) -> int:
        """Return how many steps a turn has."""
        self._turn(20)
        return max(1, round(TURN_S / (self._turn(20) / 1000)))

    def _turn(self, n_steps: int) -> float:
        """Train for a turn; return how long a step took on average, in ms."""
        self._say(n_steps)
        began_s = time.perf_counter()
        for _ in range(n_steps):
            self._step()
        return (time.perf_counter() - began_s) / n_steps * 1000

    def _say(self, n_steps: int) -> int:
        told = torch.tensor([n_steps])
        dist.broadcast(told, 0)
        return int(told)


def _monitor_pid() -> int:
    """Return the process of the monitor."""
    search = ["pgrep", "-f", "-P", str(os.getpid()), "timing_logger.live"]
    listed = subprocess.run(search, check=True, stdout=subprocess.PIPE)
    return int(listed.stdout)


def _move_to_the_second_processor(pid: int) -> None:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {1})


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lines(found: Iterable[Measured]) -> Iterator[str]:
    """Yield a table of what monitors cost."""
    yield f"On {os.cpu_count()} cores, turns of {TURN_S:g} s; the {METHOD.replace('differences', 'ratios')}."
    yield ""
    longer = "a step takes longer, % (95% interval)"
    yield f"| ranks | the monitor | step, ms | pairs | {longer} | the monitor's core, % |"
    yield "|---|---|---|---|---|---|"
    for one in found:
        ratio, share = one.longer.in_units_of(0.01), 100 * one.monitor_share
        core = "has a core" if one.apart else "has no core"
        yield (
            f"| {one.n_ranks} | {core} | {one.step_ms:.1f} | {one.n_pairs} "
            f"| {ratio.median:+.1f} ({ratio.low:+.1f} to {ratio.high:+.1f}) | {share:.1f} |"
        )

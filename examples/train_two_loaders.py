"""Trains from two interleaved dataloaders and finds out which one is slow.

python examples/train_two_loaders.py --steps 50 --log-dir logs/two_loaders

Writes timing rows, and scalars for TensorBoard if it is installed. What concerns timing is marked in
the text; the rest is what any training script has.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from timing_logger import init_timing_logger, shutdown_timing_logger
from timing_logger.compat import RuntimeProfiler

FEATURES, CLASSES, BATCH_SIZE = 64, 10, 32
BATCHES_PER_STEP = 2
"""How many batches of each loader a step takes; their gradients are accumulated."""
VALIDATE_EVERY_N_STEPS = 10
SLOW_SAMPLE_MS = 0.3
COLUMNS = ("batch_wait", "data", "forward", "backward", "optimizer")


def main() -> None:
    options = parse_options()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    means = Means()
    logger = init_timing_logger(0, Path(options.log_dir) / "rows")  # timing
    tensorboard = tensorboard_writers(Path(options.log_dir) / "scalars")
    with RuntimeProfiler(  # timing
        [means, *tensorboard],
        dataloader_names=["main", "aux"],
        log_scalars_every_n_steps=5,
        timing_logger=logger,
    ) as profiler:
        train(profiler, options.steps)
    for writer in tensorboard:
        writer.close()
    shutdown_timing_logger()
    print(f"{profiler.global_step} steps; {logger.stats.written} rows in {logger.path}")
    for writer in tensorboard:
        print(f"scalars: tensorboard --logdir {writer.log_dir}")
    print(f"\nmeans in ms:\n{table(means)}\n\n{verdict(means, 'main', 'aux')}")


def train(profiler: RuntimeProfiler, steps: int) -> None:
    main_loader, aux_loader = profiler.wrap_all([loader(640), loader(640, SLOW_SAMPLE_MS)])  # timing
    val_loader = profiler.wrap(loader(128), "val_main", training=False)  # timing
    model = nn.Sequential(nn.Linear(FEATURES, 512), nn.ReLU(), nn.Linear(512, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    sources = [endless(main_loader), endless(aux_loader)] * BATCHES_PER_STEP
    for step in range(1, steps + 1):
        for source in sources:
            features, labels = next(source)
            with profiler.forward():  # timing: counts for the loader that this batch came from
                loss = nn.functional.cross_entropy(model(features), labels) / len(sources)
            with profiler.backward():  # timing
                loss.backward()
        with profiler.optimizer("main"):  # timing
            optimizer.step()
            optimizer.zero_grad()
        if step % VALIDATE_EVERY_N_STEPS == 0:
            validate(profiler, model, val_loader)


@torch.no_grad()
def validate(profiler: RuntimeProfiler, model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
    with profiler.validation():  # timing
        for features, labels in batches:
            with profiler.forward():  # timing
                nn.functional.cross_entropy(model(features), labels)


# -- data ------------------------------------------------------------------------------------------


class SlowToRead(Dataset[tuple[Tensor, ...]]):
    """A data set whose samples take ``delay_ms`` each, as if they were remote or slow to decode."""

    def __init__(self, samples: TensorDataset, delay_ms: float) -> None:
        self._samples = samples
        self._delay_ms = delay_ms

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        time.sleep(self._delay_ms / 1000)
        return self._samples[index]


def loader(count: int, delay_ms: float = 0.0) -> DataLoader[tuple[Tensor, ...]]:
    samples = TensorDataset(torch.randn(count, FEATURES), torch.randint(CLASSES, (count,)))
    return DataLoader(SlowToRead(samples, delay_ms) if delay_ms else samples, BATCH_SIZE, shuffle=True)


def endless(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches of one epoch after the other, without end."""
    while True:
        yield from batches


# -- what was measured -------------------------------------------------------------------------------


class Means:
    """A writer that keeps the mean of each tag's scalars."""

    def __init__(self) -> None:
        self._values: defaultdict[str, list[float]] = defaultdict(list)

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self._values[tag].append(value)

    def __getitem__(self, tag: str) -> float:
        values = self._values.get(tag, [])
        return sum(values) / len(values) if values else 0.0

    def of(self, loader: str) -> dict[str, float]:
        """Return the mean time of each column for a batch of ``loader``, in ms."""
        return {column: self[f"profile/{loader}/time_{column}_ms"] for column in COLUMNS}


def tensorboard_writers(log_dir: Path) -> list[Any]:
    """Return a list with TensorBoard's writer, which is empty if TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return []
    return [SummaryWriter(str(log_dir))]


def table(means: Means) -> str:
    lines = ["loader".ljust(20) + "".join(column.rjust(12) for column in COLUMNS)]
    for name in ("train/dl_main", "train/dl_aux", "val/dl_val_main"):
        cells = (f"{ms:.3f}" if ms else "-" for ms in means.of(name).values())
        lines.append(name.ljust(20) + "".join(cell.rjust(12) for cell in cells))
    return "\n".join(lines)


def verdict(means: Means, *names: str) -> str:
    """Say which loader takes longer to give a batch than training takes to compute with it, if any does."""
    costs = {name: means.of(f"train/dl_{name}") for name in names}
    slowest = max(names, key=lambda name: costs[name]["data"])
    data_ms = costs[slowest]["data"]
    compute_ms = costs[slowest]["forward"] + costs[slowest]["backward"]
    if data_ms <= compute_ms:
        return "No loader takes longer to give a batch than training takes to compute with it."
    return (
        f"The bottleneck is the data of '{slowest}': {data_ms:.1f} ms to get a batch, "
        f"{compute_ms:.1f} ms to compute with it."
    )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train from two loaders and say which one is slow.")
    parser.add_argument("--steps", type=int, default=50, help="optimizer steps; scalars come every 5")
    parser.add_argument("--log-dir", default="logs/two_loaders", help="folder of rows and scalars")
    options = parser.parse_args()
    if options.steps < 5:
        parser.error("argument --steps: scalars come every 5 steps, so let there be at least 5")
    return options


if __name__ == "__main__":
    main()

"""Trains for about a minute, in the middle of which one rank is slow, to be watched meanwhile. On four ranks:

timing-logger run --monitor -- torchrun --standalone --nproc-per-node 4 examples/train_live.py

Nothing here concerns timing: `timing-logger run` times the program. `make demo-live` runs it by
`watch_training.py`, which also reads what was told, as another program would.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from _text_model import Batch, TextTransformer, loss_of, random_batches, train_and_held_out_text
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

BATCH_SIZE = 2
CPU = torch.device("cpu")
LOADING_MS = 20.0
SHOWN_EVERY_S = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description="Train for a while, with one rank slow in the middle.")
    parser.add_argument("--seconds", type=float, default=70.0, help="how long to train")
    parser.add_argument("--slow-rank", type=int, default=2, metavar="RANK")
    parser.add_argument("--slow-ms", type=float, default=60.0, help="how much longer its loader then takes")
    parser.add_argument("--since", type=float, default=20.0, metavar="S", help="when it becomes slow")
    parser.add_argument("--until", type=float, default=42.0, metavar="S", help="when it is so no longer")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the ranks share the cores: more threads would compete for them
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    train(DistributedDataParallel(TextTransformer()), int(os.environ["RANK"]), options)
    dist.destroy_process_group()


class Text(IterableDataset[Batch]):
    """Batches of text, each from a disk that is slow on one rank for a while."""

    def __init__(self, rank: int, options: argparse.Namespace) -> None:
        self._rank = rank
        self._since, self._until = (options.since, options.until) if rank == options.slow_rank else (0.0, 0.0)
        self._slow_ms: float = options.slow_ms

    def __iter__(self) -> Iterator[Batch]:
        began_s = time.monotonic()
        for batch in random_batches(train_and_held_out_text()[0], BATCH_SIZE, self._rank, CPU):
            is_slow = self._since <= time.monotonic() - began_s < self._until
            time.sleep((LOADING_MS + self._slow_ms * is_slow) / 1000)
            yield batch


def train(model: DistributedDataParallel, rank: int, options: argparse.Namespace) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    goes_on, shown_s = torch.ones(1), 0.0
    dist.barrier()
    began_s = time.monotonic()
    for step, batch in enumerate(DataLoader(Text(rank, options), batch_size=None), 1):
        now_s = time.monotonic() - began_s
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        if rank == 0 and now_s - shown_s >= SHOWN_EVERY_S:
            shown_s = now_s
            print(f"  {now_s:3.0f} s: step {step}, loss {loss.item():.3f}", flush=True)
        goes_on.fill_(float(now_s < options.seconds))
        dist.all_reduce(goes_on, dist.ReduceOp.MIN)
        if not goes_on:
            break


if __name__ == "__main__":
    main()

"""Trains for about a minute, in the middle of which one rank is slow, to be watched meanwhile. On four ranks:

timing-logger run --monitor -- torchrun --standalone --nproc-per-node 4 examples/train_live.py

Nothing here concerns timing: `timing-logger run` times the program. `make demo-live` runs it by
`watch_training.py`, which also reads what was told, as another program would.
"""

from __future__ import annotations

import argparse
import os
import time

import torch
import torch.distributed as dist
from _text_model import TextTransformer, loss_of, random_batches, train_and_held_out_text
from torch.nn.parallel import DistributedDataParallel

BATCH_SIZE = 2
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


def train(model: DistributedDataParallel, rank: int, options: argparse.Namespace) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    batches = random_batches(train_and_held_out_text()[0], BATCH_SIZE, rank, torch.device("cpu"))
    goes_on, shown_s, step = torch.ones(1), 0.0, 0
    dist.barrier()
    began_s = time.monotonic()
    while goes_on:
        now_s = time.monotonic() - began_s
        is_slow = rank == options.slow_rank and options.since <= now_s < options.until
        time.sleep((LOADING_MS + options.slow_ms * is_slow) / 1000)  # as a loader that waits for a disk
        optimizer.zero_grad()
        loss = loss_of(model, next(batches))
        loss.backward()
        optimizer.step()
        step += 1
        if rank == 0 and now_s - shown_s >= SHOWN_EVERY_S:
            shown_s = now_s
            print(f"  {now_s:3.0f} s: step {step}, loss {loss.item():.3f}", flush=True)
        goes_on.fill_(float(now_s < options.seconds))
        dist.all_reduce(goes_on, dist.ReduceOp.MIN)


if __name__ == "__main__":
    main()

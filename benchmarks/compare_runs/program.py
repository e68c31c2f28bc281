"""The real training of the benchmark: DDP on gloo, with one change to it or none.

Started by ``torchrun``, under ``timing-logger run``. Arguments: the number of steps, and the change, one of
``CHANGES``.
"""

from __future__ import annotations

import gc
import sys
import time
from itertools import pairwise

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

CHANGES = ("none", "sleep", "garbage", "bytes", "rank")
"""What may be changed: nothing; 2 ms of sleep in each step; objects by the thousands, of which each 5th step
collects the garbage; a gradient that is half as large again; 4 ms of sleep in each step of the last rank."""

_SLEEP_S, _OF_RANK_S = 0.002, 0.004
_WIDTH, _BATCH = 512, 96
_GARBAGE_EVERY, _KEPT = 5, 10_000


def main(n_steps: int, change: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    is_last = dist.get_rank() == dist.get_world_size() - 1
    model = DistributedDataParallel(_model(2 * _WIDTH if change == "bytes" else 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch, target = torch.randn(_BATCH, _WIDTH), torch.randint(10, (_BATCH,))
    kept: list[list[list[int]]] = []
    for step in range(n_steps):
        if change == "sleep" or (change == "rank" and is_last):
            time.sleep(_SLEEP_S if change == "sleep" else _OF_RANK_S)
        if change == "garbage" and step % _GARBAGE_EVERY == 0:
            kept = [[[one]] for one in range(_KEPT)]  # each collection has to look at all of it
            gc.collect()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch), target)
        loss.backward()
        optimizer.step()
    del kept
    dist.destroy_process_group()


def _model(last_width: int) -> torch.nn.Module:
    widths = [_WIDTH, *[2 * _WIDTH] * 2, last_width]
    layers = [
        layer
        for before, after in pairwise(widths)
        for layer in (torch.nn.Linear(before, after), torch.nn.ReLU())
    ]
    return torch.nn.Sequential(*layers, torch.nn.Linear(last_width, 10))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

"""Under torchrun: this package's optimizer over three kinds of groups."""

from __future__ import annotations

import sys
from typing import Any

import torch.distributed as dist
from training_models import STEPS, batch, mlp, momentum, squares
from training_ways import Run, Variant, run_all

from allreduce_instrumentation import FP16, DistributedOptimizer, TopK

SMALL_BUCKETS = 2000


def optimized(compression: Any = None, allreduce: str = "dense", parts: int = 1) -> Variant:
    def variant(run: Run) -> None:
        model = mlp()
        run.watch()
        optimizer: Any = DistributedOptimizer(
            momentum(model),
            model.named_parameters(),
            dist.group.WORLD,
            run.own_logger,
            compression=None if compression is None else compression(),
            allreduce=allreduce,
            bucket_bytes=SMALL_BUCKETS,
            timeout_s=30,
        )
        for step in range(STEPS):
            run.begin_step()
            optimizer.zero_grad()
            for part in range(parts):
                loss = squares(model, *batch(step, part))
                loss.backward()
            optimizer.step()
            run.end_step(model, loss.detach())
        optimizer.stop()

    return variant


VARIANTS: dict[str, Variant] = {
    "dense": optimized(),
    "accumulated": optimized(parts=2),
    "halves": optimized(FP16),
    "topk": optimized(lambda: TopK(0.25), "topk"),
    "gtopk": optimized(lambda: TopK(0.25), "gtopk"),
}

if __name__ == "__main__":
    run_all({name: VARIANTS[name] for name in sys.argv[1:] or VARIANTS})

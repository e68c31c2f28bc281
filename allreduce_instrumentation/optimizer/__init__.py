"""``DistributedOptimizer``: any torch optimizer, stepping with the mean gradient over all ranks."""

from allreduce_instrumentation.optimizer.distributed_optimizer import (
    DEFAULT_BUCKET_BYTES,
    DistributedOptimizer,
)

__all__ = ["DEFAULT_BUCKET_BYTES", "DistributedOptimizer"]

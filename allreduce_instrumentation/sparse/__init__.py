"""All-reducers and ``DistributedOptimizer``: the mean of a tensor over the ranks, in full or sparse.

All all-reducers take the same arguments::

    mean = topk_sparse_allreduce(gradient, comm=comm, compressor=TopK(0.01), name="fc.weight")

Args:
    tensor: float16, bfloat16, float32 or float64, contiguous, not empty, finite; it is not changed.
        Length and dtype are the same on every rank.
    comm: an mpi4py intracommunicator or a ``torch.distributed.ProcessGroup``.
    compressor: ``NoCompression()`` or ``FP16()`` for dense, ``TopK(density)`` for the others; one for all
        tensors of a model, the same on every rank.
    name: the tensor's name, in the rows and for what the compressor remembers of it.
    timing_logger: where rows go. Default: the logger of a timed ``comm``, else ``get_timing_logger()``.

Returns:
    The mean, a new tensor of the shape, dtype and device of ``tensor``; the same on every rank, bit for
    bit. Values in half precision are added in float32, and the mean is rounded once.

Raises:
    ConfigurationError: an argument is wrong on this rank, or ``comm`` was freed.
    ReductionError: an entry is NaN, infinite or too large on this rank; or another rank cannot take part
        or has other arguments, and then the message names that rank and its reason. Every rank raises,
        none waits.

Each call begins with an agreement: 100 bytes per rank, in an ``ALLGATHER`` row. When a call raises, the
compressor's memory is restored to what it was before the call. But an error of MPI itself may have reached
only some ranks: the ranks are then in different states, and training should end.
"""

from __future__ import annotations

from allreduce_instrumentation.sparse.algorithms import (
    ALL_REDUCERS,
    check_compressor,
    dense_allreduce,
    gtopk_sparse_allreduce,
    topk_sparse_allreduce,
)
from allreduce_instrumentation.sparse.distributed_optimizer import DEFAULT_BUCKET_BYTES, DistributedOptimizer
from allreduce_instrumentation.sparse.oktopk import oktopk_sparse_allreduce

__all__ = [
    "ALL_REDUCERS",
    "DEFAULT_BUCKET_BYTES",
    "DistributedOptimizer",
    "check_compressor",
    "dense_allreduce",
    "gtopk_sparse_allreduce",
    "oktopk_sparse_allreduce",
    "topk_sparse_allreduce",
]

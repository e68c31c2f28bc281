"""All-reducers: the mean of a tensor over the ranks, in full or from its largest entries.

All of them take the same arguments::

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

from collections.abc import Callable

from torch import Tensor

from allreduce_instrumentation.allreducers import _call, dense, gtopk, oktopk, topk
from allreduce_instrumentation.allreducers.dense import dense_allreduce
from allreduce_instrumentation.allreducers.gtopk import gtopk_sparse_allreduce
from allreduce_instrumentation.allreducers.oktopk import oktopk_sparse_allreduce
from allreduce_instrumentation.allreducers.topk import topk_sparse_allreduce
from timing_logger.errors import ConfigurationError

__all__ = [
    "ALL_REDUCERS",
    "check_compressor",
    "dense_allreduce",
    "gtopk_sparse_allreduce",
    "oktopk_sparse_allreduce",
    "topk_sparse_allreduce",
]

ALL_REDUCERS: dict[str, Callable[..., Tensor]] = {
    "dense": dense_allreduce,
    "topk": topk_sparse_allreduce,
    "gtopk": gtopk_sparse_allreduce,
    "oktopk": oktopk_sparse_allreduce,
}
"""The all-reduce functions by their short names."""

_ALGORITHMS = {algorithm.name: algorithm for algorithm in (m.ALGORITHM for m in (dense, topk, gtopk, oktopk))}


def check_compressor(allreduce_name: str, compressor: object) -> None:
    """Check that the all-reducer ``allreduce_name`` works with ``compressor``, as each of its calls does.

    Raises:
        ConfigurationError: it does not work with it, or there is no all-reducer of that name.
    """
    if allreduce_name not in _ALGORITHMS:
        raise ConfigurationError(
            f"there is no all-reduce {allreduce_name!r}: use one of {sorted(_ALGORITHMS)}."
        )
    _call.check_compressor(_ALGORITHMS[allreduce_name], compressor)

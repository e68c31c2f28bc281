"""All-reducers: the mean of a tensor over the ranks, in full or from its largest entries.

All of them take the same arguments::

    mean = topk_sparse_allreduce(gradient, comm=comm, compressor=TopK(0.01), name="fc.weight")

Args:
    tensor: float16, bfloat16, float32 or float64, contiguous, not empty, finite; it is not changed.
        Every rank brings one of the same length and dtype.
    comm: an mpi4py intracommunicator or a ``torch.distributed.ProcessGroup``.
    compressor: ``NoCompression()`` or ``FP16()`` for dense, ``TopK(density)`` for the others; one for all
        tensors of a model, on every rank alike.
    name: of the tensor: of its rows, and of what the compressor remembers of it.
    timing_logger: where rows go; default the logger of a ``TimedIntracomm``, else ``get_timing_logger()``.

Returns:
    The mean, a new tensor of the shape, dtype and device of ``tensor``; the same on every rank, bit for
    bit. Half precision is added in float32, and rounded once.

Raises:
    ConfigurationError: an argument is wrong here, or ``comm`` was freed.
    ReductionError: an entry is NaN, infinite or too large, here; or another rank cannot take part, or
        brings something else; then it names that rank and what it said. Every rank raises, none waits.

Each call begins with an agreement: 100 bytes per rank, an ``ALLGATHER`` row. When a call raises,
the compressor remembers what it did before; an error of MPI itself, which may have reached some
ranks only, leaves the ranks apart all the same, and training should end.
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
"""The all-reducers by their short names."""

_ALGORITHMS = {algorithm.name: algorithm for algorithm in (m.ALGORITHM for m in (dense, topk, gtopk, oktopk))}


def check_compressor(allreduce_name: str, compressor: object) -> None:
    """Whether the all-reducer of that name works with ``compressor``; the calls check it as well.

    Raises:
        ConfigurationError: it does not, or there is none of that name.
    """
    if allreduce_name not in _ALGORITHMS:
        raise ConfigurationError(
            f"there is no all-reduce {allreduce_name!r}: use one of {sorted(_ALGORITHMS)}."
        )
    _call.check_compressor(_ALGORITHMS[allreduce_name], compressor)

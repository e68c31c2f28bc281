"""The all-reducers by their short names, and which compressors each of them takes."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from allreduce_instrumentation.sparse import _call, dense, gtopk, oktopk, topk
from allreduce_instrumentation.sparse.dense import dense_allreduce
from allreduce_instrumentation.sparse.gtopk import gtopk_sparse_allreduce
from allreduce_instrumentation.sparse.oktopk import oktopk_sparse_allreduce
from allreduce_instrumentation.sparse.topk import topk_sparse_allreduce
from timing_logger.errors import ConfigurationError

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

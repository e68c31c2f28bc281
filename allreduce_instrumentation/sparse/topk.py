"""``topk_sparse_allreduce``: the mean of every rank's largest entries, which all ranks gather."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor

from allreduce_instrumentation.compressors import SparseCompressor, SparsePayload
from allreduce_instrumentation.sparse._call import Algorithm, count_picked, reduce_over_ranks
from allreduce_instrumentation.sparse._transport import Transport

if TYPE_CHECKING:
    from allreduce_instrumentation._communicators import Communicator
    from timing_logger.recording.logger import TimingLogger


def topk_sparse_allreduce(
    tensor: Tensor,
    *,
    comm: Communicator,
    compressor: SparseCompressor,
    name: str,
    timing_logger: TimingLogger | None = None,
) -> Tensor:
    """Return the mean over the ranks of the entries that they picked; zero where no rank picked one.

    Each rank sends its picks, ``k`` values and ``k`` indices, to all ranks, and all add them in the order
    of the ranks. What a rank did not pick is in its residual. For arguments, result and errors see
    :mod:`allreduce_instrumentation.sparse`.
    """
    return reduce_over_ranks(ALGORITHM, tensor, comm, compressor, name, timing_logger)


def _reduce(transport: Transport, compressor: SparseCompressor, payload: SparsePayload, name: str) -> Tensor:
    values = transport.allgather(payload.values, "values")
    indices = transport.allgather(payload.indices, "indices")
    picks = [replace(payload, values=v, indices=i) for v, i in zip(values, indices, strict=True)]
    return compressor.decompress_mean(picks, transport.size)


ALGORITHM = Algorithm("topk", "sparse", SparseCompressor, "TopK(density)", _reduce, must_agree=count_picked)

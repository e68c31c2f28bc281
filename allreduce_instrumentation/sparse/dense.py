"""``dense_allreduce``: the mean over the ranks of every entry."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from allreduce_instrumentation.compressors import FP16, Compressor, DensePayload, NoCompression
from allreduce_instrumentation.sparse._call import Algorithm, reduce_over_ranks
from allreduce_instrumentation.sparse._transport import Transport

if TYPE_CHECKING:
    from allreduce_instrumentation._communicators import Communicator
    from timing_logger.recording.logger import TimingLogger


def dense_allreduce(
    tensor: Tensor,
    *,
    comm: Communicator,
    compressor: NoCompression | FP16,
    name: str,
    timing_logger: TimingLogger | None = None,
) -> Tensor:
    """Return the mean of ``tensor`` over the ranks, computed from all of its entries.

    float32 and float64 take one Allreduce. Values in half precision, the tensor's own or those of
    :class:`FP16`, travel in half precision: every rank receives its block of all ranks' entries, adds it up
    in float32 in the order of the ranks, and sends the block's mean, rounded once, to all. For arguments,
    result and errors see :mod:`allreduce_instrumentation.sparse`.
    """
    return reduce_over_ranks(ALGORITHM, tensor, comm, compressor, name, timing_logger)


def _reduce(transport: Transport, compressor: Compressor, payload: DensePayload, name: str) -> Tensor:
    halves = payload.values.element_size() == 2
    mean = _mean_of_halves(transport, payload.values) if halves else _mean(transport, payload.values)
    return compressor.decompress(replace(payload, values=mean))


def _mean(transport: Transport, values: Tensor) -> Tensor:
    return transport.allreduce(values, "").div_(transport.size)


def _mean_of_halves(transport: Transport, values: Tensor) -> Tensor:
    """Return the mean of values in half precision, added in float32, one block of them per rank."""
    # MPI cannot add half precision, and adding in half precision would lose most of the digits.
    block = -(-values.numel() // transport.size)
    padded = values.new_zeros(block * transport.size)
    padded[: values.numel()] = values
    everyone = transport.alltoall(padded, "blocks").view(transport.size, block)
    total = torch.zeros(block, dtype=torch.float32, device=values.device)
    for contribution in everyone:
        total += contribution
    means = transport.allgather(total.div_(transport.size).to(values.dtype), "means")
    return means.view(-1)[: values.numel()]


ALGORITHM = Algorithm("dense", "dense", (NoCompression, FP16), "NoCompression() or FP16()", _reduce)

"""The all-reducers ``dense``, ``topk`` and ``gtopk``, and which there are by their short names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from allreduce_instrumentation._selection import accumulation_dtype, contained
from allreduce_instrumentation.compressors import (
    FP16,
    Compressor,
    DensePayload,
    NoCompression,
    SparseCompressor,
    SparsePayload,
)
from allreduce_instrumentation.sparse import _call, oktopk
from allreduce_instrumentation.sparse._call import Algorithm, count_picked, reduce_over_ranks
from allreduce_instrumentation.sparse._transport import Transport

if TYPE_CHECKING:
    from allreduce_instrumentation._communicators import Communicator
    from timing_logger.recording.logger import TimingLogger

_ROOT = 0  # of the tree of ``gtopk``

# -- dense: the mean of every entry -------------------------------------------------------------------


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
    return reduce_over_ranks(DENSE, tensor, comm, compressor, name, timing_logger)


def _reduce_dense(transport: Transport, compressor: Compressor, payload: DensePayload, name: str) -> Tensor:
    values = payload.values
    if values.element_size() == 2:
        mean = _mean_of_halves(transport, values)
    else:
        mean = transport.allreduce(values, "").div_(transport.size)
    return compressor.decompress(replace(payload, values=mean))


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


DENSE = Algorithm("dense", "dense", (NoCompression, FP16), "NoCompression() or FP16()", _reduce_dense)

# -- topk: the mean of every rank's largest entries, which all ranks gather ---------------------------


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
    return reduce_over_ranks(TOPK, tensor, comm, compressor, name, timing_logger)


def _reduce_topk(
    transport: Transport, compressor: SparseCompressor, payload: SparsePayload, name: str
) -> Tensor:
    values = transport.allgather(payload.values, "values")
    indices = transport.allgather(payload.indices, "indices")
    picks = [replace(payload, values=v, indices=i) for v, i in zip(values, indices, strict=True)]
    return compressor.decompress_mean(picks, transport.size)


TOPK = Algorithm("topk", "sparse", SparseCompressor, "TopK(density)", _reduce_topk, must_agree=count_picked)

# -- gtopk: the mean of the largest entries, merged pairwise along a tree -----------------------------


def gtopk_sparse_allreduce(
    tensor: Tensor,
    *,
    comm: Communicator,
    compressor: SparseCompressor,
    name: str,
    timing_logger: TimingLogger | None = None,
) -> Tensor:
    """Return the mean over the ranks of the ``k`` entries that are largest in the sum of the ranks' picks.

    In round ``j`` = 0, 1, ... rank ``r`` sends its entries to rank ``r - 2**j`` if ``r`` is an odd multiple
    of ``2**j``; the receiver adds them to its own and keeps the ``k`` largest. After the last round rank 0
    has the result and broadcasts it. Picks travel in the tensor's dtype, sums of half precision in float32.
    Source: "A Distributed Synchronous SGD Algorithm with Global Top-k Sparsification", Shi et al., 2019.

    No gradient is lost: a rank's picks that are not in the result go back to its residual. If a merge drops
    a sum whose index is in the result by way of other ranks, the sum goes to the residual of the rank that
    merged. For arguments, result and errors see :mod:`allreduce_instrumentation.sparse`.
    """
    return reduce_over_ranks(GTOPK, tensor, comm, compressor, name, timing_logger)


def _reduce_gtopk(
    transport: Transport, compressor: SparseCompressor, payload: SparsePayload, name: str
) -> Tensor:
    merged, let_go = _merge_along_tree(transport, compressor, payload)
    total = _broadcast(transport, merged)
    lost = payload.only(~contained(payload.indices, total.indices))
    compressor.give_back(name, lost.indices, lost.values)
    for dropped in let_go:
        kept_elsewhere = dropped.only(contained(dropped.indices, total.indices))
        compressor.give_back(name, kept_elsewhere.indices, kept_elsewhere.values)
    return compressor.decompress_mean([total], transport.size)


def _merge_along_tree(
    transport: Transport, compressor: SparseCompressor, payload: SparsePayload
) -> tuple[SparsePayload, list[SparsePayload]]:
    """Take this rank's part in all rounds.

    Returns:
        The entries that this rank had when it sent them, or on rank 0 at the end; and those that it dropped,
        one payload per merge.
    """
    merged, let_go = payload, []
    for number, action, other in rounds(transport.rank, transport.size):
        values, indices = f"round {number} values", f"round {number} indices"
        if action == "send":
            transport.send(merged.values, other, values)
            transport.send(merged.indices, other, indices)
        else:
            dtype = _sent_dtype(payload, number, other, transport)
            theirs = replace(
                payload,
                values=transport.recv(payload.count, dtype, other, values),
                indices=transport.recv(payload.count, payload.indices.dtype, other, indices),
            )
            merged, dropped = compressor.merge([merged, theirs], payload.count)
            let_go.append(dropped)
    return merged, let_go


def rounds(rank: int, size: int) -> Iterator[tuple[int, Literal["send", "receive"], int]]:
    """Yield the steps of ``rank`` among ``size`` ranks; its send is the last one.

    Yields:
        ``(round, "send" or "receive", other rank)``.
    """
    number = 0
    while (step := 1 << number) < size:
        if rank & step:
            yield number, "send", rank - step
            return
        if rank + step < size:
            yield number, "receive", rank + step
        number += 1


def _sent_dtype(payload: SparsePayload, number: int, sender: int, transport: Transport) -> torch.dtype:
    """Return the dtype of the values that ``sender`` sends in this round: sums if it has merged before."""
    has_merged = number > 0 and sender + 1 < transport.size
    return accumulation_dtype(payload.dtype) if has_merged else payload.values.dtype


def _broadcast(transport: Transport, merged: SparsePayload) -> SparsePayload:
    """Return rank 0's payload on every rank."""
    if transport.size == 1:
        return merged
    if transport.rank != _ROOT:
        values = torch.empty(merged.count, dtype=accumulation_dtype(merged.dtype), device=transport.device)
        merged = replace(merged, values=values, indices=torch.empty_like(merged.indices))
    transport.broadcast(merged.values, _ROOT, "values")
    transport.broadcast(merged.indices, _ROOT, "indices")
    return merged


GTOPK = Algorithm(
    "gtopk", "sparse", SparseCompressor, "TopK(density)", _reduce_gtopk, must_agree=count_picked
)

# -- all of them --------------------------------------------------------------------------------------

ALL_REDUCERS: dict[str, Callable[..., Tensor]] = {
    "dense": dense_allreduce,
    "topk": topk_sparse_allreduce,
    "gtopk": gtopk_sparse_allreduce,
    "oktopk": oktopk.oktopk_sparse_allreduce,
}
"""The all-reduce functions by their short names."""

_ALGORITHMS = {algorithm.name: algorithm for algorithm in (DENSE, TOPK, GTOPK, oktopk.ALGORITHM)}


def check_compressor(allreduce_name: str, compressor: object) -> None:
    """Check that the all-reducer ``allreduce_name`` works with ``compressor``, as each of its calls does.

    Raises:
        ConfigurationError: it does not work with it, or there is no all-reducer of that name.
    """
    _call.check_compressor(_call.named(allreduce_name, _ALGORITHMS), compressor)

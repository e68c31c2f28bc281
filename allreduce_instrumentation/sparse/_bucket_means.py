"""Turns the values in a bucket into their means over the ranks: summed in full, or compressed.

Either way an Allreduce comes first that tells every rank which ranks failed and which parameters have
gradients, see :class:`~allreduce_instrumentation.sparse._buckets.Bucket`. When buckets are summed in
full, the values travel in this same Allreduce.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from allreduce_instrumentation._communicators import Communicator
from allreduce_instrumentation.compressors import Compressor, NoCompression
from allreduce_instrumentation.sparse._buckets import Bucket
from allreduce_instrumentation.sparse._transport import Ranks
from allreduce_instrumentation.sparse.by_name import ALL_REDUCERS
from timing_logger.errors import TimingLoggerError
from timing_logger.recording.logger import TimingLogger


class BucketMeans(Protocol):
    """The steps that the ``AllReducer`` takes with each bucket, on its thread.

    Attributes:
        phase: phase of the rows.
    """

    phase: str

    def prepare(self, bucket: Bucket) -> None:
        """Prepare the bucket's buffer on this rank, before any communication."""

    def first_sum(self, bucket: Bucket) -> Tensor:
        """Return the part of the buffer that the first Allreduce sums, in place."""

    def finish(self, bucket: Bucket) -> None:
        """Complete the means in the bucket, once it is known that no rank failed."""

    def leaves_ranks_apart(self, error: BaseException) -> bool:
        """Tell whether the state of the other ranks is unknown after ``error`` in :meth:`finish`."""


def bucket_means(allreduce: str, compression: Compressor, ranks: Ranks, logger: TimingLogger) -> BucketMeans:
    """Return the means for the arguments ``allreduce`` and ``compression`` of ``DistributedOptimizer``.

    Whether the all-reduce works with the compressor is for the caller to check, by ``check_compressor``.
    """
    if allreduce == "dense" and isinstance(compression, NoCompression):
        return SummedMeans(ranks.size, logger)
    phase = "dense" if allreduce == "dense" else "sparse"
    return CompressedMeans(phase, ALL_REDUCERS[allreduce], compression, ranks.comm, logger)


class SummedMeans:
    """Bucket means without compression: all values travel and are summed in full."""

    phase = "dense"

    def __init__(self, ranks: int, logger: TimingLogger) -> None:
        self._ranks = ranks
        self._logger = logger
        self._stream: torch.Stream | None = None

    def prepare(self, bucket: Bucket) -> None:
        self._stream = _own_stream(bucket, self._stream)
        if bucket.on_device is not None:
            with self._logger.record_mpi_operation("D2H", bucket.on_device.nbytes):
                bucket.summed.copy_(bucket.on_device)  # blocks until done
        bucket.set_flags()

    def first_sum(self, bucket: Bucket) -> Tensor:
        return bucket.buffer

    def finish(self, bucket: Bucket) -> None:
        bucket.summed.div_(self._ranks)
        if bucket.on_device is None:
            bucket.settle()
            return
        with self._logger.record_mpi_operation("H2D", bucket.on_device.nbytes):
            bucket.on_device.copy_(bucket.summed)
            bucket.settle()

    def leaves_ranks_apart(self, error: BaseException) -> bool:
        return False  # it does not communicate: the next bucket can tell the others


@dataclass(slots=True, eq=False)
class CompressedMeans:
    """Bucket means by an all-reducer; the first Allreduce carries the bucket's flags only.

    Attributes:
        phase: phase of the rows.
        reduce: one of ``ALL_REDUCERS``.
        compression: the compressor for ``reduce``.
        comm: the communicator to reduce over.
        logger: where the rows go.
        stream: the stream of the thread's own; None before the first bucket on a device.
    """

    phase: str
    reduce: Callable[..., Tensor]
    compression: Compressor
    comm: Communicator
    logger: TimingLogger
    stream: torch.Stream | None = None

    def prepare(self, bucket: Bucket) -> None:
        self.stream = _own_stream(bucket, self.stream)
        bucket.set_flags()

    def first_sum(self, bucket: Bucket) -> Tensor:
        return bucket.flags

    def finish(self, bucket: Bucket) -> None:
        mean = self.reduce(
            bucket.values,
            comm=self.comm,
            compressor=self.compression,
            name=bucket.name,
            timing_logger=self.logger,
        )
        bucket.values.copy_(mean)
        bucket.settle()

    def leaves_ranks_apart(self, error: BaseException) -> bool:
        return not isinstance(error, TimingLoggerError)  # those are raised on every rank alike


def _own_stream(bucket: Bucket, stream: torch.Stream | None) -> torch.Stream | None:
    """Make this thread use a stream of its own, and wait until the gradients are in the bucket.

    The default stream is full of backward's work. The wait comes first, so that it does not count as part
    of a copy.

    Args:
        bucket: the bucket; on the host nothing is done.
        stream: the stream that an earlier call returned; None to make one.

    Returns:
        The stream; None if no bucket was on a device yet.
    """
    if bucket.ready is None:
        return stream
    if stream is None:
        stream = torch.Stream(bucket.values.device)
        torch.accelerator.set_stream(stream)
    bucket.ready.synchronize()
    return stream

"""``AllReducer``: the thread that turns buckets into their means over the ranks while backward still runs.

An Allreduce comes first that tells every rank which ranks failed and which parameters have gradients, see
:class:`~allreduce_instrumentation.sparse._buckets.Bucket`. When buckets are summed in full, the values
travel in this same Allreduce; else an all-reducer of the package follows.
"""

from __future__ import annotations

import atexit
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Protocol

import torch
from torch import Tensor

from allreduce_instrumentation.compressors import Compressor, NoCompression
from allreduce_instrumentation.sparse._buckets import Bucket
from allreduce_instrumentation.sparse._transport import Ranks
from allreduce_instrumentation.sparse.algorithms import ALL_REDUCERS
from timing_logger.errors import ReductionError, TimingLoggerError
from timing_logger.recording.cores.chosen import Span
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import OK, WAIT

_WAY_OUT = "No rank trains on; start again from a checkpoint."
_JOIN_S = 10.0
_JOIN_FAILED_S = 1.0  # then the thread may be waiting for ranks that never come
_LIVENESS_S = 1.0


class Launch:
    """One bucket that was queued for reduction.

    Attributes:
        bucket: the bucket.
        done: set when the reducer's thread is done with it, whether or not it succeeded.
        seq: sequence number of its Allreduce; None before that was begun.
        waited_for: whether :meth:`AllReducer.settle` was called for it.
    """

    __slots__ = ("bucket", "done", "seq", "waited_for")

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.done = threading.Event()
        self.seq: int | None = None
        self.waited_for = False


class AllReducer:
    """Sums launched buckets over the ranks, in the order of their launches, on a thread of its own.

    Every rank launches the same buckets in the same order. A rank that fails says so in the buffer of the
    next bucket. After that one Allreduce all ranks know, and none communicates any more: they stop at the
    same place, and no rank waits for one that has left. After an error of MPI itself this rank
    communicates no more, and its peers find out by their time limit.

    Args:
        ranks: the ranks, over a communicator of this reducer's own; freed by :meth:`stop`.
        means: how the values of a bucket become their means.
        logger: where ``WAIT`` rows go; ``ranks`` and ``means`` record their own.
        timeout_s: how long :meth:`settle` waits for a bucket, in seconds.
    """

    def __init__(self, ranks: Ranks, means: BucketMeans, logger: TimingLogger, timeout_s: float) -> None:
        self._ranks = ranks
        self._means = means
        self._logger = logger
        self._timeout_s = timeout_s
        self._error: BaseException | None = None  # what failed on this rank
        self._failures_told = (0, 0)  # failures that an Allreduce reported, see Bucket.read_flags
        self._silent = False  # the thread communicates no more
        self._given_up = False  # settle() no longer waits for the thread
        self._stopped = False
        self._queue: queue.SimpleQueue[Launch | None] = queue.SimpleQueue()
        # A daemon, so that a forgotten stop() does not keep the interpreter from ending. But MPI, which is
        # finalized after these hooks, must not be finalized while the thread is in a call to it.
        self._thread = threading.Thread(target=self._run, name="AllReducer", daemon=True)
        self._thread.start()
        atexit.register(self._end_thread)

    # -- for the training thread ---------------------------------------------------------------------

    def launch(self, bucket: Bucket) -> Launch:
        """Queue ``bucket`` for reduction; its earlier launch must be done."""
        launch = Launch(bucket)
        if self._stopped:
            launch.done.set()
        else:
            self._queue.put(launch)
        return launch

    def settle(self, launch: Launch) -> None:
        """Wait until ``launch`` is done or has failed, with a ``WAIT`` row.

        Never raises: after the time limit, or when the thread is gone, this rank is marked as failed.
        """
        if launch.waited_for:
            return
        launch.waited_for = True
        bucket, ranks = launch.bucket, self._ranks
        blocked = self._logger.begin_operation(
            Span, WAIT, bucket.buffer.nbytes, bucket.name, ranks.group, ranks.size, None
        )
        blocked.phase = self._means.phase
        blocked.enter()
        if not self._given_up:
            self._wait(launch)
        end_ns = blocked.leave()
        if launch.seq is not None and self._logger.recording:
            blocked.seq = launch.seq
            status = "error:ReductionError" if self.failed else OK
            blocked.write(WAIT, blocked.start_ns, end_ns, status)

    def fail(self, error: BaseException) -> None:
        """Note that this rank failed with ``error``; the next launch tells the other ranks."""
        if self._error is None:
            self._error = error

    @property
    def failed(self) -> bool:
        """Whether this rank failed, or was told that another one did."""
        return self._error is not None or self._failures_told[0] > 0

    @property
    def has_news(self) -> bool:
        """Whether this rank failed, and can still tell the other ranks, which do not know."""
        return self._error is not None and not self._silent and not self._stopped

    def check(self) -> None:
        """Raise an error if a reduction is known to have failed.

        Raises:
            ReductionError: a reduction failed, on this rank (then chained from the cause) or on another
                one; or this reducer was stopped.
        """
        if self._error is not None:
            ours = isinstance(self._error, ReductionError)
            reason = str(self._error) if ours else f"{type(self._error).__name__}: {self._error}."
            raise ReductionError(
                f"the reduction of gradients failed on this rank ({self._ranks.rank}): {reason} {_WAY_OUT}"
            ) from (None if ours else self._error)
        count, ranks = self._failures_told
        if count:
            where = f"rank {ranks - 1}" if count == 1 else f"{count} other ranks"
            raise ReductionError(
                f"the reduction of gradients failed on {where}; the exception there says why. {_WAY_OUT}"
            )
        if self._stopped:
            raise ReductionError("stop() was called: make a new DistributedOptimizer to train on.")

    def mean(self, value: float) -> float:
        """Return the mean of ``value`` over the ranks. Collective; only while no launch is under way."""
        host = torch.tensor([value], dtype=torch.float64)
        with self._logger.label("loss", "dense"):
            self._ranks.sum(host)
        return float(host) / self._ranks.size

    def stop(self) -> None:
        """End the thread and free the communicator; further calls do nothing."""
        if self._stopped:
            return
        atexit.unregister(self._end_thread)
        self._end_thread()
        if not self._thread.is_alive() and not self._silent:
            self._silent = True
            self._ranks.free()

    def _end_thread(self) -> None:
        self._stopped = True
        self._queue.put(None)
        self._thread.join(_JOIN_FAILED_S if self.failed else _JOIN_S)

    def _wait(self, launch: Launch) -> None:
        deadline = monotonic() + self._timeout_s
        while not launch.done.wait(max(0.0, min(_LIVENESS_S, deadline - monotonic()))):
            gone, name = not self._thread.is_alive(), launch.bucket.name
            if gone or monotonic() >= deadline:
                self._given_up = True
                self.fail(_thread_gone(name) if gone else _out_of_time(name, self._timeout_s))
                return

    # -- on the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        while (launch := self._queue.get()) is not None:
            try:
                if not self._silent:
                    with self._logger.label(launch.bucket.name, self._means.phase):
                        self._reduce(launch)
            except BaseException as error:
                self.fail(error)
            finally:
                launch.done.set()

    def _reduce(self, launch: Launch) -> None:
        bucket = launch.bucket
        self._prepare(bucket)
        launch.seq = self._ranks.collectives
        try:
            self._ranks.sum(self._means.first_sum(bucket))
        except BaseException:
            self._silent = True
            raise
        self._failures_told = bucket.read_flags()
        self._silent = self._failures_told[0] > 0
        if not self._silent:
            self._finish(bucket)

    def _finish(self, bucket: Bucket) -> None:
        try:
            self._means.finish(bucket)
        except BaseException as error:
            self._silent = self._means.leaves_ranks_apart(error)
            raise

    def _prepare(self, bucket: Bucket) -> None:
        """Fill the bucket's buffer for the Allreduce, with the news of a failure if this rank failed."""
        # A failure is noted, not raised: the other ranks wait for this one's Allreduce.
        try:
            if self._error is None:
                self._means.prepare(bucket)
        except Exception as error:
            self.fail(error)
        if self._error is not None:
            bucket.set_failed(self._ranks.rank)


def _thread_gone(bucket: str) -> ReductionError:
    return ReductionError(f"the thread that reduces bucket {bucket!r} is gone (a forked child has none).")


def _out_of_time(bucket: str, timeout_s: float) -> ReductionError:
    return ReductionError(
        f"bucket {bucket!r} was not reduced within timeout_s={timeout_s:g}: some rank did not take part. "
        "Look for one that stopped or ran another number of backward passes; raise timeout_s if ranks may "
        "be that far apart."
    )


# -- means ---------------------------------------------------------------------------------------------


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
    reduce = partial(ALL_REDUCERS[allreduce], comm=ranks.comm, compressor=compression, timing_logger=logger)
    return CompressedMeans("dense" if allreduce == "dense" else "sparse", reduce)


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
        reduce: one of ``ALL_REDUCERS``, with its arguments but for tensor and name.
        stream: the stream of the thread's own; None before the first bucket on a device.
    """

    phase: str
    reduce: Callable[..., Tensor]
    stream: torch.Stream | None = None

    def prepare(self, bucket: Bucket) -> None:
        self.stream = _own_stream(bucket, self.stream)
        bucket.set_flags()

    def first_sum(self, bucket: Bucket) -> Tensor:
        return bucket.flags

    def finish(self, bucket: Bucket) -> None:
        bucket.values.copy_(self.reduce(bucket.values, name=bucket.name))
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

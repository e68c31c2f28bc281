"""TimingLogger: a policy, a channel, a flush thread and its sinks, behind a few calls."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from timing_logger._channel import Channel
from timing_logger._clock import WallClock, perf_counter_ns
from timing_logger._flusher import Flusher
from timing_logger._options import Options
from timing_logger._processes import at_exit, detach_in_forked_children
from timing_logger._sidecar import Sidecar
from timing_logger._span import NO_SPAN, Caller, DeviceSpan, Span, Timer
from timing_logger.errors import ConfigurationError
from timing_logger.record import HOST_CLOCK, OK, stated_interval
from timing_logger.run_info import Counters
from timing_logger.sinks import Sink
from timing_logger.sinks.csv import CsvSink

log = logging.getLogger("timing_logger")

_new_span = object.__new__


class TimingLogger:
    """Records timed operations of one rank, and writes them in the background.

    The ``record_*`` calls never raise, wait or do I/O, whatever they are given; values that the
    schema cannot hold are left blank in a row whose status is ``error:InvalidValue``. They may be
    called from any thread, from signal handlers and from finalizers. After ``close`` and in forked
    children records are counted as dropped.

    Args:
        rank: this process's rank, >= 0.
        log_dir: folder of ``timing-rank{rank}.csv``; made if missing. If a file of that name is
            there already it is left alone and ``timing-rank{rank}.run2.csv`` is written. None:
            no file, only ``sinks``.
        world_size: number of ranks, for the sidecar.
        labels: what the user wants to know of this rank later, such as ``{"pipeline_stage": 2}``;
            JSON values.
        flush_interval: seconds between writes.
        maxsize: capacity of the queue in records, at most 400 bytes each; beyond it records are
            dropped and counted.
        ranks: ranks that record; None for all. On others the logger is off.
        start_step, end_step, record_every_n_steps: see :class:`~timing_logger.sampling.StepPolicy`.
        enabled: False for a logger that does nothing and touches no file.
        device_timeout: seconds that ``close`` waits for what devices have not done yet; then their
            rows are written with status ``unresolved``.
        fsync: make every write survive a crash of the machine (costs a disk flush each).
        sinks: further places for the records, see :class:`~timing_logger.sinks.Sink`.

    Raises:
        ConfigurationError: an option is out of range or contradicts another.
        LogPathError: the folder or file cannot be used.
    """

    def __init__(
        self,
        rank: int,
        log_dir: str | os.PathLike[str] | None = "logs/timing",
        *,
        world_size: int | None = None,
        labels: Mapping[str, Any] | None = None,
        flush_interval: float = 1.0,
        maxsize: int = 100_000,
        ranks: Collection[int] | None = None,
        start_step: int = 0,
        end_step: int | None = None,
        record_every_n_steps: int = 1,
        enabled: bool = True,
        device_timeout: float = 1.0,
        fsync: bool = False,
        sinks: Sequence[Sink] = (),
    ) -> None:
        options = Options(
            rank=rank,
            world_size=world_size,
            labels=labels,
            flush_interval=flush_interval,
            maxsize=maxsize,
            ranks=ranks,
            start_step=start_step,
            end_step=end_step,
            record_every_n_steps=record_every_n_steps,
            device_timeout=device_timeout,
            fsync=fsync,
        )
        self.rank = options.rank
        self.path: Path | None = None
        self.recording = False
        self._enabled = False
        self._policy = options.policy
        self._selective = self._policy.selective
        self._iteration: int | None = None
        self._epoch: int | None = None
        self._caller = Caller()
        self._channel = Channel(options.maxsize)
        self._flusher: Flusher | None = None
        self._dropped_at_close = 0
        if enabled and self._policy.records_rank(self.rank):
            self._start(log_dir, options, sinks)
        else:
            self._switch_off()

    # -- recording --------------------------------------------------------------------------------

    def record_mpi_operation(
        self,
        operation: str | None = None,
        message_size: int | None = None,
        layer_name: str | None = None,
        phase: str | None = None,
        iteration: int | None = None,
        epoch: int | None = None,
        *,
        group: str = "",
        group_size: int | None = None,
        seq: int | None = None,
        peer: int | None = None,
        message_size_bytes: int | None = None,
        mpi_op_name: str | None = None,
    ) -> Timer:
        """Time a ``with`` block; an exception in it is passed on, and its row says so.

        Args:
            operation: ``"ALLREDUCE"``, ``"H2D"``, ...; upper-cased when written.
            message_size: bytes in this rank's send buffer, or None if unknown.
            layer_name, phase: default to the label in force, see :meth:`label`.
            iteration, epoch: default to the current ones.
            group, group_size: communicator or process group, and its number of ranks.
            seq: the operation's number in its group.
            peer: the other rank of a point-to-point operation, or the root.
            message_size_bytes, mpi_op_name: other spellings of message_size and operation, used
                where those are not given.

        Returns:
            A context manager that yields itself; its ``elapsed_ms`` is known after the block.
        """
        if iteration is None:
            if not self.recording:
                return NO_SPAN  # type: ignore[no-any-return]
            iteration = self._iteration
        elif self._selective and not self._policy.records(iteration):
            return NO_SPAN  # type: ignore[no-any-return]
        span = _new_span(Span)
        span.channel = self._channel
        span.caller = caller = self._caller
        span.operation = operation if operation is not None else mpi_op_name
        span.message_size_bytes = message_size if message_size is not None else message_size_bytes
        span.layer_name = caller.layer_name if layer_name is None else layer_name
        span.phase = caller.phase if phase is None else phase
        span.iteration = iteration
        span.epoch = self._epoch if epoch is None else epoch
        span.group = group
        span.group_size = group_size
        span.seq = seq
        span.peer = peer
        return span

    def record_device_operation(
        self,
        operation: str | None = None,
        message_size: int | None = None,
        layer_name: str | None = None,
        phase: str | None = None,
        iteration: int | None = None,
        epoch: int | None = None,
        *,
        stream: Any = None,
        group: str = "",
        group_size: int | None = None,
        seq: int | None = None,
        peer: int | None = None,
    ) -> Timer:
        """Time what a device does for a ``with`` block, by events in its stream.

        Nothing waits: the row is written when the device has passed the block's end. Without a
        device the host's clock serves, and the row's ``clock`` says so. While the stream is being
        captured into a graph the block is let pass and counted (``captured`` in the sidecar).

        Args:
            stream: a ``torch.Stream``; None for the calling thread's current one.

        The other arguments are those of :meth:`record_mpi_operation`.

        Returns:
            A context manager that yields itself. Reading its ``elapsed_ms`` after the block waits for
            the device.
        """
        if iteration is None:
            if not self.recording:
                return NO_SPAN  # type: ignore[no-any-return]
            iteration = self._iteration
        elif self._selective and not self._policy.records(iteration):
            return NO_SPAN  # type: ignore[no-any-return]
        span = _new_span(DeviceSpan)
        span.channel = self._channel
        span.caller = caller = self._caller
        span.operation = operation
        span.message_size_bytes = message_size
        span.layer_name = caller.layer_name if layer_name is None else layer_name
        span.phase = caller.phase if phase is None else phase
        span.iteration = iteration
        span.epoch = self._epoch if epoch is None else epoch
        span.group = group
        span.group_size = group_size
        span.seq = seq
        span.peer = peer
        span.stream = stream
        return span

    def record_timing(
        self,
        operation: str | None = None,
        elapsed_ms: float | None = None,
        layer_name: str | None = None,
        message_size: int | None = None,
        phase: str | None = None,
        iteration: int | None = None,
        epoch: int | None = None,
        start_counter: float | None = None,
        end_counter: float | None = None,
        *,
        group: str = "",
        group_size: int | None = None,
        seq: int | None = None,
        peer: int | None = None,
        message_size_bytes: int | None = None,
        mpi_op_name: str | None = None,
    ) -> None:
        """Record a duration that the caller measured.

        Args:
            elapsed_ms: the duration in ms, finite and >= 0; if None, end_counter - start_counter.
            start_counter, end_counter: ``time.perf_counter()`` at start and end, in seconds.
                Without them the operation is taken to end now. Where they contradict elapsed_ms
                by more than 10% and 1 ms, elapsed_ms and start_counter stand and the row's status
                is ``error:InconsistentCounters``.

        The other arguments are those of :meth:`record_mpi_operation`.
        """
        start_ns, end_ns, status = stated_interval(elapsed_ms, start_counter, end_counter, perf_counter_ns())
        # `is None` and nothing else: asking a caller's object for its truth may raise
        name = operation if operation is not None else mpi_op_name
        size = message_size if message_size is not None else message_size_bytes
        self.record_interval(
            name, start_ns, end_ns, size, layer_name, phase, iteration, epoch,
            group=group, group_size=group_size, seq=seq, peer=peer, status=status,
        )  # fmt: skip

    def record_interval(
        self,
        operation: str | None,
        start_ns: int,
        end_ns: int | None,
        message_size: int | None = None,
        layer_name: str | None = None,
        phase: str | None = None,
        iteration: int | None = None,
        epoch: int | None = None,
        *,
        group: str = "",
        group_size: int | None = None,
        seq: int | None = None,
        peer: int | None = None,
        clock: str = HOST_CLOCK,
        status: str = OK,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Record an interval of the ``time.perf_counter_ns`` axis: the way in for instrumentation.

        ``end_ns`` is None for an operation whose end is not known. The other arguments are those
        of :meth:`record_mpi_operation`, and three fields of the record.
        """
        if iteration is None:
            if not self.recording:
                return
            iteration = self._iteration
        elif self._selective and not self._policy.records(iteration):
            return
        caller = self._caller
        self._channel.put((
            iteration, self._epoch if epoch is None else epoch,
            caller.layer_name if layer_name is None else layer_name, operation,
            caller.phase if phase is None else phase, message_size, start_ns, end_ns, clock,
            group, group_size, seq, peer, caller.thread, status, metadata,
        ))  # fmt: skip

    @contextlib.contextmanager
    def label(self, layer_name: str, phase: str = "") -> Iterator[None]:
        """Name the records that this thread makes in the block and that bring no name themselves."""
        caller = self._caller
        outer = caller.layer_name, caller.phase
        caller.layer_name, caller.phase = layer_name, phase
        try:
            yield
        finally:
            caller.layer_name, caller.phase = outer

    def set_current_iteration(self, iteration: int) -> None:
        """The iteration of records that bring none; decides whether they are recorded."""
        self._iteration = iteration
        self.recording = self._enabled and self._policy.records(iteration)

    def set_current_epoch(self, epoch: int) -> None:
        """The epoch of records that bring none."""
        self._epoch = epoch

    # -- the rest of a life -------------------------------------------------------------------------

    @property
    def stats(self) -> Counters:
        """Records accepted, written, dropped and pending; at rest the first is the sum of the others."""
        if self._flusher is not None:
            return self._flusher.counters
        overflowed = self._channel.counts().overflowed
        return Counters(accepted=overflowed, written=0, dropped=overflowed, pending=0)

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until what was recorded before the call is with the operating system.

        Args:
            timeout: seconds to wait at most.

        Returns:
            True if every such record was written or counted as dropped, within the time.
        """
        return self._flusher is None or self._flusher.flush(timeout)

    def flush_soon(self) -> None:
        """Have what is done by now written, without waiting for it."""
        if self._flusher is not None and not self._flusher.closed:
            self._flusher.hurry()

    def close(self) -> None:
        """Write what waits and stop. Again is harmless; gives up on a disk that takes nothing."""
        if self._flusher is not None and not self._flusher.closed:
            self._flusher.close()
            self._dropped_at_close = self.stats.dropped

    def __enter__(self) -> TimingLogger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "off" if self._flusher is None else str(self.path or "no file")
        return f"<TimingLogger rank {self.rank}: {state}>"

    # -- beginnings and ends ------------------------------------------------------------------------

    def _switch_off(self) -> None:
        """Off is other methods, not a question asked at every call."""
        vars(self).update(
            record_mpi_operation=_no_span, record_device_operation=_no_span,
            record_timing=_ignore, record_interval=_ignore,
        )  # fmt: skip

    def _start(self, log_dir: Any, options: Options, sinks: Sequence[Sink]) -> None:
        clock = WallClock()
        sidecar = None
        if log_dir is not None:
            file = CsvSink(log_dir, self.rank)
            sinks = (file, *sinks)
            self.path = file.path
            sidecar = Sidecar(file.path, file.name, clock, options.for_sidecar())
        if not sinks:
            raise ConfigurationError(
                "log_dir is None and there are no sinks: give one, or pass enabled=False."
            )
        self._flusher = Flusher(
            self._channel, sinks, sidecar, clock, interval_s=options.flush_interval,
            device_timeout_s=options.device_timeout, fsync=options.fsync,
        )  # fmt: skip
        self._enabled = self.recording = True
        detach_in_forked_children(self)
        at_exit(self._close_at_exit)

    def _close_at_exit(self) -> None:
        self.close()
        late = self.stats.dropped - self._dropped_at_close
        if late:
            log.warning("timing logger: %d records came after close and were dropped", late)

    def detach(self) -> None:
        """In a forked child: the file, the thread and what waits are the parent's."""
        self._channel.abandon()
        self._flusher = None


# -- off ------------------------------------------------------------------------------------------


def _no_span(
    operation: Any = "", message_size: Any = None, layer_name: Any = None, phase: Any = None,
    iteration: Any = None, epoch: Any = None, **_: Any,
) -> Any:  # fmt: skip
    return NO_SPAN  # named parameters, because collecting them into a tuple costs a third more


def _ignore(*_: Any, **__: Any) -> None:
    pass

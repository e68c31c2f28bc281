"""The recording half of a logger: the recording calls of programs.

A recording call makes one tuple and appends it to a queue; a span does so when its block is left. Code that
these calls share is repeated in each of them, because one more function call would cost a tenth of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.cores.core import Core, over
from timing_logger.recording.cores.protocols import NO_SPAN, Timer
from timing_logger.recording.cores.python import core as python
from timing_logger.recording.cores.python.core import Span
from timing_logger.recording.device.intervals import DeviceInterval
from timing_logger.recording.device.span import DeviceBlock, timed_block
from timing_logger.recording.instrumented_calls import InstrumentedCalls
from timing_logger.recording.spellings import one_value
from timing_logger.schema.record import HOST_CLOCK, OK, stated_interval

if TYPE_CHECKING:
    import torch


class Recorder(InstrumentedCalls):
    """Puts records of the iterations that ``policy`` selects into ``channel``; off until switched on.

    It is over the Python core; see :class:`~timing_logger.recording.native_recorder.NativeRecorder`.
    """

    _core: ClassVar[Core] = python
    _device_span: ClassVar[type[DeviceBlock]] = over(DeviceBlock, Span)

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
        work: float | None = None,
        message_size_bytes: int | None = None,
        mpi_op_name: str | None = None,
    ) -> Timer:
        """Time a ``with`` block. An exception in it is passed on, and the row's status names its type.

        Args:
            operation: ``"ALLREDUCE"``, ``"H2D"``, ...; upper-cased when written.
            message_size: bytes in this rank's send buffer, or None if unknown.
            layer_name, phase: default to the label in force, see ``label``.
            iteration, epoch: default to the current ones.
            group, group_size: communicator or process group, and its number of ranks.
            seq: the operation's number in its group.
            peer: the other rank of a point-to-point operation, or the root.
            work: how much the block processes: tokens, samples or elements, a finite number of at least 0;
                defaults to that of the step, see ``set_current_work``. What is known only in the block, set
                there: ``timer.work = n``.
            message_size_bytes, mpi_op_name: other spellings of message_size and operation. If both are given
                and differ, the row has neither, and the status ``error:InvalidValue``.

        Returns:
            A context manager that yields itself; its ``elapsed_ms`` is known after the block. One that is
            left without being open, because nobody entered it or it was left before, leaves a row without a
            duration and with status ``error:NotEntered``.
        """
        if iteration is None:
            if not self.recording:
                return NO_SPAN
            iteration = self._iteration
        elif self._selective and not self._policy.records(iteration):
            return NO_SPAN
        if mpi_op_name is not None:
            operation = one_value(operation, mpi_op_name)
        if message_size_bytes is not None:
            message_size = one_value(message_size, message_size_bytes)
        span = Span.__new__(Span)
        span.end_ns = 0
        span.caller = caller = self._caller
        span.thread = caller.thread
        span.operation = operation
        span.message_size_bytes = message_size
        span.layer_name = self._label.get()[0] if layer_name is None else layer_name
        span.phase = self._label.get()[1] if phase is None else phase
        span.iteration = iteration
        span.epoch = self._epoch if epoch is None else epoch
        span.group = group
        span.group_size = group_size
        span.seq = seq
        span.peer = peer
        span.work = self._work if work is None else work
        return span

    def operation(
        self,
        name: str,
        device: torch.device | None = None,
        *,
        layer_name: str | None = None,
        work: float | None = None,
    ) -> Timer:
        """Time a ``with`` block of this rank's own work, such as ``DATA``, ``FORWARD`` or ``CHECKPOINT``.

        Args:
            name: what the column ``operation`` holds; no communication, which is not a rank's own work.
            device: where the work is done: by events in its current stream, see
                :meth:`record_device_operation`. None, or a device without streams, for the host's clock.
            layer_name: defaults to the label in force, see ``label``.
            work: how much the block processes, see :meth:`record_mpi_operation`.

        Returns:
            A context manager that yields itself; its ``elapsed_ms`` is known after the block.
        """
        return timed_block(self, name, device, layer_name=layer_name, work=work)

    def record_device_operation(
        self,
        operation: str | None = None,
        message_size: int | None = None,
        layer_name: str | None = None,
        phase: str | None = None,
        iteration: int | None = None,
        epoch: int | None = None,
        *,
        stream: torch.Stream | None = None,
        group: str = "",
        group_size: int | None = None,
        seq: int | None = None,
        peer: int | None = None,
        work: float | None = None,
    ) -> Timer:
        """Time the work of a device for a ``with`` block, by events in its stream.

        Nothing waits: the row is written when the device has passed the block's end. Without a device the
        host's clock is used, and the row's ``clock`` says so. While the stream is being captured into a
        graph, the block is not timed but counted (``captured`` in the sidecar).

        Args:
            stream: a ``torch.Stream``; None for the calling thread's current one.

        The other arguments are those of :meth:`record_mpi_operation`.

        Returns:
            A context manager that yields itself. Reading its ``elapsed_ms`` after the block waits for the
            device.
        """
        if iteration is None:
            if not self.recording:
                return NO_SPAN
            iteration = self._iteration
        elif self._selective and not self._policy.records(iteration):
            return NO_SPAN
        span = self.begin_operation(
            self._device_span, operation, message_size, layer_name, group, group_size, peer
        )
        if phase is not None:
            span.phase = phase
        span.iteration = iteration
        if epoch is not None:
            span.epoch = epoch
        span.seq = seq
        if work is not None:
            span.work = work
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
        work: float | None = None,
        message_size_bytes: int | None = None,
        mpi_op_name: str | None = None,
    ) -> None:
        """Record a duration that the caller measured.

        Args:
            elapsed_ms: the duration in ms, finite and >= 0; if None, end_counter - start_counter.
            start_counter, end_counter: ``time.perf_counter()`` at start and end, in seconds. Without them the
                operation is taken to end now. If they contradict elapsed_ms by more than 10% and 1 ms,
                elapsed_ms and start_counter are kept and the row's status is ``error:InconsistentCounters``.

        The other arguments are those of :meth:`record_mpi_operation`.
        """
        start_ns, end_ns, status = stated_interval(elapsed_ms, start_counter, end_counter, perf_counter_ns())
        if mpi_op_name is not None:
            operation = one_value(operation, mpi_op_name)
        if message_size_bytes is not None:
            message_size = one_value(message_size, message_size_bytes)
        self.record_interval(
            operation, start_ns, end_ns, message_size, layer_name, phase, iteration, epoch,
            group=group, group_size=group_size, seq=seq, peer=peer, work=work, status=status,
        )  # fmt: skip

    def record_interval(
        self,
        operation: str | None,
        start_ns: int | DeviceInterval,
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
        work: float | None = None,
        clock: str = HOST_CLOCK,
        status: str = OK,
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Record an interval of the ``time.perf_counter_ns`` axis: the entry for instrumentation.

        Args:
            start_ns: the start in ns; the interval itself if a device measures it.
            end_ns: the end in ns; None for an operation whose end is not known.
            clock, status, metadata: the fields of the record.

        The other arguments are those of :meth:`record_mpi_operation`.
        """
        if iteration is None:
            if not self.recording:
                return
            iteration = self._iteration
        elif self._selective and not self._policy.records(iteration):
            return
        self._channel.put((
            iteration, self._epoch if epoch is None else epoch,
            self._label.get()[0] if layer_name is None else layer_name, operation,
            self._label.get()[1] if phase is None else phase, message_size, start_ns, end_ns, clock,
            group, group_size, seq, peer, self._caller.thread, status, "", metadata,
            self._work if work is None else work,
        ))  # fmt: skip

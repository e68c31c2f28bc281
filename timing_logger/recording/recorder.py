"""The recording half of a logger: every call that the training thread makes.

A recording call makes one tuple and appends it to a queue; a span does so when its block is left. Code that
these calls share is repeated in each of them, because one more function call would cost a tenth of the whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

from timing_logger.record import HOST_CLOCK, OK, stated_interval
from timing_logger.recording import core
from timing_logger.recording.channel import Channel
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.recording.core import BackgroundSpan, Caller, Span, Unrecorded, Wait
from timing_logger.recording.device.host_or_device import timed_block
from timing_logger.recording.device.span import DeviceSpan
from timing_logger.recording.no_span import NO_SPAN, Timer
from timing_logger.recording.open_calls import Callers, OpenCalls
from timing_logger.recording.protocols import Counts, NumberedGroup, Waitable
from timing_logger.recording.sampling import StepPolicy

if TYPE_CHECKING:
    import torch

    from timing_logger.recording.device.intervals import DeviceInterval

S = TypeVar("S", bound=Span)
B = TypeVar("B", bound=BackgroundSpan)
R = TypeVar("R")


_NO_LABEL = "", "", False
"""Names of layer and phase, and whether it names a layer: it may be for the phase alone."""


class Recorder:
    """Puts records of the iterations that ``policy`` selects into ``channel``; off until switched on.

    Attributes:
        recording: whether the current iteration is recorded.
    """

    def __init__(self, policy: StepPolicy, channel: Channel) -> None:
        self.recording = False
        self._enabled = False
        self._policy = policy
        self._selective = policy.selective
        self._iteration: int | None = None
        self._epoch: int | None = None
        self._channel = channel
        self._label = ContextVar("label", default=_NO_LABEL)
        self._open_calls = OpenCalls(channel)
        self._callers = Callers(self._open_calls)

    @property
    def _caller(self) -> Caller:
        """What the calling thread's records have in common."""
        return self._callers.current

    def _switch_on(self) -> None:
        self._enabled = self.recording = True

    def _switch_off(self) -> None:
        """Replace the recording methods by ones that do nothing, which saves a check in every call."""
        vars(self).update(
            record_mpi_operation=_no_span, record_device_operation=_no_span,
            record_timing=_ignore, record_interval=_ignore,
        )  # fmt: skip

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
        """Time a ``with`` block. An exception in it is passed on, and the row's status names its type.

        Args:
            operation: ``"ALLREDUCE"``, ``"H2D"``, ...; upper-cased when written.
            message_size: bytes in this rank's send buffer, or None if unknown.
            layer_name, phase: default to the label in force, see :meth:`label`.
            iteration, epoch: default to the current ones.
            group, group_size: communicator or process group, and its number of ranks.
            seq: the operation's number in its group.
            peer: the other rank of a point-to-point operation, or the root.
            message_size_bytes, mpi_op_name: other spellings of message_size and operation, used if those are
                not given.

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
        span = Span.__new__(Span)
        span.end_ns = 0
        span.caller = caller = self._caller
        span.thread = caller.thread
        span.operation = operation if operation is not None else mpi_op_name
        span.message_size_bytes = message_size if message_size is not None else message_size_bytes
        span.layer_name = self._label.get()[0] if layer_name is None else layer_name
        span.phase = self._label.get()[1] if phase is None else phase
        span.iteration = iteration
        span.epoch = self._epoch if epoch is None else epoch
        span.group = group
        span.group_size = group_size
        span.seq = seq
        span.peer = peer
        return span

    def phase(self, name: str, device: torch.device | None = None, *, layer_name: str | None = None) -> Timer:
        """Time a ``with`` block of this rank's own work, such as ``DATA``, ``FORWARD`` or ``CHECKPOINT``.

        Args:
            name: the row's operation; not that of a communication, which is not a rank's own work.
            device: where the work is done: by events in its current stream, see
                :meth:`record_device_operation`. None, or a device without streams, for the host's clock.
            layer_name: defaults to the label in force, see :meth:`label`.

        Returns:
            A context manager that yields itself; its ``elapsed_ms`` is known after the block.
        """
        return timed_block(self, name, device, layer_name=layer_name)

    def begin_operation(
        self,
        kind: type[S],
        operation: str,
        message_size: int | None,
        layer_name: str | None,
        group: str,
        group_size: int,
        peer: int | None,
    ) -> S:
        """Create a span of class ``kind`` that no ``with`` encloses: the fastest entry for instrumentation.

        The caller enters the span and writes it, and checks whether the current iteration is recorded. The
        arguments are those of :meth:`record_mpi_operation`, all by position.
        """
        span = kind.__new__(kind)
        span.end_ns = 0
        span.caller = caller = self._caller
        span.thread = caller.thread
        span.operation = operation
        span.message_size_bytes = message_size
        label = self._label.get()
        span.layer_name = label[0] if layer_name is None else layer_name
        span.phase = label[1]
        span.iteration = self._iteration
        span.epoch = self._epoch
        span.group = group
        span.group_size = group_size
        span.seq = None
        span.peer = peer
        return span

    def time_call(
        self,
        operation: str,
        message_size: int | None,
        layer_name: str | None,
        peer: int | None,
        group: NumberedGroup,
        handle: type[Waitable],
        call: Callable[..., R],
        args: tuple[object, ...],
    ) -> R:
        """Make a call, wait for the operation that it began, and record both as one: for instrumentation.

        In an iteration that is not recorded, a row is written only if the process hangs in the call.

        Args:
            operation, message_size, layer_name, peer: as for :meth:`record_mpi_operation`.
            group: supplies the name, the size and the sequence number.
            handle: the class of the handles that are waited for, if ``call`` returns one.
            call, args: the blocking function and its arguments.

        Returns:
            What ``call`` returns.

        Raises:
            BaseException: whatever the call or the wait raises; the row's status records it.
        """
        recording = self.recording
        span = self.begin_operation(
            Span if recording else Unrecorded,
            operation,
            message_size,
            layer_name,
            group.name,
            group.size,
            peer,
        )
        span.seq = group.next_collective()
        begun = None
        span.enter()
        try:
            begun = call(*args)
            if isinstance(begun, handle):  # otherwise the operation was complete on return
                begun.wait()
        except BaseException as error:
            counts = begun is not None or not group.take_back(error)
            span.fail(error, begun if isinstance(begun, handle) else None, counts)
            raise
        span.finish(OK)
        return begun

    def issue_call(
        self,
        kind: type[B],
        operation: str,
        message_size: int | None,
        layer_name: str | None,
        peer: int | None,
        group: NumberedGroup,
        numbered: bool,
        goes_on: bool,
        call: Callable[..., R],
        args: tuple[object, ...],
    ) -> tuple[B, R]:
        """Make a call that begins an operation, and record the operation: for instrumentation.

        The caller sees to it that the operation's end is noted, and checks whether the current iteration is
        recorded.

        Args:
            kind: the class of the operation.
            operation, message_size, layer_name, peer: as for :meth:`record_mpi_operation`.
            group: supplies the name, the size and, if it is ``numbered``, the sequence number.
            goes_on: whether a wait for the operation is a separate row.
            call, args: the function and its arguments.

        Returns:
            The operation, and what ``call`` returns.

        Raises:
            BaseException: whatever the call raises; the row's status records it.
        """
        span = self.begin_operation(kind, operation, message_size, layer_name, group.name, group.size, peer)
        if numbered:  # before the call, which may hang: its open row needs the number
            span.seq = group.next_collective()
        span.begin(goes_on, self)
        try:
            return span, call(*args)
        except BaseException as error:
            if numbered and group.take_back(error):
                span.seq = None
            span.end(type(error))
            raise

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
        span = DeviceSpan.__new__(DeviceSpan)
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
            start_counter, end_counter: ``time.perf_counter()`` at start and end, in seconds. Without them the
                operation is taken to end now. If they contradict elapsed_ms by more than 10% and 1 ms,
                elapsed_ms and start_counter are kept and the row's status is ``error:InconsistentCounters``.

        The other arguments are those of :meth:`record_mpi_operation`.
        """
        start_ns, end_ns, status = stated_interval(elapsed_ms, start_counter, end_counter, perf_counter_ns())
        # Only `is None` is safe here: the truth value of a caller's object may raise.
        name = operation if operation is not None else mpi_op_name
        size = message_size if message_size is not None else message_size_bytes
        self.record_interval(
            name, start_ns, end_ns, size, layer_name, phase, iteration, epoch,
            group=group, group_size=group_size, seq=seq, peer=peer, status=status,
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
        ))  # fmt: skip

    @property
    def enabled(self) -> bool:
        """Whether this rank records at all, on some iterations at least."""
        return self._enabled

    @property
    def calling_thread(self) -> str:
        """The name that the calling thread's records have in ``thread``."""
        return self._caller.thread

    def add_group(self, group: Counts, name: str) -> None:
        """Have the sidecar state how many collectives ``group`` has begun: for instrumentation.

        Args:
            name: the name of the group in its rows.
        """
        self._open_calls.add_group(group, name)

    def begin_wait(self, of: Sequence[Span]) -> Wait:
        """Begin a wait of the calling thread for operations that were left running, and return it.

        The thread counts as blocked until it leaves the wait.
        """
        return Wait(of, self._caller)

    @property
    def labelled(self) -> bool:
        """Whether a label that names a layer is in force in this context, see :meth:`label`."""
        return self._label.get()[2]

    @contextlib.contextmanager
    def label(self, layer_name: str, phase: str = "") -> Iterator[None]:
        """Set the default layer name and phase of records made in the ``with`` block.

        The label holds for this thread, and under asyncio for this task and those that it creates in the
        block.
        """
        names = type(layer_name) is not str or layer_name != ""
        outer = self._label.get()
        self._label.set((layer_name, phase, names))
        try:
            yield
        finally:
            self._label.set(outer)

    def set_current_iteration(self, iteration: int) -> None:
        """Set the iteration of records that state none; it decides whether they are recorded."""
        self._iteration = iteration
        self.recording = self._enabled and self._policy.records(iteration)

    def set_current_epoch(self, epoch: int) -> None:
        """Set the epoch of records that state none."""
        self._epoch = epoch


if TYPE_CHECKING or core.NAME == "python":
    ChosenRecorder = Recorder
else:
    from timing_logger._native.core import RecordingCalls

    class ChosenRecorder(RecordingCalls, Recorder):
        """The same, with the recording calls in C."""

    for _name, _call in vars(RecordingCalls).items():
        if callable(_call) and not _name.startswith("__"):
            _call.__doc__ = getattr(Recorder, _name).__doc__


# -- off ------------------------------------------------------------------------------------------


def _no_span(
    operation: object = "", message_size: object = None, layer_name: object = None, phase: object = None,
    iteration: object = None, epoch: object = None, **_: object,
) -> Timer:  # fmt: skip
    return NO_SPAN  # named parameters, because collecting them into a tuple costs a third more


def _ignore(*_: object, **__: object) -> None:
    pass

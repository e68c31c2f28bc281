"""What instrumentation calls: operations that no ``with`` encloses, and calls that are timed as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from timing_logger.recording.context import Context
from timing_logger.recording.cores.protocols import Counts, NumberedGroup, Waitable
from timing_logger.recording.cores.python.core import BackgroundSpan, Span, Unrecorded, Wait
from timing_logger.schema.record import OK

S = TypeVar("S", bound=Span)
B = TypeVar("B", bound=BackgroundSpan)
R = TypeVar("R")


class InstrumentedCalls(Context):
    """Times operations for instrumentation, at the lowest cost: arguments go by position."""

    def begin_operation(
        self,
        kind: type[S],
        operation: str | None,
        message_size: int | None,
        layer_name: str | None,
        group: str,
        group_size: int | None,
        peer: int | None,
    ) -> S:
        """Create a span of class ``kind`` that no ``with`` encloses: the fastest entry for instrumentation.

        The caller enters the span and writes it, and checks whether the current iteration is recorded. The
        arguments are those of ``record_mpi_operation``, all by position.
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
        span.work = self._work
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
            operation, message_size, layer_name, peer: as for ``record_mpi_operation``.
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
            operation, message_size, layer_name, peer: as for ``record_mpi_operation``.
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

    def begin_background(
        self,
        operation: str,
        message_size: int | None,
        peer: int | None,
        group: NumberedGroup,
        seq: int | None,
        learn: Callable[[BackgroundSpan, Any], str] | None,
        start_ns: int,
        has_rows: bool = True,
    ) -> BackgroundSpan:
        """Record an operation that a call began, and that goes on: for instrumentation.

        The caller sees to it that the operation's end is noted.

        Args:
            operation, message_size, peer, seq: as for ``record_mpi_operation``.
            group: supplies the name and the size.
            learn: see :class:`BackgroundSpan`.
            start_ns: when the call began.
            has_rows: whether the current iteration is recorded.
        """
        span = self.begin_operation(
            BackgroundSpan, operation, message_size, None, group.name, group.size, peer
        )
        span.seq = seq
        span.begin(True, self, start_ns, has_rows)
        span.learn = learn
        return span

    def add_group(self, group: Counts, name: str) -> None:
        """Have the sidecar state how many collectives ``group`` has begun: for instrumentation.

        Args:
            name: the name of the group in its rows.
        """
        self._open_calls.add_group(group, name)

    def note_process_group(self, kind: str) -> None:
        """Have the sidecar state what times process groups, "native" or "python": for instrumentation."""
        self._open_calls.process_group = kind

    def count_untimed(self, name: str) -> None:
        """Have the sidecar state a call that may wait for other ranks and makes no row: for instrumentation.

        Args:
            name: the name of MPI's function, without ``MPI_``.
        """
        if self._enabled:
            self._open_calls.untimed[name] += 1

    def begin_wait(self, of: Sequence[Span]) -> Wait:
        """Begin a wait of the calling thread for operations that were left running, and return it.

        The thread counts as blocked until it leaves the wait.
        """
        return self._core.Wait(of, self._caller)

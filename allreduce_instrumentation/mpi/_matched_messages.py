"""Times probes, and the receiving of messages that matched probes return."""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeVar

from mpi4py import MPI

from allreduce_instrumentation.mpi._calls import MpiMethod, Parameters, operation_name, with_status
from allreduce_instrumentation.mpi._comm_identity import TimedComm, Timing, bytes_of, failure, sender_of
from allreduce_instrumentation.mpi._requests import TimedRequest
from timing_logger.schema.record import OK

if TYPE_CHECKING:
    from mpi4py.typing import BufSpec
    from typing_extensions import Self


R = TypeVar("R")


def probe(method: MpiMethod) -> MpiMethod:
    """Return the timed form of ``method``, which probes for a message.

    The row has the sender and the bytes of the message. A probe that finds no message writes no row.
    """
    operation, parameters = operation_name(method), Parameters(method)
    status_at = parameters.position("status")

    @functools.wraps(method)
    def timed(self: TimedComm, *args: object, **kwargs: object) -> object:
        timing: Timing = self._timing
        args, kwargs, told = with_status(args, kwargs, parameters.given(args, kwargs), status_at)
        span = timing.begin(operation)
        if span is not None:
            span.enter()
        try:
            found = method(self, *args, **kwargs)
        except BaseException as error:
            if span is not None:
                span.finish(failure(error)[0])
            raise
        end_ns = None if span is None else span.leave()
        if not found or told is None:
            return found
        sender = sender_of(told)
        size = None if sender is None else bytes_of(told)
        if span is not None:
            span.peer, span.message_size_bytes = sender, size
            span.write(operation, span.start_ns, end_ns, OK)
        return TimedMessage.of(found, timing, sender, size) if isinstance(found, MPI.Message) else found

    return timed


class TimedMessage(MPI.Message):
    """An ``MPI.Message`` whose receiving makes a row, as for any other message."""

    __slots__ = ("_nbytes", "_sender", "_timing")
    _timing: Timing | None
    _sender: int | None
    _nbytes: int | None

    def __new__(cls, message: MPI.Message | None = None) -> Self:
        self = super().__new__(cls, message)
        self._timing = self._sender = self._nbytes = None
        return self

    @classmethod
    def of(cls, message: MPI.Message, timing: Timing, sender: int | None, nbytes: int | None) -> TimedMessage:
        """Return a timed message in the place of ``message``, whose sender and size the probe found."""
        timed = cls(message)
        timed._timing, timed._sender, timed._nbytes = timing, sender, nbytes
        return timed

    def Recv(self, buf: BufSpec, status: MPI.Status | None = None) -> None:
        self._received(functools.partial(super().Recv, buf, status))

    def recv(self, status: MPI.Status | None = None) -> Any:
        return self._received(functools.partial(super().recv, status))

    def Irecv(self, buf: BufSpec) -> MPI.Request:
        return self._issued(functools.partial(super().Irecv, buf))

    def irecv(self) -> MPI.Request:
        return self._issued(super().irecv)

    def _received(self, receive: Callable[[], R]) -> R:
        span, status, reached_mpi = None, OK, True
        if self._timing is not None:
            span = self._timing.begin("RECV")
        if span is not None:
            span.message_size_bytes, span.peer = self._nbytes, self._sender
            span.enter()
        try:
            return receive()
        except BaseException as error:
            status, reached_mpi = failure(error)
            raise
        finally:
            seq = self._count() if reached_mpi else None
            if span is not None:
                span.seq = seq
                span.finish(status)

    def _issued(self, receive: Callable[[], MPI.Request]) -> MPI.Request:
        start = perf_counter_ns()
        request = receive()
        if self._timing is None:
            return request
        seq = self._count()
        if not self._timing.logger.recording:
            return request
        operation = self._timing.logger.begin_background(
            "IRECV", self._nbytes, self._sender, self._timing, seq, None, start
        )
        return TimedRequest.of(request, operation)

    def _count(self) -> int | None:
        return None if self._timing is None else self._timing.identity.next_message(None, self._sender)

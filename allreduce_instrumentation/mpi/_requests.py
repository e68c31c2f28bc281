"""Requests and matched messages: what a call returns, and whose row a later call writes.

Requests write their rows when a call sees that they are complete.

Waiting for several requests is a class method in mpi4py, ``MPI.Request.Waitall(requests)``. So stand-ins take
the place of ``MPI.Request`` and ``MPI.Prequest``. If the name was imported before (``from mpi4py.MPI import
Request``), the wait is not seen, and the rows of such requests end as ``unresolved``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from mpi4py import MPI

from allreduce_instrumentation.mpi._calls import (
    Collective,
    Message,
    MpiMethod,
    Parameters,
    operation_name,
    with_status,
)
from allreduce_instrumentation.mpi._comm_identity import (
    TimedComm,
    Timing,
    bytes_of,
    failure,
    learn_whether_cancelled,
    sender_of,
)
from allreduce_instrumentation.mpi._operations import Arguments
from allreduce_instrumentation.mpi._stand_ins import StandIn
from timing_logger.recording.cores.chosen import (
    BackgroundSpan,
    completing_method,
    handle_class,
    issued_method,
)
from timing_logger.recording.cores.issued_calls import CommonCalls, CompletingCall
from timing_logger.schema.record import OK, UNRESOLVED

if TYPE_CHECKING:
    from mpi4py.typing import BufSpec
    from typing_extensions import Self

# mpi4py's own classes: their names in MPI will refer to stand-ins.
_Request: TypeAlias = MPI.Request  # mpi4py's own: the name will refer to a stand-in
_Prequest: TypeAlias = MPI.Prequest

Begin = Callable[..., "BackgroundSpan | None"]
"""A function from ``(start_ns)`` to the operation that the start of a persistent request begins."""


_Places: TypeAlias = "Callable[[Any], Iterable[int] | None] | None"
"""From a call's result to the places of the requests that it saw complete: see :class:`CompletingCall`."""


def _seeing(name: str, places: _Places) -> Any:
    """Return the timed form of the method ``name`` of requests."""
    call = getattr(_Request, name)
    names = tuple(inspect.signature(call).parameters)
    blocks, of_one, tells_each = name.lower().startswith("wait"), names[0] == "self", names[1] == "statuses"
    method = completing_method(CompletingCall(call, names, blocks, of_one, tells_each, MPI.Status, places))
    return method if of_one else staticmethod(method)  # the class for which it is called does not matter


def _place(index: int | None) -> tuple[int, ...]:
    return () if index is None or index == MPI.UNDEFINED else (index,)


class Completions:
    """All methods that can see requests complete; they write the rows of timed requests."""

    __slots__ = ()

    Wait = _seeing("Wait", None)
    wait = _seeing("wait", None)
    Test = _seeing("Test", lambda result: None if result else ())
    test = _seeing("test", lambda result: None if result[0] else ())

    Waitany = _seeing("Waitany", _place)
    waitany = _seeing("waitany", lambda result: _place(result[0]))
    Testany = _seeing("Testany", lambda result: _place(result[0] if result[1] else None))
    testany = _seeing("testany", lambda result: _place(result[0] if result[1] else None))

    Waitall = _seeing("Waitall", None)
    waitall = _seeing("waitall", None)
    Testall = _seeing("Testall", lambda result: None if result else ())
    testall = _seeing("testall", lambda result: None if result[0] else ())
    Waitsome = _seeing("Waitsome", lambda result: result or ())
    waitsome = _seeing("waitsome", lambda result: result[0] or ())
    Testsome = _seeing("Testsome", lambda result: result or ())
    testsome = _seeing("testsome", lambda result: result[0] or ())


class Starts:
    """Both methods that start persistent requests; they open the rows of timed requests."""

    __slots__ = ()

    def Start(self: Any) -> None:
        """Initiate a communication with a persistent request."""
        start = perf_counter_ns()
        _Prequest.Start(self)
        _begin(self, start)

    @classmethod
    def Startall(cls, requests: list[MPI.Prequest]) -> None:
        """Start a collection of persistent requests."""
        start = perf_counter_ns()
        _Prequest.Startall(requests)
        for request in requests:
            _begin(request, start)


def _begin(request: MPI.Prequest, start_ns: int) -> None:
    if isinstance(request, TimedPrequest):
        if request._operation is not None:  # complete, or it could not be started again
            request._operation.lose()
        request._operation = request._begin(start_ns)


# -- timed requests ---------------------------------------------------------------------------------------


class _TimedRequest(Completions):
    """What timed requests of both kinds add to mpi4py's."""

    __slots__ = ()
    _operation: BackgroundSpan | None

    def Cancel(self: Any) -> None:
        """Cancel a request."""
        _Request.Cancel(self)
        operation: BackgroundSpan | None = getattr(self, "_operation", None)
        if operation is not None:
            operation.learn = partial(learn_whether_cancelled, operation.learn)

    cancel = Cancel


@handle_class
class TimedRequest(_TimedRequest, _Request):
    """An ``MPI.Request`` that writes two rows when it completes: its operation, and ``WAIT``."""

    __slots__ = ("_operation",)

    @classmethod
    def of(cls, request: MPI.Request, operation: BackgroundSpan) -> TimedRequest:
        """Return a timed request that takes the place of ``request``."""
        timed = cls(request)
        timed._operation = operation
        return timed


@handle_class
class TimedPrequest(Starts, _TimedRequest, _Prequest):
    """An ``MPI.Prequest`` that writes two rows, operation and ``WAIT``, for each start that completes."""

    __slots__ = ("_begin", "_operation")
    _begin: Begin

    @classmethod
    def of(cls, request: MPI.Request, begin: Begin) -> TimedPrequest:
        """Return a timed persistent request that takes the place of ``request``."""
        timed = cls(request)
        timed._begin = begin
        timed._operation = None
        return timed


STAND_INS = StandIn.of(_Request, Completions), StandIn.of(_Prequest, Starts, Completions)
"""What takes the place of ``MPI.Request`` and ``MPI.Prequest``."""


def issued(method: MpiMethod, call: Collective | Message) -> MpiMethod:
    """Return the timed form of ``method``, which returns a request; it is timed until that is complete."""

    @functools.wraps(method)
    def timed(self: TimedComm, *args: object, **kwargs: object) -> MPI.Request:
        timing: Timing = self._timing
        start = perf_counter_ns()
        try:
            request: MPI.Request = method(self, *args, **kwargs)
        except BaseException as error:
            refused(timing, call, start, call.parameters.given(args, kwargs), error)
            raise
        operation = call.begin(timing, start, call.parameters.given(args, kwargs))
        if operation is None:
            return request
        if not isinstance(request, _Request):  # a subclass's own: nobody tells when it is complete
            operation.end_with(UNRESOLVED)
            return request
        return TimedRequest.of(request, operation)

    def refuse(self: TimedComm, start_ns: int, args: Arguments, error: BaseException) -> None:
        refused(self._timing, call, start_ns, call.parameters.given(args, {}), error)

    if not call.is_plain:
        return timed
    common = CommonCalls(
        method, call.operation, call.rank_at, call.sends, call.sized, call.learn,
        plain=_Request, handle=TimedRequest, refused=refuse,
    )  # fmt: skip
    return issued_method(timed, common)


def prepared(method: MpiMethod, call: Collective | Message) -> MpiMethod:
    """Return the timed form of ``method``, which returns a persistent request.

    Each start of the request is timed until its completion.
    """

    @functools.wraps(method)
    def timed(self: TimedComm, *args: object, **kwargs: object) -> MPI.Prequest:
        request: MPI.Prequest = method(self, *args, **kwargs)
        if not isinstance(request, MPI.Prequest):  # a subclass's own
            return request
        given = call.parameters.given(args, kwargs)
        return TimedPrequest.of(request, functools.partial(call.begin, self._timing, given=given))

    return timed


def refused(
    timing: Timing, call: Collective | Message, start_ns: int, given: Arguments, error: BaseException
) -> None:
    """Write the row of a call that raised ``error``, which counts if MPI saw it."""
    status, reached_mpi = failure(error)
    operation = None
    if reached_mpi:
        operation = call.begin(timing, start_ns, given)
    elif timing.logger.recording:
        operation = timing.logger.begin_background(call.operation, None, None, timing, None, None, start_ns)
    if operation is not None:
        operation.end_with(status)


# -- probes, and the receiving of messages that matched probes return ----------------------------------


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
        status, reached_mpi = OK, True
        span = None if self._timing is None else self._timing.begin("RECV")
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

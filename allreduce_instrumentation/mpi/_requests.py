"""Requests that write their rows when a call sees that they are complete.

Waiting for several requests is a class method in mpi4py, ``MPI.Request.Waitall(requests)``. So stand-ins take
the place of ``MPI.Request`` and ``MPI.Prequest``. If the name was imported before (``from mpi4py.MPI import
Request``), the wait is not seen, and the rows of such requests end as ``unresolved``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter_ns
from typing import Any, TypeAlias

from mpi4py import MPI

from allreduce_instrumentation.mpi._pending import learn_whether_cancelled
from allreduce_instrumentation.mpi._stand_ins import StandIn
from timing_logger.recording.cores.chosen import BackgroundSpan, completing_method, handle_class
from timing_logger.recording.cores.issued_calls import CompletingCall

# mpi4py's own classes: their names in MPI will refer to stand-ins.
_Request: TypeAlias = MPI.Request
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

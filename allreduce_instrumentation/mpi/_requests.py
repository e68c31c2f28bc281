"""Requests that write their rows when a call sees that they are complete.

Waiting for several requests is a class method in mpi4py, ``MPI.Request.Waitall(requests)``. So stand-ins take
the place of ``MPI.Request`` and ``MPI.Prequest``. If the name was imported before (``from mpi4py.MPI import
Request``), the wait is not seen, and the rows of such requests end as ``unresolved``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any, TypeAlias

from mpi4py import MPI

from allreduce_instrumentation.mpi._pending import learn_whether_cancelled
from allreduce_instrumentation.mpi._stand_ins import StandIn
from timing_logger.recording.cores.chosen import BackgroundSpan, Completion, lose_operation

# mpi4py's own classes: their names in MPI will refer to stand-ins.
_Request: TypeAlias = MPI.Request
_Prequest: TypeAlias = MPI.Prequest

Begin = Callable[..., "BackgroundSpan | None"]
"""A function from ``(start_ns)`` to the operation that the start of a persistent request begins."""


def _one(name: str, is_complete: Callable[[Any], bool]) -> Any:
    """Return the timed method ``name`` of one request; ``is_complete`` tells from its result."""
    original, blocks = getattr(_Request, name), name.lower().startswith("wait")

    @functools.wraps(original)
    def seeing(self: MPI.Request, status: MPI.Status | None = None) -> object:
        call = Completion.of_handles((self,), blocks)
        if call is None:
            return original(self, status)
        if status is None and call.learns:
            status = MPI.Status()
        try:
            result = original(self, status)
        except BaseException as error:
            call.failed(error)
            raise
        call.saw(None if is_complete(result) else (), (status,))
        return result

    return seeing


def _any(name: str, completed: Callable[[Any], int | None]) -> Any:
    """Return the timed class method ``name`` that completes one request at most; ``completed`` says which."""
    original, blocks = getattr(_Request, name), name.lower().startswith("wait")

    def seeing(cls: type, requests: Sequence[MPI.Request], status: MPI.Status | None = None) -> object:
        call = Completion.of_handles(requests, blocks)
        if call is None:
            return original(requests, status)
        if status is None and call.learns:
            status = MPI.Status()
        try:
            result = original(requests, status)
        except BaseException as error:
            call.failed(error)
            raise
        index = completed(result)
        call.saw(() if index is None or index == MPI.UNDEFINED else (index,), (status,))
        return result

    return classmethod(functools.wraps(original)(seeing))


def _some(name: str, completed: Callable[[Any], Iterable[int] | None]) -> Any:
    """Return the timed class method ``name`` that completes several requests.

    ``completed`` says which, in the order of the statuses; None for all.
    """
    original, blocks = getattr(_Request, name), name.lower().startswith("wait")

    def seeing(
        cls: type, requests: Sequence[MPI.Request], statuses: list[MPI.Status] | None = None
    ) -> object:
        call = Completion.of_handles(requests, blocks)
        if call is None:
            return original(requests, statuses)
        if statuses is None and call.learns:
            statuses = []
        try:
            result = original(requests, statuses)
        except BaseException as error:
            call.failed(error)
            raise
        call.saw(completed(result), statuses)
        return result

    return classmethod(functools.wraps(original)(seeing))


class Completions:
    """All methods that can see requests complete; they write the rows of timed requests."""

    __slots__ = ()

    Wait = _one("Wait", lambda result: True)
    wait = _one("wait", lambda result: True)
    Test = _one("Test", bool)
    test = _one("test", lambda result: result[0])

    Waitany = _any("Waitany", lambda result: result)
    waitany = _any("waitany", lambda result: result[0])
    Testany = _any("Testany", lambda result: result[0] if result[1] else None)
    testany = _any("testany", lambda result: result[0] if result[1] else None)

    Waitall = _some("Waitall", lambda result: None)
    waitall = _some("waitall", lambda result: None)
    Testall = _some("Testall", lambda result: None if result else ())
    testall = _some("testall", lambda result: None if result[0] else ())
    Waitsome = _some("Waitsome", lambda result: result or ())
    waitsome = _some("waitsome", lambda result: result[0] or ())
    Testsome = _some("Testsome", lambda result: result or ())
    testsome = _some("testsome", lambda result: result[0] or ())


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

    __del__ = lose_operation


class TimedRequest(_TimedRequest, _Request):
    """An ``MPI.Request`` that writes two rows when it completes: its operation, and ``WAIT``."""

    __slots__ = ("_operation",)

    @classmethod
    def of(cls, request: MPI.Request, operation: BackgroundSpan) -> TimedRequest:
        """Return a timed request that takes the place of ``request``."""
        timed = cls(request)
        timed._operation = operation
        return timed


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

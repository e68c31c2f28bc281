"""Requests that write their rows when a call sees that they are complete.

Waiting for several requests is a class method in mpi4py, ``MPI.Request.Waitall(requests)``. So stand-ins take
the place of ``MPI.Request`` and ``MPI.Prequest``. If the name was imported before (``from mpi4py.MPI import
Request``), the wait is not seen, and the rows of such requests end as ``unresolved``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter_ns
from typing import Any, TypeAlias

from mpi4py import MPI

from allreduce_instrumentation.mpi._pending import Pending, failure
from allreduce_instrumentation.mpi._stand_ins import StandIn

# mpi4py's own classes: their names in MPI will refer to stand-ins.
_Request: TypeAlias = MPI.Request
_Prequest: TypeAlias = MPI.Prequest

Begin = Callable[..., "Pending | None"]
"""A function from ``(start_ns)`` to the operation that the start of a persistent request begins."""


def _called(
    original: Callable[..., Any], timed: list[Any], blocks: bool, *args: object
) -> tuple[Any, int, int]:
    """Call mpi4py's method, and return its result and when the call began and ended, in ns.

    If the call ``blocks``, the thread counts as blocked on those of the requests ``timed`` that have a row.
    """
    spans = [span for each in timed if (span := each._pending.span) is not None] if blocks else []
    blocked = timed[0]._pending.timing.logger.begin_wait(spans) if spans else None
    start_ns = perf_counter_ns()
    try:
        result = original(*args)
    except BaseException as error:
        _settle_failed(timed, start_ns, error)
        raise
    finally:
        if blocked is not None:
            blocked.leave()
    return result, start_ns, perf_counter_ns()


# -- seeing one request complete ------------------------------------------------------------------------


def _one(name: str, is_complete: Callable[[Any], bool]) -> Any:
    """Return the timed method ``name`` of one request; ``is_complete`` tells from its result."""
    original, blocks = getattr(_Request, name), name.lower().startswith("wait")

    @functools.wraps(original)
    def seeing(self: TimedRequest | TimedPrequest, status: MPI.Status | None = None) -> object:
        pending: Pending | None = getattr(self, "_pending", None)
        if pending is None:
            return original(self, status)
        if status is None and pending.needs_status:
            status = MPI.Status()
        result, start, end = _called(original, [self], blocks, self, status)
        if is_complete(result):
            self._pending = None
            pending.complete(start, end, status)
        return result

    return seeing


# -- seeing some of several complete ----------------------------------------------------------------------


def _any(name: str, completed: Callable[[Any], int | None]) -> Any:
    """Return the timed class method ``name`` that completes one request at most; ``completed`` says which."""
    original, blocks = getattr(_Request, name), name.lower().startswith("wait")

    def seeing(cls: type, requests: Sequence[MPI.Request], status: MPI.Status | None = None) -> object:
        timed, need_status = _timed(requests)
        if not timed:
            return original(requests, status)
        if status is None and need_status:
            status = MPI.Status()
        result, start, end = _called(original, timed, blocks, requests, status)
        index = completed(result)
        if index is not None and index != MPI.UNDEFINED:
            _settle(requests[index], start, end, status)
        return result

    return classmethod(functools.wraps(original)(seeing))


def _some(name: str, completed: Callable[[Any, int], Iterable[int]]) -> Any:
    """Return the timed class method ``name`` that completes several requests.

    ``completed`` says which, in the order of the statuses.
    """
    original, blocks = getattr(_Request, name), name.lower().startswith("wait")

    def seeing(
        cls: type, requests: Sequence[MPI.Request], statuses: list[MPI.Status] | None = None
    ) -> object:
        timed, need_status = _timed(requests)
        if not timed:
            return original(requests, statuses)
        if statuses is None and need_status:
            statuses = []
        result, start, end = _called(original, timed, blocks, requests, statuses)
        for place, index in enumerate(completed(result, len(requests))):
            status = statuses[place] if statuses and place < len(statuses) else None
            _settle(requests[index], start, end, status)
        return result

    return classmethod(functools.wraps(original)(seeing))


def _timed(requests: Any) -> tuple[list[Any], bool]:
    """Return the requests whose rows are open, and whether one of them needs its status.

    Never raises, as mpi4py itself raises for wrong arguments.
    """
    timed, need_status = [], False
    try:
        for request in requests:
            pending = getattr(request, "_pending", None)
            if pending is not None:
                timed.append(request)
                need_status = need_status or pending.needs_status
    except Exception:
        return [], False
    return timed, need_status


def _settle(request: Any, start_ns: int, end_ns: int, status: MPI.Status | None) -> None:
    pending: Pending | None = getattr(request, "_pending", None)
    if pending is not None:
        request._pending = None
        pending.complete(start_ns, end_ns, status)


def _settle_failed(timed: list[Any], start_ns: int, error: BaseException) -> None:
    """Complete the requests that MPI freed at an error; the others may be waited for again."""
    end_ns, (outcome, _) = perf_counter_ns(), failure(error)
    for request in timed:
        if not request:
            pending, request._pending = request._pending, None
            pending.complete(start_ns, end_ns, None, outcome)


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

    Waitall = _some("Waitall", lambda result, count: range(count))
    waitall = _some("waitall", lambda result, count: range(count))
    Testall = _some("Testall", lambda result, count: range(count) if result else ())
    testall = _some("testall", lambda result, count: range(count) if result[0] else ())
    Waitsome = _some("Waitsome", lambda result, count: result or ())
    waitsome = _some("waitsome", lambda result, count: result[0] or ())
    Testsome = _some("Testsome", lambda result, count: result or ())
    testsome = _some("testsome", lambda result, count: result[0] or ())


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
        if request._pending is not None:  # complete, or it could not be started again
            request._pending.lose()
        request._pending = request._begin(start_ns)


# -- timed requests ---------------------------------------------------------------------------------------


class _TimedRequest(Completions):
    """What timed requests of both kinds add to mpi4py's."""

    __slots__ = ()
    _pending: Pending | None

    def Cancel(self: Any) -> None:
        """Cancel a request."""
        _Request.Cancel(self)
        pending: Pending | None = getattr(self, "_pending", None)
        if pending is not None:
            pending.cancelled = True

    cancel = Cancel

    def __del__(self) -> None:
        """Write the row as unresolved if no timed call saw the request complete."""
        pending: Pending | None = getattr(self, "_pending", None)  # not set if it was not made by `of`
        if pending is not None:
            pending.lose()


class TimedRequest(_TimedRequest, _Request):
    """An ``MPI.Request`` that writes two rows when it completes: its operation, and ``WAIT``."""

    __slots__ = ("_pending",)

    @classmethod
    def of(cls, request: MPI.Request, pending: Pending) -> TimedRequest:
        """Return a timed request that takes the place of ``request``."""
        timed = cls(request)
        timed._pending = pending
        return timed


class TimedPrequest(Starts, _TimedRequest, _Prequest):
    """An ``MPI.Prequest`` that writes two rows, operation and ``WAIT``, for each start that completes."""

    __slots__ = ("_begin", "_pending")
    _begin: Begin

    @classmethod
    def of(cls, request: MPI.Request, begin: Begin) -> TimedPrequest:
        """Return a timed persistent request that takes the place of ``request``."""
        timed = cls(request)
        timed._begin = begin
        timed._pending = None
        return timed


STAND_INS = StandIn.of(_Request, Completions), StandIn.of(_Prequest, Starts, Completions)
"""What takes the place of ``MPI.Request`` and ``MPI.Prequest``."""

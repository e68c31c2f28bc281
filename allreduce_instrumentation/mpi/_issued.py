"""Makes timed methods of those that begin an operation and return a request, at once or to be started."""

from __future__ import annotations

import functools
from time import perf_counter_ns
from typing import TypeAlias

from mpi4py import MPI

from allreduce_instrumentation.mpi._calls import Collective, Message, MpiMethod
from allreduce_instrumentation.mpi._operations import Arguments
from allreduce_instrumentation.mpi._pending import TimedComm, Timing, failure
from allreduce_instrumentation.mpi._requests import TimedPrequest, TimedRequest
from timing_logger.recording.cores.chosen import issued_method
from timing_logger.recording.cores.issued_calls import CommonCalls
from timing_logger.schema.record import UNRESOLVED

_Request: TypeAlias = MPI.Request  # mpi4py's own: the name will refer to a stand-in


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

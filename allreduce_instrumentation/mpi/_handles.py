"""Times the methods of windows and files, whose ranks are those of the communicator that they are made of."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, TypeAlias

from mpi4py import MPI

from allreduce_instrumentation.mpi._calls import MpiMethod, Parameters, with_status
from allreduce_instrumentation.mpi._comm_identity import HandleIdentity, Timing, as_rank, bytes_of, failure
from allreduce_instrumentation.mpi._operations import (
    COLLECTIVES_OF_FILES,
    MAKE_WINDOWS,
    ON_SOME_OF_A_WINDOW,
    READS_OF_FILES,
    UNTIMED_OF_FILES,
    UNTIMED_OF_WINDOWS,
    Arguments,
    Size,
)
from allreduce_instrumentation.mpi._stand_ins import StandIn
from allreduce_instrumentation.mpi._timed_methods import counted
from timing_logger.recording.cores.protocols import NeverWaitedFor
from timing_logger.schema.record import OK


def _timing_of(handle: object) -> Timing | None:
    """Return the timing of a communicator, window or file; None if it is not timed."""
    timing = getattr(handle, "_timing", None)
    return timing if isinstance(timing, Timing) else None


def _called(
    timing: Timing,
    operation: str,
    method: MpiMethod,
    args: Arguments,
    kwargs: dict[str, Any],
    size: int | None,
) -> Any:
    if not timing.logger.enabled:
        return counted(timing, method, args, kwargs)
    bound = partial(method, **kwargs) if kwargs else method
    return timing.logger.time_call(operation, size, None, None, timing, NeverWaitedFor, bound, args)


def making(plain: type, timed: Callable[[], type], name: str, operation: str, what: str) -> Any:
    """Return the class method ``name`` of ``plain``: timed, if the communicator that it is given is.

    Args:
        plain: mpi4py's class.
        timed: returns the class of the handle that is made then.
        name: the name of the method.
        operation: the operation of its row, which is one of the communicator's.
        what: what is made, in the name of the group that further rows have.
    """
    original: MpiMethod = getattr(plain, name)
    comm_at = list(signature(original).parameters).index("comm")

    @functools.wraps(original)
    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        comm: Any = args[comm_at] if len(args) > comm_at else kwargs.get("comm")
        timing = _timing_of(comm)
        if timing is None:
            return original(*args, **kwargs)
        kind: Any = timed()
        made = _called(timing, operation, vars(plain)[name].__get__(None, kind), args, kwargs, None)
        made._timing = Timing(HandleIdentity.taken(comm, what), timing.logger)
        return made

    return classmethod(make)


def on_all(
    method: MpiMethod, operation: str | Callable[[Arguments], str], size: Size | None = None
) -> MpiMethod:
    """Return the timed form of ``method``, which all ranks call in the same order.

    Args:
        method: mpi4py's method.
        operation: the operation of its row, or what tells that from the arguments.
        size: tells how many bytes a call sends; None for nothing.
    """
    parameters = Parameters(method)

    @functools.wraps(method)
    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        timing = _timing_of(self)
        if timing is None:
            return method(self, *args, **kwargs)
        given = parameters.given(args, kwargs)
        sent = None if size is None else size(given, timing.identity)
        name = operation if isinstance(operation, str) else operation(given)
        return _called(timing, name, method, (self, *args), kwargs, sent)

    return timed


def reading(method: MpiMethod, operation: str) -> MpiMethod:
    """Return the timed form of ``method``, by which all ranks read: the status tells how much there was."""
    parameters = Parameters(method)
    status_at = parameters.position("status")

    @functools.wraps(method)
    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        timing = _timing_of(self)
        if timing is None:
            return method(self, *args, **kwargs)
        if not timing.logger.recording:
            return _called(timing, operation, method, (self, *args), kwargs, None)
        args, kwargs, told = with_status(args, kwargs, parameters.given(args, kwargs), status_at)
        span: Any = timing.begin(operation)
        span.seq, status = timing.next_collective(), OK
        span.enter()
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            status, told = failure(error)[0], None
            if timing.take_back(error):
                span.seq = None
            raise
        finally:
            end_ns = span.leave()
            span.message_size_bytes = None if told is None else bytes_of(told)
            span.write(operation, span.start_ns, end_ns, status)

    return timed


def on_some(method: MpiMethod, operation: str) -> MpiMethod:
    """Return the timed form of ``method``, in which a rank may wait for some others; it has no number."""
    parameters = Parameters(method)
    rank_at = parameters.position("rank")

    @functools.wraps(method)
    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        timing = _timing_of(self)
        span = None if timing is None else timing.begin(operation)
        if span is None:
            return method(self, *args, **kwargs)
        span.peer = None if rank_at is None else as_rank(parameters.given(args, kwargs)[rank_at])
        span.enter()
        try:
            result = method(self, *args, **kwargs)
        except BaseException as error:
            span.finish(failure(error)[0])
            raise
        span.finish(OK)
        return result

    return timed


def ending(method: MpiMethod, operation: str) -> MpiMethod:
    """Return the timed form of ``method``, which all ranks call to be rid of the handle."""
    end = on_all(method, operation)

    @functools.wraps(method)
    def timed(self: Any) -> None:
        timing = _timing_of(self)
        end(self)
        if timing is not None:
            del self._timing
            timing.identity.give_back()  # type: ignore[attr-defined]

    return timed


def counting(method: MpiMethod, name: str, is_over: Callable[[Any], Any] = lambda result: True) -> MpiMethod:
    """Return the form of ``method`` that has the sidecar count it as untimed.

    Args:
        method: mpi4py's method.
        name: the name of MPI's function, without ``MPI_``.
        is_over: tells from the result of a call whether it counts.
    """

    @functools.wraps(method)
    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        timing = _timing_of(self)
        if timing is not None and is_over(result):
            timing.logger.count_untimed(name)
        return result

    return timed


# -- files that the ranks of a timed communicator opened, whose collective calls are timed ---------------


_File: TypeAlias = MPI.File


class TimedFile(_File):
    """An ``MPI.File`` whose collective calls time themselves, as those of a :class:`TimedIntracomm` do.

    The group in its rows is named after the ranks that opened the file: ``ranks 0-3 file``.
    """

    Close = ending(_File.Close, "FILE_CLOSE")

    def free(self) -> None:
        """Call Close if not null."""
        if self:
            self.Close()


for _name, _size in COLLECTIVES_OF_FILES.items():
    setattr(TimedFile, _name, on_all(getattr(_File, _name), f"FILE_{_name.upper()}", _size))
for _name in READS_OF_FILES:
    setattr(TimedFile, _name, reading(getattr(_File, _name), f"FILE_{_name.upper()}"))
for _name in UNTIMED_OF_FILES:
    setattr(TimedFile, _name, counting(getattr(_File, _name), f"File_{_name.lower()}"))


class _FileMakers:
    __slots__ = ()
    Open = making(_File, lambda: TimedFile, "Open", "FILE_OPEN", "file")


STAND_IN_OF_FILES = StandIn.of(_File, _FileMakers, timed=TimedFile)
"""What takes the place of ``MPI.File``."""


# -- windows of timed communicators, for one-sided communication, whose synchronisation is timed ---------


_Win: TypeAlias = MPI.Win


def _fence(given: tuple[Any, ...]) -> str:
    """Return the operation of a fence: one that ends no epoch need not wait for anybody."""
    try:
        return "WIN_FENCE_NOPRECEDE" if given[0] & MPI.MODE_NOPRECEDE else "WIN_FENCE"
    except TypeError:
        return "WIN_FENCE"


class TimedWin(_Win):
    """An ``MPI.Win`` whose synchronisation times itself, as a :class:`TimedIntracomm` does.

    The group in its rows is named after the ranks of the window: ``ranks 0-3 window``.
    """

    Fence = on_all(_Win.Fence, _fence)
    Free = ending(_Win.Free, "WIN_FREE")

    def free(self) -> None:
        """Call Free if not null."""
        if self:
            self.Free()


for _name in ON_SOME_OF_A_WINDOW:
    setattr(TimedWin, _name, on_some(getattr(_Win, _name), f"WIN_{_name.upper()}"))
for _name in UNTIMED_OF_WINDOWS:
    setattr(TimedWin, _name, counting(getattr(_Win, _name), _name))
TimedWin.Test = counting(_Win.Test, "Win_test", bool)  # type: ignore[method-assign]

_WINDOW_MAKERS = {
    name: making(_Win, lambda: TimedWin, name, f"WIN_{name.upper()}", "window") for name in MAKE_WINDOWS
}
STAND_IN_OF_WINDOWS = StandIn.of(
    _Win, type("Makers", (), {"__slots__": (), **_WINDOW_MAKERS}), timed=TimedWin
)
"""What takes the place of ``MPI.Win``."""

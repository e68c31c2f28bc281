"""How a method of a communicator becomes one that times itself: as a collective or as a message."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mpi4py import MPI

from allreduce_instrumentation._buffer_size import spec_bytes
from allreduce_instrumentation._comm_identity import CommIdentity
from timing_logger.global_logger import get_timing_logger
from timing_logger.record import OK

if TYPE_CHECKING:
    from timing_logger.logger import TimingLogger

Arguments = tuple[Any, ...]
"""The values of a call, one per parameter of the method, without ``self``."""

Size = Callable[[Arguments, int], "int | None"]
"""From a call's arguments and the number of ranks to the bytes that this rank sends."""

_Method = TypeVar("_Method", bound=Callable[..., Any])

_MISSING = object()


class Timing:
    """What every row of one communicator has in common."""

    __slots__ = ("group", "group_size", "identity", "logger")

    def __init__(self, comm: MPI.Comm, logger: TimingLogger | None, group: str | None) -> None:
        self.logger: TimingLogger = get_timing_logger() if logger is None else logger
        self.identity = CommIdentity.of(comm)
        self.group = self.identity.name if group is None else group
        self.group_size = self.identity.size


class _Parameters:
    """The parameters of a method, read once: a call's arguments are found without binding them."""

    def __init__(self, method: Callable[..., Any]) -> None:
        parameters = list(inspect.signature(method).parameters.values())[1:]
        self._names = tuple(p.name for p in parameters)
        self._defaults = tuple(_MISSING if p.default is p.empty else p.default for p in parameters)

    def position(self, name: str | None) -> int | None:
        return None if name is None else self._names.index(name)

    def given(self, args: Arguments, kwargs: Mapping[str, Any]) -> Arguments:
        """One value per parameter, in order; never raises, also not for a call that will."""
        values = args + self._defaults[len(args) :]
        if kwargs:
            values = tuple(map(kwargs.get, self._names, values))
        return values


def collective(method: _Method, *, size: Size | None = None, root: str | None = None) -> _Method:
    """``method``, timed, as a collective; ``root`` names the argument that does, if one does."""
    operation = method.__name__.upper()
    parameters = _Parameters(method)
    root_at = parameters.position(root)

    @functools.wraps(method)
    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        timing: Timing = self._timing
        start = perf_counter_ns() if timing.logger.recording else 0
        status, reached_mpi = OK, True
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            status, reached_mpi = _failure(error)
            raise
        finally:
            end = perf_counter_ns() if start else 0
            seq = timing.identity.next_collective() if reached_mpi else None
            if start:
                given = parameters.given(args, kwargs)
                timing.logger.record_interval(
                    operation, start, end, None if size is None else size(given, timing.group_size),
                    group=timing.group, group_size=timing.group_size, seq=seq,
                    peer=None if root_at is None else _as_rank(given[root_at]), status=status,
                )  # fmt: skip

    return cast(_Method, timed)


def point_to_point(method: _Method, *, to: str | None = None, source: str | None = None) -> _Method:
    """``method``, timed, as a message; ``to`` and ``source`` name the arguments that say the ranks."""
    operation = method.__name__.upper()
    parameters = _Parameters(method)
    to_at, source_at, status_at = map(parameters.position, (to, source, source and "status"))

    @functools.wraps(method)
    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        timing: Timing = self._timing
        given = parameters.given(args, kwargs)
        received = None
        if source_at is not None and _as_rank(given[source_at]) == MPI.ANY_SOURCE:
            args, kwargs, received = _with_status(args, kwargs, given, cast(int, status_at))
        start = perf_counter_ns() if timing.logger.recording else 0
        status, reached_mpi = OK, True
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            status, reached_mpi = _failure(error)
            raise
        finally:
            end = perf_counter_ns() if start else 0
            receiver = None if to_at is None else _as_rank(given[to_at])
            sender = None if source_at is None else _as_rank(given[source_at])
            if received is not None:
                sender = _as_rank(received.Get_source()) if status is OK else None
            seq = timing.identity.next_message(receiver, sender) if reached_mpi else None
            if start:
                peer = sender if to_at is None else receiver
                timing.logger.record_interval(
                    operation, start, end, None if peer is None else spec_bytes(given[0]),
                    group=timing.group, group_size=timing.group_size, seq=seq, peer=peer, status=status,
                )  # fmt: skip

    return cast(_Method, timed)


def duplicate(method: _Method) -> _Method:
    """``method``, whose result is a communicator of the same class, timed with the same logger."""

    @functools.wraps(method)
    def inheriting(self: Any, *args: Any, **kwargs: Any) -> Any:
        copy = method(self, *args, **kwargs)
        copy._timing = Timing(copy, self._timing.logger, None)
        return copy

    return cast(_Method, inheriting)


def _failure(error: BaseException) -> tuple[str, bool]:
    """The row's status, and whether MPI saw the call: mpi4py refuses bad arguments before that.

    Such a call does not count, so that a rank that corrects it still counts like its peers.
    """
    return f"error:{type(error).__name__}", isinstance(error, MPI.Exception)


def _as_rank(value: Any) -> int | None:
    """A rank, or ``MPI.ANY_SOURCE``; None for nobody (``MPI.PROC_NULL``) and for what is no rank."""
    try:
        rank = operator.index(value)
    except TypeError:
        return None
    return None if rank == MPI.PROC_NULL else rank


def _with_status(
    args: Arguments, kwargs: dict[str, Any], given: Arguments, status_at: int
) -> tuple[Arguments, dict[str, Any], MPI.Status]:
    """The arguments with a status among them: only it can tell whom a message came from."""
    if given[status_at] is not None:
        return args, kwargs, given[status_at]
    status = MPI.Status()
    if len(args) > status_at:
        return (*args[:status_at], status, *args[status_at + 1 :]), kwargs, status
    return args, {**kwargs, "status": status}, status

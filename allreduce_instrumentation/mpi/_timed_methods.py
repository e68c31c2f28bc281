"""Makes timed methods of a communicator's methods, and lists which way for which."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial
from inspect import Parameter, getattr_static, isfunction, signature
from time import perf_counter_ns
from typing import TypeVar

from mpi4py import MPI

from allreduce_instrumentation.mpi import _operations as table
from allreduce_instrumentation.mpi._calls import Collective, Message, MpiMethod, Parameters, with_status
from allreduce_instrumentation.mpi._comm_identity import (
    TimedComm,
    Timing,
    as_rank,
    bytes_of,
    failure,
    sender_of,
)
from allreduce_instrumentation.mpi._operations import Arguments, Size, nonblocking, persistent, plain_bytes
from allreduce_instrumentation.mpi._requests import TimedRequest, issued, prepared, probe, refused
from timing_logger.recording.cores.chosen import Span
from timing_logger.recording.cores.protocols import NeverWaitedFor
from timing_logger.schema.record import OK

_Class = TypeVar("_Class", bound=type)
_Call = TypeVar("_Call", Collective, Message)


def collective(method: MpiMethod, size: Size | None, operation: str = "") -> MpiMethod:
    """Return the timed form of ``method``, a blocking collective; the arguments are :class:`Collective`'s."""
    call = Collective(method, size, operation)
    operation, tells_nothing, sends_first_buffer = call.operation, call.tells_nothing, call.sized

    @functools.wraps(method)
    def timed(self: TimedComm, *args: object, **kwargs: object) -> object:
        timing: Timing = self._timing
        logger = timing.logger
        size = root = None
        if logger.recording:
            if sends_first_buffer and args:
                size = plain_bytes(args[0])
            if size is None and not tells_nothing:
                size, root = call.size_and_root(call.parameters.given(args, kwargs), timing.identity)
        elif not logger.enabled:
            return counted(timing, method, (self, *args), kwargs)
        bound = partial(method, **kwargs) if kwargs else method
        return logger.time_call(operation, size, None, root, timing, NeverWaitedFor, bound, (self, *args))

    return timed


def counted(timing: Timing, method: MpiMethod, args: Arguments, kwargs: dict[str, object]) -> object:
    """Call ``method``, a collective, while the logger is off: only its number counts."""
    timing.next_collective()
    try:
        return method(*args, **kwargs)
    except BaseException as error:
        timing.take_back(error)
        raise


def message(method: MpiMethod, *, pickled: bool = False) -> MpiMethod:
    """Return the timed form of ``method``, a blocking send or receive, or both."""
    call = Message(method, pickled=pickled)

    @functools.wraps(method)
    def timed(self: TimedComm, *args: object, **kwargs: object) -> object:
        timing: Timing = self._timing
        given = call.parameters.given(args, kwargs)
        receiver, sender, told = call.receiver(given), call.sender(given), None
        sized_by_status = call.sized_by_status and timing.logger.recording
        if sender == MPI.ANY_SOURCE or (sized_by_status and sender is not None):
            args, kwargs, told = with_status(args, kwargs, given, call.status_at)
        span, status, reached_mpi = timing.begin(call.operation), OK, True
        if span is not None:
            _address(span, call, given, receiver, sender)
            span.enter()
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            status, reached_mpi = failure(error)
            told = None
            raise
        finally:
            end_ns = None if span is None else span.leave()
            if sender == MPI.ANY_SOURCE:
                sender = None if told is None else sender_of(told)
            seq = timing.identity.next_message(receiver, sender) if reached_mpi else None
            if span is not None:
                _address(span, call, given, receiver, sender)
                if told is not None and call.sized_by_status:
                    span.message_size_bytes = bytes_of(told)
                span.seq = seq
                span.write(span.operation, span.start_ns, end_ns, status)

    return timed


def _address(span: Span, call: Message, given: Arguments, receiver: int | None, sender: int | None) -> None:
    """Write the other rank of a message into its row, as far as it is known, and the message's bytes."""
    peer = receiver if call.sends else sender
    span.peer = None if peer == MPI.ANY_SOURCE else peer
    span.message_size_bytes = None if peer is None else call.size(given)


def pickled_send(method: MpiMethod, method_for_bytes: MpiMethod) -> MpiMethod:
    """Return the timed form of ``method``, which sends a Python object.

    On recorded iterations it pickles the object and sends it by ``method_for_bytes``. mpi4py does the same
    internally; so the size is known without pickling twice.
    """
    parameters = Parameters(method)
    if method.__name__.startswith("i"):
        send_object = issued(method, Message(method, pickled=True))
        send_bytes = issued(method_for_bytes, Message(method_for_bytes))
    else:
        send_object, send_bytes = message(method, pickled=True), message(method_for_bytes)

    @functools.wraps(method)
    def timed(self: TimedComm, *args: object, **kwargs: object) -> object:
        if not self._timing.logger.recording or not parameters.fit(args, kwargs):
            return send_object(self, *args, **kwargs)
        obj, dest, tag = parameters.given(args, kwargs)
        if as_rank(dest) is None:  # MPI.PROC_NULL, which needs no bytes
            return send_object(self, obj, dest, tag)
        return send_bytes(self, (MPI.pickle.dumps(obj), MPI.BYTE), dest, tag)

    return timed


def makes_communicator(method: MpiMethod, operation: str) -> MpiMethod:
    """Return the timed form of ``method``, whose result is timed like the communicator it is made from."""
    make = collective(method, None, operation)

    @functools.wraps(method)
    def adopting(self: TimedComm, *args: object, **kwargs: object) -> MPI.Comm:
        return self._adopt(make(self, *args, **kwargs))

    return adopting


def makes_communicator_of_others(method: MpiMethod, operation: str) -> MpiMethod:
    """Return the same of a ``method`` that is called by the ranks of the new communicator, and by no others.

    They have in common only that, so the row is the first of the new communicator.
    """

    @functools.wraps(method)
    def adopting(self: TimedComm, *args: object, **kwargs: object) -> MPI.Comm:
        span = self._timing.begin(operation)
        if span is not None:
            span.enter()
        try:
            made = method(self, *args, **kwargs)
        except BaseException as error:
            if span is not None:
                span.finish(failure(error)[0])
            raise
        end_ns = None if span is None else span.leave()
        comm = self._adopt(made)
        if comm:
            timing: Timing = comm._timing  # type: ignore[attr-defined]
            seq = timing.next_collective()
            if span is not None:
                span.group, span.group_size, span.seq = timing.name, timing.size, seq
        if span is not None:
            span.write(operation, span.start_ns, end_ns, OK)
        return comm

    return adopting


def begins_communicator(method: MpiMethod, operation: str) -> MpiMethod:
    """Return the timed form of ``method``, whose communicator can be used when its request is complete."""
    call = Collective(method, None, operation)

    @functools.wraps(method)
    def adopting(self: TimedComm, *args: object, **kwargs: object) -> tuple[MPI.Comm, MPI.Request]:
        timing: Timing = self._timing
        start = perf_counter_ns()
        try:
            comm, request = method(self, *args, **kwargs)
        except BaseException as error:
            refused(timing, call, start, call.parameters.given(args, kwargs), error)
            raise
        begun = call.begin(timing, start, call.parameters.given(args, kwargs))
        return self._adopt_coming(comm), request if begun is None else TimedRequest.of(request, begun)

    return adopting


def _ways() -> dict[str, Callable[[MpiMethod], MpiMethod]]:
    """Return for each method that communicates the function that makes its timed form."""
    ways: dict[str, Callable[[MpiMethod], MpiMethod]] = {}
    for name, size in table.COLLECTIVES.items():
        ways[name] = partial(collective, size=size)
        ways[name.lower()] = partial(collective, size=None)
        ways[nonblocking(name)] = partial(_in_background, issued, partial(Collective, size=size))
        ways[persistent(name)] = partial(_in_background, prepared, partial(Collective, size=size))
    for name in table.MESSAGES:
        ways[name] = message
        ways[name.lower()] = partial(message, pickled=True)
        ways[nonblocking(name)] = partial(_in_background, issued, Message)
        ways[nonblocking(name).lower()] = partial(_in_background, issued, partial(Message, pickled=True))
        ways[persistent(name)] = partial(_in_background, prepared, Message)
    for name in table.PROBES:
        ways[name] = ways[name.lower()] = probe
    for names, way in (
        (table.MAKE_COMMUNICATORS, makes_communicator),
        (table.MAKE_COMMUNICATORS_OF_OTHERS, makes_communicator_of_others),
        (table.BEGIN_COMMUNICATORS, begins_communicator),
        (table.END_COMMUNICATORS, partial(collective, size=None)),
    ):
        for name, operation in names.items():
            ways[name] = partial(way, operation=operation)
    return ways


def _in_background(
    way: Callable[[MpiMethod, _Call], MpiMethod], call: Callable[[MpiMethod], _Call], method: MpiMethod
) -> MpiMethod:
    return way(method, call(method))


_WAYS = _ways()
_WAYS_OF_MPI4PY = _WAYS | {
    name: partial(pickled_send, method_for_bytes=getattr(MPI.Comm, name.capitalize()))
    for name in table.SENDS_OF_OBJECTS
}


def with_timed_methods_of(plain: type) -> Callable[[_Class], _Class]:
    """Return a class decorator that adds the timed forms of the methods that mpi4py's ``plain`` defines."""

    def fill(cls: _Class) -> _Class:
        for name, method in vars(plain).items():
            if name in _WAYS_OF_MPI4PY:
                setattr(cls, name, _WAYS_OF_MPI4PY[name](method))
        return cls

    return fill


def timed_methods_of_subclass(kind: type[MPI.Comm]) -> dict[str, MpiMethod]:
    """Return what takes the place of the methods that ``kind``, a class in Python, has instead of mpi4py's.

    They are timed and run ``kind``'s own methods. One that takes less than mpi4py's is not timed.
    """
    mpi4pys = next(base for base in kind.__mro__ if base.__module__ == MPI.__name__)
    methods: dict[str, MpiMethod] = {}
    for name, way in _WAYS.items():
        own, plain = getattr_static(kind, name, None), getattr(mpi4pys, name, None)
        if plain is not None and isfunction(own):
            methods[name] = way(_called_like(plain, own)) if _takes_as_much(own, plain) else own
    return methods


def _called_like(plain: MpiMethod, method: MpiMethod) -> MpiMethod:
    """Return ``method`` with the name and the signature of mpi4py's."""

    @functools.wraps(plain)
    def called(*args: object, **kwargs: object) -> object:
        return method(*args, **kwargs)

    return called


def _takes_as_much(method: MpiMethod, plain: MpiMethod) -> bool:
    """Tell whether ``method`` takes the arguments of mpi4py's, among them a status, which the timing adds."""
    parameters = signature(method).parameters
    if {p.kind for p in parameters.values()} >= {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}:
        return True
    own, wanted = list(parameters), list(signature(plain).parameters)
    at = wanted.index("status") if "status" in wanted else 0  # that of `self` otherwise
    return len(own) >= len(wanted) and (at == 0 or own[at] == "status")

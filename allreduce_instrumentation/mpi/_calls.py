"""What a row says of a call: read off the method's signature once, off the arguments each time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from mpi4py import MPI

from allreduce_instrumentation.mpi._buffer_size import spec_bytes
from allreduce_instrumentation.mpi._comm_identity import CommIdentity
from allreduce_instrumentation.mpi._operations import Arguments, Size
from allreduce_instrumentation.mpi._pending import Pending, Timing, as_rank

Method = Callable[..., Any]

_MISSING = object()


class Parameters:
    """The parameters of a method, read once: a call's arguments are found without binding them."""

    def __init__(self, method: Method) -> None:
        parameters = list(inspect.signature(method).parameters.values())[1:]
        self._names = tuple(p.name for p in parameters)
        self._defaults = tuple(_MISSING if p.default is p.empty else p.default for p in parameters)

    def fit(self, args: Arguments, kwargs: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments is complete, and names no others."""
        if len(args) > len(self._names) or not kwargs.keys() <= set(self._names[len(args) :]):
            return False
        missing = zip(self._names[len(args) :], self._defaults[len(args) :], strict=True)
        return all(name in kwargs or default is not _MISSING for name, default in missing)

    def position(self, name: str) -> int | None:
        return self._names.index(name) if name in self._names else None

    def given(self, args: Arguments, kwargs: Mapping[str, Any]) -> Arguments:
        """One value per parameter, in order; never raises, also not for a call that will."""
        values = args + self._defaults[len(args) :]
        if kwargs:
            values = tuple(map(kwargs.get, self._names, values))
        return values


class Collective:
    """One collective method: what a call of it sends, and which rank is the root.

    Args:
        method: mpi4py's.
        size: how many bytes a call sends; None for pickled objects, of which nobody can tell.
    """

    def __init__(self, method: Method, size: Size | None) -> None:
        self.operation = operation_name(method)
        self.parameters = Parameters(method)
        self._size = size
        self._root_at = self.parameters.position("root")

    def size_and_root(self, given: Arguments, comm: CommIdentity) -> tuple[int | None, int | None]:
        size = None if self._size is None else self._size(given, comm)
        if self._root_at is None:
            return size, None
        root = as_rank(given[self._root_at])
        if root == MPI.ROOT:  # in an intercommunicator the root itself says so
            return (None if given[0] is None else size), comm.rank
        return (None if root is None else size), root

    def begin(self, timing: Timing, start_ns: int, given: Arguments) -> Pending | None:
        """Count one that goes on in the background; None if no row is wanted."""
        seq = timing.identity.next_collective()
        if not timing.logger.recording:
            return None
        size, root = self.size_and_root(given, timing.identity)
        return Pending.begin(timing, self.operation, start_ns, size, seq, root)


class Message:
    """One method that sends or receives: between whom, and how much.

    Args:
        method: mpi4py's.
        pickled: it takes Python objects, whose size is known only when they are received.
    """

    def __init__(self, method: Method, *, pickled: bool = False) -> None:
        self.operation = operation_name(method)
        self.parameters = Parameters(method)
        self._pickled = pickled
        self._to_at, self._source_at = map(self.parameters.position, ("dest", "source"))
        self.status_at = self.parameters.position("status")
        self.receives_only = self._to_at is None
        self.sized_by_status = pickled and self.receives_only

    def receiver(self, given: Arguments) -> int | None:
        return None if self._to_at is None else as_rank(given[self._to_at])

    def sender(self, given: Arguments) -> int | None:
        """A rank, ``MPI.ANY_SOURCE``, or None for nobody."""
        return None if self._source_at is None else as_rank(given[self._source_at])

    def size(self, given: Arguments) -> int | None:
        return None if self._pickled else spec_bytes(given[0])

    def begin(self, timing: Timing, start_ns: int, given: Arguments) -> Pending | None:
        """Count one that goes on in the background; None if nothing is left to be said of it."""
        receiver, sender = self.receiver(given), self.sender(given)
        any_source = sender == MPI.ANY_SOURCE
        seq = timing.identity.next_message(receiver, None if any_source else sender)
        if not timing.logger.recording:
            return Pending(timing, None, any_source) if any_source else None
        peer = receiver if receiver is not None or any_source else sender
        if peer is None and not any_source:  # with nobody
            return Pending.begin(timing, self.operation, start_ns)
        return Pending.begin(
            timing, self.operation, start_ns, self.size(given), seq, peer, any_source, self.sized_by_status
        )


def operation_name(method: Method) -> str:
    """The name in the rows; a persistent operation goes on in the background like a nonblocking one."""
    name = method.__name__.upper()
    return "I" + name.removesuffix("_INIT") if name.endswith("_INIT") else name


def with_status(
    args: Arguments, kwargs: dict[str, Any], given: Arguments, status_at: int | None
) -> tuple[Arguments, dict[str, Any], MPI.Status | None]:
    """The arguments with a status among them: only it can tell whom a message came from."""
    if status_at is None:
        return args, kwargs, None
    if given[status_at] is not None:
        return args, kwargs, given[status_at]
    status = MPI.Status()
    if len(args) > status_at:
        return (*args[:status_at], status, *args[status_at + 1 :]), kwargs, status
    return args, {**kwargs, "status": status}, status

"""Finds the columns of a call's row: from the method's signature once, from the arguments each time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mpi4py import MPI

from allreduce_instrumentation.mpi._comm_identity import (
    CommIdentity,
    Learn,
    Timing,
    as_rank,
    learn_sender,
    learn_sender_and_size,
    learn_size,
)
from allreduce_instrumentation.mpi._operations import SEND_FIRST_BUFFER, Arguments, Size, spec_bytes
from timing_logger.recording.cores.chosen import BackgroundSpan

MpiMethod = Callable[..., Any]

_MISSING = object()


class Parameters:
    """The parameters of a method, read once so that a call's arguments are found without binding them."""

    def __init__(self, method: MpiMethod) -> None:
        parameters = list(inspect.signature(method).parameters.values())[1:]
        self._names = tuple(p.name for p in parameters)
        self._defaults = tuple(_MISSING if p.default is p.empty else p.default for p in parameters)

    def fit(self, args: Arguments, kwargs: Mapping[str, object]) -> bool:
        """Tell whether a call with these arguments fits the signature: none is missing, none unknown."""
        if len(args) > len(self._names) or not kwargs.keys() <= set(self._names[len(args) :]):
            return False
        missing = zip(self._names[len(args) :], self._defaults[len(args) :], strict=True)
        return all(name in kwargs or default is not _MISSING for name, default in missing)

    def position(self, name: str) -> int | None:
        """Return the index of parameter ``name``, without ``self``; None if there is none."""
        return self._names.index(name) if name in self._names else None

    def given(self, args: Arguments, kwargs: Mapping[str, object]) -> Arguments:
        """Return one value per parameter, in order; never raises, even if the call itself will."""
        values = args + self._defaults[len(args) :]
        if kwargs:
            values = tuple(map(kwargs.get, self._names, values))
        return values


class Collective:
    """A collective method: how much a call of it sends, and which rank is the root.

    Args:
        method: mpi4py's method.
        size: tells how many bytes a call sends; None for nothing, and for pickled objects, whose size is
            unknown.
        operation: the name in the rows; by default the method's.

    Attributes:
        tells_nothing: whether its arguments tell neither a size nor a root, as those of ``Barrier``.
        sized: whether its row has no root, and the bytes of its first buffer unless the call is in place.
        is_plain, rank_at, sends, learn: whether it has common calls, and what these share: see
            :class:`~timing_logger.recording.cores.issued_calls.CommonCalls`.
    """

    rank_at, sends, learn = None, False, None

    def __init__(self, method: MpiMethod, size: Size | None, operation: str = "") -> None:
        self.operation = operation or operation_name(method)
        self.parameters = Parameters(method)
        self._size = size
        self._root_at = self.parameters.position("root")
        self.tells_nothing = size is None and self._root_at is None
        self.sized = size in SEND_FIRST_BUFFER and self._root_at is None
        self.is_plain = self.sized or self.tells_nothing

    def size_and_root(self, given: Arguments, comm: CommIdentity) -> tuple[int | None, int | None]:
        """Return the bytes that this rank sends and the rank of the root; None for either if unknown."""
        size = None if self._size is None else self._size(given, comm)
        if self._root_at is None:
            return size, None
        root = as_rank(given[self._root_at])
        if root == MPI.ROOT:  # what the root itself passes in an intercommunicator
            return (None if given[0] is None else size), comm.rank
        return (None if root is None else size), root

    def begin(self, timing: Timing, start_ns: int, given: Arguments) -> BackgroundSpan | None:
        """Count a collective that was issued in the background at ``start_ns``, and open its row.

        Returns:
            The operation under way; None if it is not recorded.
        """
        seq = timing.next_collective()
        logger = timing.logger
        if not logger.recording:
            return None
        size, root = self.size_and_root(given, timing.identity)
        return logger.begin_background(self.operation, size, root, timing, seq, None, start_ns)


class Message:
    """A method that sends or receives: between which ranks, and how much.

    Args:
        method: mpi4py's method.
        pickled: whether it takes Python objects, whose size is known only when they are received.

    Attributes:
        sized_by_status: whether only the status tells how many bytes a call receives. A buffer may have room
            for more; that of a partitioned message is as large as the message.
        is_plain, rank_at, sends, sized, learn: whether it has common calls, and what these share: see
            :class:`~timing_logger.recording.cores.issued_calls.CommonCalls`.
    """

    def __init__(self, method: MpiMethod, *, pickled: bool = False) -> None:
        self.operation = operation_name(method)
        self.parameters = Parameters(method)
        self._to_at, self._source_at = map(self.parameters.position, ("dest", "source"))
        self.status_at = self.parameters.position("status")
        self.sends = self._to_at is not None
        self.sized_by_status = not self.sends and not method.__name__.startswith("Precv")
        self.sized = not (pickled or self.sized_by_status)
        self.learn: Learn | None = learn_size if self.sized_by_status else None
        self.rank_at = self._to_at if self.sends else self._source_at
        self.is_plain = None in (self._to_at, self._source_at)

    def receiver(self, given: Arguments) -> int | None:
        """Return the rank that the call sends to, or None if there is none."""
        return None if self._to_at is None else as_rank(given[self._to_at])

    def sender(self, given: Arguments) -> int | None:
        """Return the rank that the call receives from, ``MPI.ANY_SOURCE``, or None if there is none."""
        return None if self._source_at is None else as_rank(given[self._source_at])

    def size(self, given: Arguments) -> int | None:
        """Return the bytes of the first buffer; None if unknown, as of receives and pickled objects."""
        return spec_bytes(given[0]) if self.sized else None

    def begin(self, timing: Timing, start_ns: int, given: Arguments) -> BackgroundSpan | None:
        """Count a message that was issued in the background at ``start_ns``, and open its row.

        Returns:
            The operation under way; None if it is not recorded and its number is known.
        """
        receiver, sender = self.receiver(given), self.sender(given)
        any_source = sender == MPI.ANY_SOURCE
        seq = timing.identity.next_message(receiver, None if any_source else sender)
        recording = timing.logger.recording
        if not (recording or any_source):
            return None
        peer = receiver if receiver is not None or any_source else sender
        goes_nowhere = peer is None and not any_source  # to or from MPI.PROC_NULL
        size = None if goes_nowhere or not recording else self.size(given)
        learn: Learn | None = None if goes_nowhere else self.learn
        if any_source:
            learns = learn_sender_and_size if recording and self.sized_by_status else learn_sender
            learn = partial(learns, timing.identity)
        return timing.logger.begin_background(
            self.operation, size, peer, timing, seq, learn, start_ns, recording
        )


def operation_name(method: MpiMethod) -> str:
    """Return the operation's name in the rows; persistent operations are named like nonblocking ones."""
    name = method.__name__.upper()
    return "I" + name.removesuffix("_INIT") if name.endswith("_INIT") else name


def with_status(
    args: Arguments, kwargs: dict[str, object], given: Arguments, status_at: int | None
) -> tuple[Arguments, dict[str, object], MPI.Status | None]:
    """Return the arguments with a status among them: only it can tell from which rank a message came.

    Args:
        args, kwargs: the arguments of the call.
        given: one value per parameter, as :meth:`Parameters.given` returns them.
        status_at: index of the parameter for the status; None if the method has none.

    Returns:
        Positional arguments, keyword arguments, and the status; the caller's own status if there is one,
        and None if the method takes none.
    """
    if status_at is None:
        return args, kwargs, None
    if given[status_at] is not None:
        return args, kwargs, given[status_at]
    status = MPI.Status()
    if len(args) > status_at:
        return (*args[:status_at], status, *args[status_at + 1 :]), kwargs, status
    return args, {**kwargs, "status": status}, status

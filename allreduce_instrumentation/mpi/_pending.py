"""What the rows of a communicator share, and what statuses, errors and ranks tell."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Protocol, SupportsIndex, TypeAlias

from mpi4py import MPI

from allreduce_instrumentation.mpi._comm_identity import CommIdentity
from timing_logger.recording.cores.chosen import BackgroundSpan, LearnSize, Span, TimedGroup, Unrecorded
from timing_logger.recording.global_logger import get_timing_logger
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import OK

CANCELLED = "error:Cancelled"


class Timing(TimedGroup):
    """What all rows of one communicator have in common, and its counts.

    Args:
        identity: the communicator's identity.
        logger: where the rows go. Default: ``get_timing_logger()``.
        group: the group's name in the rows. Default: the communicator's.
    """

    __slots__ = ()
    logger: TimingLogger
    identity: CommIdentity

    def __init__(
        self, identity: CommIdentity, logger: TimingLogger | None = None, group: str | None = None
    ) -> None:
        self.logger = get_timing_logger() if logger is None else logger
        self.identity = identity
        self.name = identity.name if group is None else group
        self.size = identity.size
        self.next_collective = identity.next_collective
        self.sent, self.received = identity.sent, identity.received
        self.logger.add_group(identity, self.name)

    def take_back(self, error: BaseException) -> bool:
        """Take back the number of the collective whose call raised ``error``, if MPI never saw the call.

        Returns:
            Whether the number was taken back.
        """
        _, reached_mpi = failure(error)
        return not reached_mpi and self.identity.take_back(error)

    def begin(self, operation: str) -> Span | None:
        """Return the span of a blocking call, which the caller has to enter; None if the logger is off."""
        logger = self.logger
        if not logger.enabled:
            return None
        kind = Span if logger.recording else Unrecorded
        return logger.begin_operation(kind, operation, None, None, self.name, self.size, None)


class TimedComm(Protocol):
    """What a timed communicator adds to mpi4py's, as far as its methods need it."""

    _timing: Timing

    def _adopt(self, comm: MPI.Comm) -> MPI.Comm:
        """Return ``comm``, which was made from this communicator, timed with the same logger."""

    def _adopt_coming(self, comm: MPI.Comm) -> MPI.Comm:
        """Return ``comm``, a duplicate of this communicator still being made, timed with the same logger."""


# -- what only the completed operation tells ------------------------------------------------------------

Learn: TypeAlias = "Callable[[BackgroundSpan, MPI.Status], str]"
"""A function that fills in what the status tells, and returns the status in the rows."""


learn_size = LearnSize(MPI.Status.Get_elements, MPI.BYTE, MPI.UNDEFINED)  # Get_count stops at 2 GB
"""Fills in the bytes of a received message."""


def learn_sender(identity: CommIdentity, operation: BackgroundSpan, status: MPI.Status) -> str:
    """Count a message that was received from any rank, and fill in from which."""
    sender = sender_of(status)
    seq = identity.next_message(None, sender)
    if operation.peer is None:  # else it is the rank that was sent to
        operation.peer, operation.seq = sender, seq
    return OK


def learn_sender_and_size(identity: CommIdentity, operation: BackgroundSpan, status: MPI.Status) -> str:
    """Do both."""
    learn_sender(identity, operation, status)
    return learn_size(operation, status)


def learn_whether_cancelled(otherwise: Learn | None, operation: BackgroundSpan, status: MPI.Status) -> str:
    """Return that the operation was cancelled, if the request to cancel it had success."""
    if status.Is_cancelled():
        return CANCELLED
    return OK if otherwise is None else otherwise(operation, status)


# -- what ranks, errors and statuses say --------------------------------------------------------------


def as_rank(value: SupportsIndex) -> int | None:
    """Return ``value`` as a rank or ``MPI.ANY_SOURCE``; None for ``MPI.PROC_NULL`` or if it is no rank."""
    try:
        rank = operator.index(value)
    except TypeError:
        return None
    return None if rank == MPI.PROC_NULL else rank


def failure(error: BaseException) -> tuple[str, bool]:
    """Return the row's status for a call that raised ``error``, and whether MPI saw the call.

    mpi4py refuses bad arguments before it calls MPI. Such a call does not count, so that a rank that
    repeats it with good arguments still counts like its peers.
    """
    return f"error:{type(error).__name__}", isinstance(error, MPI.Exception)


def sender_of(status: MPI.Status) -> int | None:
    """Return the rank that sent the message of ``status``; None if there is none."""
    return as_rank(status.Get_source())


def bytes_of(status: MPI.Status) -> int | None:
    """Return the bytes of the message of ``status``; None if MPI does not know them."""
    n_bytes = status.Get_elements(MPI.BYTE)  # Get_count stops at 2 GB
    return None if n_bytes == MPI.UNDEFINED else n_bytes

"""MPI operations under way: counted when they are issued, written as rows when they are seen to complete."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex

from mpi4py import MPI

from allreduce_instrumentation.mpi._comm_identity import CommIdentity
from timing_logger.record import OK, UNRESOLVED, WAIT
from timing_logger.recording.cores.chosen import Span, Unrecorded
from timing_logger.recording.cores.no_span import NO_SPAN
from timing_logger.recording.global_logger import get_timing_logger

if TYPE_CHECKING:
    from timing_logger.recording.logger import TimingLogger

CANCELLED = "error:Cancelled"


class NeverWaitedFor:
    """A stand-in for the type of work handles: blocking calls of mpi4py never return one."""

    def wait(self) -> object:
        raise NotImplementedError

    def is_completed(self) -> bool:
        raise NotImplementedError


class Timing:
    """What all rows of one communicator have in common, and the counts of its collectives.

    Args:
        identity: the communicator's identity.
        logger: where the rows go. Default: ``get_timing_logger()``.
        group: the group's name in the rows. Default: the communicator's.

    Attributes:
        identity: the communicator's identity.
        logger: where the rows go.
        name, size: name and size of the group in the rows.
        next_collective: counts a collective, and returns its sequence number.
    """

    __slots__ = ("identity", "logger", "name", "next_collective", "size")

    def __init__(
        self, identity: CommIdentity, logger: TimingLogger | None = None, group: str | None = None
    ) -> None:
        self.logger: TimingLogger = get_timing_logger() if logger is None else logger
        self.identity = identity
        self.name = identity.name if group is None else group
        self.size = identity.size
        self.next_collective = identity.next_collective
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


@dataclass(slots=True, eq=False)
class Pending:
    """One operation that goes on in the background.

    Attributes:
        timing: the timing of its communicator.
        span: the open row; None if only the number of the message is still to be counted.
        any_source: whether it receives from a rank that only the status will tell.
        sized_by_status: whether only the status will tell how many bytes it received.
        cancelled: whether cancellation was requested; the status will tell whether it took place.
    """

    timing: Timing
    span: Span | None
    any_source: bool = False
    sized_by_status: bool = False
    cancelled: bool = False

    @property
    def needs_status(self) -> bool:
        """Whether :meth:`complete` needs the status."""
        return self.any_source or self.sized_by_status or self.cancelled

    @classmethod
    def begin(
        cls, timing: Timing, operation: str, start_ns: int,
        size: int | None = None, seq: int | None = None, peer: int | None = None,
        any_source: bool = False, sized_by_status: bool = False,
    ) -> Pending:  # fmt: skip
        """Open the row of an operation issued at ``start_ns``, with the iteration and label in force."""
        span: Any = timing.logger.record_mpi_operation(
            operation, size, group=timing.name, group_size=timing.size, seq=seq, peer=peer
        )
        if span is NO_SPAN:
            return cls(timing, None, any_source)
        span.start_ns = start_ns
        span.leave_running()
        return cls(timing, span, any_source, sized_by_status)

    def complete(
        self, blocked_from_ns: int, end_ns: int, status: MPI.Status | None, outcome: str = OK
    ) -> None:
        """Write the operation's row, and the ``WAIT`` row of the call that saw it complete.

        Args:
            blocked_from_ns: when that call began.
            end_ns: when it returned.
            status: MPI's status of the message; needed if ``needs_status``.
            outcome: the status in the rows.
        """
        if status is not None and outcome is OK and self.needs_status:
            outcome = self._learn_from(status)
        span = self.span
        if span is not None and span.claim():
            span.write(span.operation, span.start_ns, end_ns, outcome)
            span.write(WAIT, blocked_from_ns, end_ns, outcome, self.timing.logger.calling_thread)

    def refuse(self, outcome: str) -> None:
        """Write the row of an operation that never began."""
        if self.span is not None and self.span.claim():
            self.span.write(self.span.operation, self.span.start_ns, perf_counter_ns(), outcome)

    def lose(self) -> None:
        """Write the row of an operation whose end cannot be seen any more, as unresolved."""
        if self.span is not None and self.span.claim():
            self.span.write_open(UNRESOLVED)

    def _learn_from(self, status: MPI.Status) -> str:
        span = self.span
        if self.cancelled and status.Is_cancelled():
            return CANCELLED
        if self.any_source:
            sender = sender_of(status)
            seq = self.timing.identity.next_message(None, sender)
            if span is not None and span.peer is None:
                span.peer, span.seq = sender, seq
        if self.sized_by_status and span is not None:
            span.message_size_bytes = bytes_of(status)
        return OK


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

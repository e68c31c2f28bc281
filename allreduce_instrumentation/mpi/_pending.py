"""An operation under way: counted and named when it is issued, written when it is seen to be complete."""

from __future__ import annotations

import operator
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from allreduce_instrumentation.mpi._comm_identity import CommIdentity
from timing_logger.record import OK, UNRESOLVED, WAIT
from timing_logger.recording.global_logger import get_timing_logger
from timing_logger.recording.spans import NO_SPAN, Span, Unrecorded

if TYPE_CHECKING:
    from timing_logger.recording.logger import TimingLogger

CANCELLED = "error:Cancelled"


class NeverWaitedFor:
    """What blocking calls of mpi4py never return: they are done on return."""

    def wait(self) -> object:
        raise NotImplementedError

    def is_completed(self) -> bool:
        raise NotImplementedError


class Timing:
    """What every row of one communicator has in common; the group that its collectives are counted in.

    Attributes:
        name, size: in the rows.
        next_collective: counts one, and gives its number.
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
        """Whether MPI never saw the call that raised, which then does not count."""
        _, reached_mpi = failure(error)
        if not reached_mpi:
            self.identity.take_back(error)
        return not reached_mpi

    def begin(self, operation: str) -> Span | None:
        """A call that blocks, for the caller to enter; None where the logger is off."""
        logger = self.logger
        if not logger.enabled:
            return None
        kind = Span if logger.recording else Unrecorded
        return logger.begin_operation(kind, operation, None, None, self.name, self.size, None)


class Pending:
    """One operation that goes on while the program does something else.

    Args:
        timing: of its communicator.
        span: the open row; None if only the number of the message is still to be counted.
        any_source: it receives from a rank that only the status will tell.
        sized_by_status: only the status will tell how many bytes it received.
    """

    __slots__ = ("any_source", "cancelled", "needs_status", "sized_by_status", "span", "timing")

    def __init__(
        self,
        timing: Timing,
        span: Span | None,
        any_source: bool = False,
        sized_by_status: bool = False,
    ) -> None:
        self.timing = timing
        self.span = span
        self.any_source = any_source
        self.sized_by_status = sized_by_status
        self.cancelled = False
        self.needs_status = any_source or sized_by_status

    @classmethod
    def begin(
        cls, timing: Timing, operation: str, start_ns: int,
        size: int | None = None, seq: int | None = None, peer: int | None = None,
        any_source: bool = False, sized_by_status: bool = False,
    ) -> Pending:  # fmt: skip
        """Take what the row will say from here: the iteration and the label in force, too."""
        span: Any = timing.logger.record_mpi_operation(
            operation, size, group=timing.name, group_size=timing.size, seq=seq, peer=peer
        )
        if span is NO_SPAN:
            return cls(timing, None, any_source)
        span.start_ns = start_ns
        span.leave_running()
        return cls(timing, span, any_source, sized_by_status)

    def cancel(self) -> None:
        """Somebody asked for that; the status will tell whether it came true."""
        self.cancelled = self.needs_status = True

    def complete(
        self, blocked_from_ns: int, end_ns: int, status: MPI.Status | None, outcome: str = OK
    ) -> None:
        """Write the operation's row, and that of the time in which somebody was blocked on it.

        Args:
            status: what MPI says of the message; needed if ``needs_status``.
            outcome: the rows' status.
        """
        if self.needs_status and status is not None and outcome is OK:
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
        """Write the row of an operation whose end nobody will see any more."""
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


def as_rank(value: Any) -> int | None:
    """A rank, or ``MPI.ANY_SOURCE``; None for nobody (``MPI.PROC_NULL``) and for what is no rank."""
    try:
        rank = operator.index(value)
    except TypeError:
        return None
    return None if rank == MPI.PROC_NULL else rank


def failure(error: BaseException) -> tuple[str, bool]:
    """The row's status, and whether MPI saw the call: mpi4py refuses bad arguments before that.

    Such a call does not count, so that a rank that corrects it still counts like its peers.
    """
    return f"error:{type(error).__name__}", isinstance(error, MPI.Exception)


def sender_of(status: MPI.Status) -> int | None:
    return as_rank(status.Get_source())


def bytes_of(status: MPI.Status) -> int:
    """Bytes of the message that ``status`` tells of."""
    return status.Get_count(MPI.BYTE)

"""Identifies a communicator and its operations in the rows, by a name and sequence numbers.

Both belong to the communicator itself, where MPI caches them as an attribute: two wrappers of one
communicator share its counts.
"""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Protocol, SupportsIndex, TypeAlias

from mpi4py import MPI

from allreduce_instrumentation._operation_counts import OperationCounts
from timing_logger.recording.cores.chosen import BackgroundSpan, LearnSize, Span, TimedGroup, Unrecorded
from timing_logger.recording.global_logger import get_timing_logger
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.record import OK

_KEYVAL = MPI.Comm.Create_keyval()
_names_taken: Counter[str] = Counter()
_idle: defaultdict[str, list[tuple[int, HandleIdentity]]] = defaultdict(list)


class CommIdentity(OperationCounts):
    """The name, size and operation counts of one communicator.

    Attributes:
        name: the communicator's own name; without one the members' ranks in the world, such as
            ``ranks 0-3``. A second communicator of one name in this process is called ``ranks 0-3 #2``. An
            intercommunicator is named after both its groups, ``ranks 0-1|2-3``, in the same order on
            either side.
        size: the number of ranks, in both groups of an intercommunicator; 0 for the null communicator.
        rank: this process's rank in its own group.
        blocks: the number of blocks in a buffer that holds one block per rank: the number of ranks, or of
            the remote group's ranks for an intercommunicator.
    """

    __slots__ = ("blocks",)

    def __init__(self, name: str, size: int, rank: int = 0, blocks: int | None = None) -> None:
        super().__init__(name, size, rank)
        self.blocks = size if blocks is None else blocks

    @property
    def own_size(self) -> int:
        """The number of ranks in this process's own group, which is one of two in an intercommunicator."""
        return self.size if self.blocks == self.size else self.size - self.blocks

    @classmethod
    def of(cls, comm: MPI.Comm) -> CommIdentity:
        """Return the identity of ``comm``, which is made at the first call. Not collective."""
        if comm == MPI.COMM_NULL:
            return cls("MPI_COMM_NULL", 0)
        found = comm.Get_attr(_KEYVAL)
        if not isinstance(found, cls):
            found = cls.of_members(comm, comm.Get_name())
            comm.Set_attr(_KEYVAL, found)
        return found

    @classmethod
    def of_members(cls, comm: MPI.Comm, name: str = "") -> CommIdentity:
        """Return a new identity for the members of ``comm``, as for a duplicate that is still being made."""
        remote = comm.Get_remote_size() if isinstance(comm, MPI.Intercomm) else 0
        size = comm.Get_size()
        return cls(_unique(name or _members(comm)), size + remote, comm.Get_rank(), remote or size)

    def next_message(self, receiver: int | None, sender: int | None) -> int | None:
        """Count a message to ``receiver``, one from ``sender``, or both.

        Returns:
            The sequence number of the sent message, else of the received one; None if both are None.
        """
        received = None if sender is None else self.next_received(sender)
        return received if receiver is None else self.next_sent(receiver)


class HandleIdentity(CommIdentity):
    """The name, size and operation counts of a window or a file, which a communicator's ranks share.

    The name is ``ranks 0-3 file``, and ``ranks 0-3 file #2`` of a second one beside it. The next file of the
    same ranks takes over the lowest name that is idle, with its counts: a program may open thousands.
    """

    __slots__ = ("_number", "_text")
    _number: int
    _text: str

    @classmethod
    def taken(cls, comm: MPI.Intracomm, what: str) -> HandleIdentity:
        """Return an identity for a new window or file of ``comm``."""
        text = f"{_members(comm)} {what}"
        if _idle[text]:
            return heappop(_idle[text])[1]
        made = cls(_unique(text), comm.Get_size(), comm.Get_rank())
        made._text, made._number = text, _names_taken[text]
        return made

    def give_back(self) -> None:
        """Leave the name to the next window or file."""
        heappush(_idle[self._text], (self._number, self))


def _unique(name: str) -> str:
    _names_taken[name] += 1
    return name if _names_taken[name] == 1 else f"{name} #{_names_taken[name]}"


def _members(comm: MPI.Comm) -> str:
    groups = [_world_ranks(comm.Get_group())]
    if isinstance(comm, MPI.Intercomm):
        groups.append(_world_ranks(comm.Get_remote_group()))
    return "ranks " + "|".join(map(_ranges, sorted(groups)))


def _world_ranks(group: MPI.Group) -> list[int]:
    world = MPI.COMM_WORLD.Get_group()
    try:
        return list(group.Translate_ranks(None, world))
    finally:
        group.Free()
        world.Free()


def _ranges(ranks: Sequence[int]) -> str:
    """Return ``0-2,5`` for ``[0, 1, 2, 5]``; ranks that are not in the world, of a spawned job, are ``?``."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank >= 0 and rank == runs[-1][-1] + 1:
            runs[-1][1:] = [rank]
        else:
            runs.append([rank])
    return ",".join("?" if run[0] < 0 else "-".join(map(str, run)) for run in runs)


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
        return not isinstance(error, MPI.Exception) and self.identity.take_back(error)

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

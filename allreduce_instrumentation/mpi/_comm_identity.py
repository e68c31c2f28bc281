"""Identifies a communicator and its operations in the rows, by a name and sequence numbers.

Both belong to the communicator itself, where MPI caches them as an attribute: two wrappers of one
communicator share its counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush

from mpi4py import MPI

from allreduce_instrumentation._operation_counts import OperationCounts

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
            found = cls._of_members(comm, comm.Get_name())
            comm.Set_attr(_KEYVAL, found)
        return found

    @classmethod
    def of_coming_duplicate(cls, comm: MPI.Comm) -> CommIdentity:
        """Return the identity for a duplicate of ``comm`` that is still being made and cannot be queried."""
        return cls._of_members(comm, "")

    @classmethod
    def _of_members(cls, comm: MPI.Comm, name: str) -> CommIdentity:
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

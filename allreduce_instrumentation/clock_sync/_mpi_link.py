"""Sends and receives the messages of a clock measurement over an MPI communicator."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from mpi4py import MPI

from allreduce_instrumentation.clock_sync._direct import LinkChannel, PeerConnection

_POLL_S = 0.0005


class MpiLink:
    """A :class:`~._direct.MessageLink` over an MPI communicator of its own."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self._comm = comm
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()

    def send(self, content: bytearray, peer: int) -> None:
        self._comm.Send([content, MPI.BYTE], peer)

    def receive(self, content: bytearray, peer: int) -> None:
        self._comm.Recv([content, MPI.BYTE], peer)

    def rest_until_message(self, peer: int) -> None:
        while not self._comm.Iprobe(peer):  # Recv would spin, and disturb the ranks whose turn it is
            time.sleep(_POLL_S)

    def channel_to(self, peer: int) -> AbstractContextManager[PeerConnection]:
        return nullcontext(LinkChannel(self, peer))  # MPI polls, and chooses the fastest way itself

    channel_from = channel_to


@contextmanager
def mpi_link(comm: MPI.Intracomm) -> Iterator[MpiLink]:
    """Return a context manager that gives a link over a plain duplicate of ``comm``. Collective.

    A reserved tag on ``comm`` itself would not be enough: an open receive of the user's for any source and
    any tag would take the link's messages.

    Args:
        comm: an intracommunicator, timed or plain.
    """
    own = MPI.Intracomm(comm).Dup()
    yield MpiLink(own)
    own.Free()  # collective: after an error on this rank alone it would wait for the others

"""The protocol by which the optimizer communicates, over MPI or over a process group."""

from __future__ import annotations

import sys
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from allreduce_instrumentation._communicators import Communicator
from timing_logger.recording.logger import TimingLogger

V = TypeVar("V")


class Ranks(Protocol):
    """The protocol of a communicator of the optimizer's own, apart from the user's messages.

    Every operation is a row, and is complete on return; for a tensor on a device it is complete in the
    current stream there. Tensors are contiguous, on the host or on a device from which these ranks send
    directly.

    Attributes:
        rank, size: this rank, and the number of ranks.
        group: the communicator's name in the rows.
    """

    rank: int
    size: int
    group: str

    @property
    def comm(self) -> Communicator:
        """The communicator to pass to an all-reducer."""

    @property
    def collectives(self) -> int:
        """The number of collectives begun so far: the ``seq`` of the next one."""

    def travels_from(self, device: torch.device) -> bool:
        """Tell whether tensors on ``device`` travel directly from there, without a copy to the host."""

    def sum(self, tensor: Tensor) -> None:
        """Overwrite ``tensor`` with the sum over the ranks."""

    def broadcast(self, tensor: Tensor) -> None:
        """Overwrite ``tensor``, of bytes, with the one of rank 0."""

    def allgather(self, value: V) -> list[V]:
        """Return the ``value`` of every rank, in the order of ranks; values are pickled."""

    def broadcast_bytes(self, content: bytes) -> bytes:
        """Return the ``content`` of rank 0; the other ranks' is ignored."""

    def free(self) -> None:
        """Free the communicator."""


def ranks_for(comm: Communicator | None, logger: TimingLogger) -> Ranks:
    """Return the ranks of ``comm``, over a new communicator. Collective.

    Args:
        comm: a process group or an mpi4py intracommunicator; None for ``MPI.COMM_WORLD``.
        logger: where the rows go.

    Raises:
        ConfigurationError: ``comm`` is neither, cannot be used, or its MPI does not allow several threads.
    """
    torch_group = getattr(sys.modules.get("torch.distributed"), "ProcessGroup", ())
    if isinstance(comm, torch_group):
        from allreduce_instrumentation.sparse._group_ranks import GroupRanks

        return GroupRanks(comm, logger)
    from allreduce_instrumentation.sparse._mpi_ranks import MpiRanks

    return MpiRanks(comm, logger)

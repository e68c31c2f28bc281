"""The ranks that train together, over MPI or over a process group: what the optimizer asks of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from timing_logger.recording.logger import TimingLogger


class Ranks(Protocol):
    """A communicator of the optimizer's own: its thread's messages and the user's never meet.

    Every operation is a row, and is complete on return; of a tensor on a device, in the current stream there.
    Tensors are contiguous, on the host, or on a device from which these ranks send.

    Attributes:
        comm: what an all-reducer is given.
        rank, size: this rank, and how many there are.
        group: the communicator's name in the rows.
    """

    comm: Any
    rank: int
    size: int
    group: str

    @property
    def collectives(self) -> int:
        """How many were begun: the number of the next one."""

    def travels_from(self, device: torch.device) -> bool:
        """Whether these ranks send what lies on ``device`` from there."""

    def sum(self, tensor: Tensor) -> None:
        """Overwrite ``tensor`` with the sum over the ranks."""

    def broadcast(self, tensor: Tensor, root: int) -> None:
        """Overwrite ``tensor``, of bytes, with that of ``root``."""

    def allgather(self, value: Any) -> list[Any]:
        """Every rank's ``value``, which can be pickled."""

    def broadcast_bytes(self, content: bytes, root: int) -> bytes:
        """The ``content`` of ``root``; that of the others does not matter."""

    def free(self) -> None:
        """Give the communicator back."""


def ranks_for(comm: Any, logger: TimingLogger) -> Ranks:
    """The ranks of ``comm``, a process group or an mpi4py intracommunicator; None for all of MPI's.

    Collective.

    Raises:
        ConfigurationError: ``comm`` is neither, cannot be used, or does not allow a thread.
    """
    torch_group = getattr(sys.modules.get("torch.distributed"), "ProcessGroup", ())
    if isinstance(comm, torch_group):
        from allreduce_instrumentation.optimizer._group_ranks import GroupRanks

        return GroupRanks(comm, logger)
    from allreduce_instrumentation.optimizer._mpi_ranks import MpiRanks

    return MpiRanks(comm, logger)

"""The ranks of an MPI communicator, for the optimizer."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from mpi4py import MPI
from torch import Tensor

from allreduce_instrumentation.mpi import TimedIntracomm
from allreduce_instrumentation.mpi._comm_identity import CommIdentity
from timing_logger.errors import ConfigurationError
from timing_logger.recording.logger import TimingLogger

V = TypeVar("V")


class MpiRanks:
    """The :class:`~._ranks.Ranks` of an MPI communicator: communicates over a duplicate of it.

    Args:
        comm: an mpi4py intracommunicator; None for ``MPI.COMM_WORLD``.
        logger: where the rows go.

    Raises:
        ConfigurationError: ``comm`` is no intracommunicator, or MPI does not allow several threads.
    """

    def __init__(self, comm: Any, logger: TimingLogger) -> None:
        comm = MPI.COMM_WORLD if comm is None else comm
        _check(comm)
        name = comm.group_label if isinstance(comm, TimedIntracomm) else CommIdentity.of(comm).name
        own = MPI.Intracomm(comm).Dup()
        own.Set_name(f"{name}/optimizer")
        self.comm = TimedIntracomm(own, timing_logger=logger)
        self.rank: int = self.comm.Get_rank()
        self.size: int = self.comm.Get_size()
        self.group: str = self.comm.group_label

    @property
    def collectives(self) -> int:
        return self.comm.collectives

    def travels_from(self, device: torch.device) -> bool:
        return device.type == "cpu"

    def sum(self, tensor: Tensor) -> None:
        self.comm.Allreduce(MPI.IN_PLACE, tensor.numpy())

    def broadcast(self, tensor: Tensor) -> None:
        self.comm.Bcast(tensor.numpy())

    def allgather(self, value: V) -> list[V]:
        return self.comm.allgather(value)

    def broadcast_bytes(self, content: bytes) -> bytes:
        received: bytes = self.comm.bcast(content)
        return received

    def free(self) -> None:
        self.comm.Free()


def _check(comm: object) -> None:
    if not isinstance(comm, MPI.Intracomm) or comm == MPI.COMM_NULL:
        raise ConfigurationError(
            "comm must be an mpi4py intracommunicator with members, or a torch.distributed.ProcessGroup, "
            f"and is {comm!r}."
        )
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise ConfigurationError(
            "MPI was started without support for several threads (MPI_THREAD_MULTIPLE), and gradients are "
            "reduced on a thread: set mpi4py.rc.thread_level = 'multiple' before mpi4py.MPI is imported, "
            "or use an MPI that was built with it."
        )

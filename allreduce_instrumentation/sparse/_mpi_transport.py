"""An all-reducer's transport over an MPI communicator."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import torch
from mpi4py import MPI
from torch import Tensor

from allreduce_instrumentation.mpi import TimedIntracomm
from allreduce_instrumentation.mpi._comm_identity import CommIdentity
from timing_logger.errors import ConfigurationError
from timing_logger.recording.logger import TimingLogger

V = TypeVar("V")


class MpiRanks:
    """The :class:`~._transport.Ranks` of an MPI communicator: communicates over a duplicate of it.

    Args:
        comm: an mpi4py intracommunicator; None for ``MPI.COMM_WORLD``.
        logger: where the rows go.

    Raises:
        ConfigurationError: ``comm`` is no intracommunicator, or MPI does not allow several threads.
    """

    def __init__(self, comm: Any, logger: TimingLogger) -> None:
        comm = MPI.COMM_WORLD if comm is None else comm
        if not isinstance(comm, MPI.Intracomm) or comm == MPI.COMM_NULL:
            raise ConfigurationError(
                "comm must be an mpi4py intracommunicator with members, or a torch.distributed.ProcessGroup, "
                f"and is {comm!r}."
            )
        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise ConfigurationError(
                "MPI was started without support for several threads (MPI_THREAD_MULTIPLE), and gradients "
                "are reduced on a thread: set mpi4py.rc.thread_level = 'multiple' before mpi4py.MPI is "
                "imported, or use an MPI that was built with it."
            )
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


if TYPE_CHECKING:
    import numpy.typing as npt

    Bits: TypeAlias = npt.NDArray[np.uint8 | np.int16 | np.int32 | np.int64]
    """A tensor's memory, see :data:`_SAME_WIDTH`."""

_TAG = 0x5A11  # unlikely to be a tag of the user's messages; every MPI allows tags up to 32767

# Entries travel as integers of their width. With bytes, counts would be larger; they must be below 2**31.
_SAME_WIDTH = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class MpiTransport:
    """A :class:`~._transport.Transport` over an MPI communicator; tensors are on the host.

    Args:
        comm: a communicator; a timed one makes a row of every operation, and a plain one is timed here.
        layer_name: the layer name of the rows.
        phase: the first word of the phase of the rows.
        timing_logger: where the rows of a plain communicator go.

    Raises:
        ConfigurationError: ``comm`` is no intracommunicator, or is the null communicator.
    """

    device = control_device = torch.device("cpu")

    def __init__(
        self, comm: MPI.Comm, layer_name: str, phase: str, timing_logger: TimingLogger | None
    ) -> None:
        self._comm = _timed(comm, timing_logger)
        self._layer_name = layer_name
        self._phase = phase
        self.logger: TimingLogger = self._comm.timing_logger
        self.rank: int = self._comm.Get_rank()
        self.size: int = self._comm.Get_size()

    def allreduce(self, tensor: Tensor, what: str) -> Tensor:
        total = torch.empty_like(tensor)
        with self._named(what):
            self._comm.Allreduce(tensor.numpy(), total.numpy())
        return total

    def allgather(self, tensor: Tensor, what: str) -> Tensor:
        everyone = tensor.new_empty((self.size, tensor.numel()))
        with self._named(what):
            self._comm.Allgather(_bits(tensor), _bits(everyone))
        return everyone

    def allgatherv(self, tensor: Tensor, counts: Sequence[int], what: str) -> list[Tensor]:
        everyone = tensor.new_empty(sum(counts))
        with self._named(what):
            self._comm.Allgatherv(_bits(tensor), [_bits(everyone), list(counts)])
        return list(torch.split(everyone, list(counts)))

    def alltoall(self, tensor: Tensor, what: str) -> Tensor:
        received = torch.empty_like(tensor)
        with self._named(what):
            self._comm.Alltoall(_bits(tensor), _bits(received))
        return received

    def alltoallv(
        self, tensor: Tensor, send_counts: Sequence[int], receive_counts: Sequence[int], what: str
    ) -> list[Tensor]:
        received = tensor.new_empty(sum(receive_counts))
        with self._named(what):
            self._comm.Alltoallv([_bits(tensor), list(send_counts)], [_bits(received), list(receive_counts)])
        return list(torch.split(received, list(receive_counts)))

    def broadcast(self, tensor: Tensor, root: int, what: str) -> None:
        with self._named(what):
            self._comm.Bcast(_bits(tensor), root=root)

    def send(self, tensor: Tensor, to: int, what: str) -> None:
        with self._named(what):
            self._comm.Send(_bits(tensor), dest=to, tag=_TAG)

    def recv(self, count: int, dtype: torch.dtype, source: int, what: str) -> Tensor:
        received = torch.empty(count, dtype=dtype)
        with self._named(what):
            self._comm.Recv(_bits(received), source=source, tag=_TAG)
        return received

    def _named(self, what: str) -> AbstractContextManager[None]:
        return self.logger.label(self._layer_name, f"{self._phase} {what}".rstrip())


def _timed(comm: MPI.Comm, timing_logger: TimingLogger | None) -> TimedIntracomm:
    if comm == MPI.COMM_NULL:
        raise ConfigurationError("comm is the null communicator: it was freed, or this rank is not in it.")
    if not isinstance(comm, MPI.Intracomm):
        raise ConfigurationError(f"comm must be an intracommunicator, and is a {type(comm).__name__}.")
    return comm if isinstance(comm, TimedIntracomm) else TimedIntracomm(comm, timing_logger=timing_logger)


def _bits(tensor: Tensor) -> Bits:
    """Return the memory of ``tensor`` as integers of the entries' width, as NumPy has no bfloat16."""
    return tensor.view(_SAME_WIDTH[tensor.element_size()]).numpy()

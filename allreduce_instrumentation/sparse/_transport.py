"""The protocol by which all-reducers communicate, over MPI or over a process group."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard, TypeVar

import torch
from torch import Tensor

from allreduce_instrumentation._communicators import Communicator
from timing_logger.errors import ConfigurationError
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
    if _is_instance(comm, "torch.distributed", "ProcessGroup"):
        from allreduce_instrumentation.sparse._group_transport import GroupRanks

        return GroupRanks(comm, logger)
    from allreduce_instrumentation.sparse._mpi_transport import MpiRanks

    return MpiRanks(comm, logger)


class Transport(Protocol):
    """The protocol of ranks that exchange 1-D, contiguous tensors on ``device``.

    Each operation is a row: its layer and the first word of its phase are those of the all-reducer's call,
    and ``what``, such as ``"values"``, is the rest of the phase: ``sparse values``. Operations are
    complete on return, or in the device's stream. Any dtype travels; only :meth:`allreduce` calculates.

    Attributes:
        rank, size: this process's rank in the group, and the number of its ranks.
        device: the device of all tensors and results.
        control_device: a device from which :meth:`allgather` takes tensors on every rank, whatever is
            reduced.
        logger: the logger to which the rows go.
    """

    rank: int
    size: int
    device: torch.device
    control_device: torch.device
    logger: TimingLogger

    def allreduce(self, tensor: Tensor, what: str) -> Tensor:
        """Return the sum of ``tensor`` over the ranks, a new tensor; float32, float64 or int64."""

    def allgather(self, tensor: Tensor, what: str) -> Tensor:
        """Return every rank's ``tensor``, all of one length, in a tensor of shape ``(size, length)``."""

    def allgatherv(self, tensor: Tensor, counts: Sequence[int], what: str) -> list[Tensor]:
        """Return every rank's ``tensor``, one per rank; rank ``r``'s has ``counts[r]`` entries."""

    def alltoall(self, tensor: Tensor, what: str) -> Tensor:
        """Send block ``r`` of ``tensor`` to rank ``r``; block ``r`` of the result comes from rank ``r``.

        ``tensor`` and the result have ``size`` blocks of one length, which is the same on all ranks.
        """

    def alltoallv(
        self, tensor: Tensor, send_counts: Sequence[int], receive_counts: Sequence[int], what: str
    ) -> list[Tensor]:
        """Exchange blocks of different lengths, and return the received ones, one per rank.

        Args:
            tensor: the blocks to send, one after the other.
            send_counts: entries of the block for each rank.
            receive_counts: entries of the block from each rank.
            what: the rest of the row's phase.
        """

    def broadcast(self, tensor: Tensor, root: int, what: str) -> None:
        """Overwrite ``tensor`` with the one of rank ``root``."""

    def send(self, tensor: Tensor, to: int, what: str) -> None:
        """Send ``tensor`` to rank ``to``, which must call :meth:`recv`."""

    def recv(self, count: int, dtype: torch.dtype, source: int, what: str) -> Tensor:
        """Return what rank ``source`` sends: a new tensor with ``count`` entries of ``dtype``."""


def transport_for(
    comm: Any, like: object, layer_name: str, phase: str, timing_logger: TimingLogger | None
) -> Transport:
    """Return the transport over ``comm``.

    Neither MPI nor torch.distributed is imported here: ``comm`` exists only if its library was imported.

    Args:
        comm: an mpi4py intracommunicator or a ``torch.distributed.ProcessGroup``.
        like: the tensor to be reduced; a process group may keep its tensors on the same device.
        layer_name: the layer name of the rows.
        phase: the first word of the phase of the rows.
        timing_logger: where rows go. Default: the logger of a timed ``comm``, else
            ``get_timing_logger()``.

    Raises:
        ConfigurationError: ``comm`` is neither, or can no longer be used.
    """
    if _is_instance(comm, "mpi4py.MPI", "Comm"):
        from allreduce_instrumentation.sparse._mpi_transport import MpiTransport

        return MpiTransport(comm, layer_name, phase, timing_logger)
    if _is_instance(comm, "torch.distributed", "ProcessGroup"):
        from allreduce_instrumentation.sparse._group_transport import GroupTransport

        return GroupTransport(comm, like, layer_name, phase, timing_logger)
    raise ConfigurationError(
        "comm must be an mpi4py intracommunicator or a torch.distributed.ProcessGroup that this rank is in, "
        f"and is {comm!r}."
    )


def _is_instance(value: object, module: str, name: str) -> TypeGuard[Any]:
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)

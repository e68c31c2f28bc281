"""Transport: what an all-reducer can do with the other ranks, over MPI or over a process group."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from timing_logger.errors import ConfigurationError

if TYPE_CHECKING:
    from timing_logger.recording.logger import TimingLogger


class Transport(Protocol):
    """Ranks that exchange 1-D, contiguous tensors, which lie on ``device``.

    Each operation is a row: its layer and the first word of its phase are those of the call, and
    ``what``, such as ``"values"``, is the rest of the phase: ``sparse values``. Operations are
    complete on return, or in the device's stream. Any dtype travels; only :meth:`allreduce` calculates.
    """

    @property
    def rank(self) -> int:
        """This rank, in the group."""

    @property
    def size(self) -> int:
        """How many ranks."""

    @property
    def device(self) -> torch.device:
        """Where tensors must lie, and where results do."""

    @property
    def control_device(self) -> torch.device:
        """Where :meth:`allgather` takes tensors from on every rank, whatever is to be reduced there."""

    @property
    def logger(self) -> TimingLogger:
        """Where the rows go."""

    def allreduce(self, tensor: Tensor, what: str) -> Tensor:
        """The sum over the ranks, a new tensor; float32, float64 or int64."""

    def allgather(self, tensor: Tensor, what: str) -> Tensor:
        """Every rank's ``tensor``, all of one length: shape ``(size, length)``."""

    def allgatherv(self, tensor: Tensor, counts: Sequence[int], what: str) -> list[Tensor]:
        """Every rank's ``tensor``; rank ``r``'s has ``counts[r]`` entries."""

    def alltoall(self, tensor: Tensor, what: str) -> Tensor:
        """Block ``r`` of ``tensor`` goes to rank ``r``; the result's block ``r`` is from rank ``r``.

        ``tensor`` has ``size`` blocks of one length, the same on all ranks, and the result too.
        """

    def alltoallv(
        self, tensor: Tensor, send_counts: Sequence[int], receive_counts: Sequence[int], what: str
    ) -> list[Tensor]:
        """As :meth:`alltoall`, with blocks of ``send_counts[r]`` and ``receive_counts[r]`` entries."""

    def broadcast(self, tensor: Tensor, root: int, what: str) -> None:
        """Overwrite ``tensor`` with that of ``root``."""

    def send(self, tensor: Tensor, to: int, what: str) -> None:
        """Send to rank ``to``, which must receive."""

    def recv(self, count: int, dtype: torch.dtype, source: int, what: str) -> Tensor:
        """What rank ``source`` sends: ``count`` entries of ``dtype``, a new tensor."""


def transport_for(
    comm: Any, like: object, *, layer_name: str, phase: str, timing_logger: TimingLogger | None
) -> Transport:
    """The transport over ``comm``, an mpi4py intracommunicator or a ``torch.distributed.ProcessGroup``.

    Neither library is imported here: a ``comm`` exists only where its own was imported already.

    Args:
        like: what is to be reduced; a process group may keep its tensors on the same device.
        timing_logger: where rows go. Default: the logger of a timed ``comm``, else
            ``get_timing_logger()``.

    Raises:
        ConfigurationError: ``comm`` is neither, or can no longer be used.
    """
    if _is_instance(comm, "mpi4py.MPI", "Comm"):
        from allreduce_instrumentation.allreducers._mpi_transport import MpiTransport

        return MpiTransport.of(comm, layer_name, phase, timing_logger)
    if _is_instance(comm, "torch.distributed", "ProcessGroup"):
        from allreduce_instrumentation.allreducers._group_transport import GroupTransport

        return GroupTransport(comm, like, layer_name, phase, timing_logger)
    raise ConfigurationError(
        "comm must be an mpi4py intracommunicator or a torch.distributed.ProcessGroup that this rank is in, "
        f"and is {comm!r}."
    )


def _is_instance(value: Any, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)

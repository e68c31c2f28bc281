"""What carries the ping-pongs: messages between two ranks that are no rows and meet no others."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any, Protocol

from timing_logger.errors import ConfigurationError


class Link(Protocol):
    """Messages of bytes; each call is complete on return.

    Attributes:
        rank, size: this rank in the communicator, and how many there are.
    """

    rank: int
    size: int

    def send(self, content: bytearray, peer: int) -> None:
        """Send all of ``content``, which is not empty."""

    def receive(self, content: bytearray, peer: int) -> None:
        """Overwrite ``content`` with a message of the same length."""

    def rest_until_message(self, peer: int) -> None:
        """Wait until a message of ``peer`` is there to be received, and leave the processor to others."""


def link_over(comm: Any) -> AbstractContextManager[Link]:
    """A link between the ranks of ``comm``; collective over MPI.

    Args:
        comm: an mpi4py intracommunicator or a process group of ``torch.distributed``, timed or plain;
            None for torch's default group.

    Raises:
        ConfigurationError: ``comm`` is neither, or cannot carry messages of the host's.
    """
    torch_distributed: Any = sys.modules.get("torch.distributed")
    if comm is None:
        comm = _default_group(torch_distributed)
    process_group: Any = getattr(torch_distributed, "ProcessGroup", ())
    if isinstance(comm, process_group):
        from allreduce_instrumentation.clock_sync._group_link import group_link

        return group_link(comm)
    if "mpi4py.MPI" in sys.modules:
        from allreduce_instrumentation.clock_sync._mpi_link import is_usable, mpi_link

        if is_usable(comm):
            return mpi_link(comm)
    raise ConfigurationError(
        "comm must be an mpi4py intracommunicator with members, or a torch.distributed.ProcessGroup that "
        f"this rank is in, and is {comm!r}."
    )


def _default_group(torch_distributed: Any) -> Any:
    if torch_distributed is None or not torch_distributed.is_initialized():
        raise ConfigurationError(
            "comm is None, which stands for the default group of torch.distributed, and there is none: call "
            "init_process_group() first, or pass an mpi4py communicator such as MPI.COMM_WORLD."
        )
    return torch_distributed.group.WORLD

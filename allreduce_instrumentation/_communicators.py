"""The type of the communicators that this package's functions are given; importing it loads no library."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import torch.distributed as dist
    from mpi4py import MPI

Communicator: TypeAlias = "MPI.Intracomm | dist.ProcessGroup"
"""The ranks that work together: an mpi4py intracommunicator, or a process group of ``torch.distributed``."""

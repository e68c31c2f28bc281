"""What the kernels of collectives do: bytes travel between ranks of one machine as files in a directory."""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

_OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.PRODUCT: "product",
}


class Exchange(NamedTuple):
    """One kernel: what it leaves for others and takes from them, and what it makes of that.

    ``outgoing`` and ``incoming`` are tensors by the names under which ranks leave them for one another; what
    comes is reduced by ``op`` into ``into``, if there is such a tensor.
    """

    device: torch.device
    outgoing: dict[str, Tensor]
    incoming: dict[str, Tensor]
    into: Tensor | None = None
    op: str = ""

    def queue(self, ms: float) -> None:
        """Put it into the current stream of its device, to last ``ms`` longer than it takes."""
        torch.ops.asyncdev.exchange(
            [*self.outgoing], [*self.outgoing.values()], [*self.incoming], [*self.incoming.values()],
            self.into, self.op, ms, self.device.index,
        )  # fmt: skip


def op_of(opts: Any) -> str:
    """The name of the reduction that a call's options ask for; of a call without one it does not matter."""
    wanted = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
    return next(name for op, name in _OPS.items() if wanted == op)


def shared_directory(store: dist.Store, rank: int) -> str:
    """A directory for the group's files, which whoever ends last removes."""
    if rank == 0:
        store.set("directory", tempfile.mkdtemp(prefix="asyncccl-"))
    directory: str = store.get("directory").decode()
    atexit.register(_remove_if_empty, directory)
    return directory


def _remove_if_empty(directory: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(directory)

"""On two ranks: a group that does as ``nccl2``, made by torch itself and instrumented afterwards."""

from __future__ import annotations

from typing import Any

import timed_nccl2
import torch
import torch.distributed as dist
from _scenarios import RANK, run
from _timed_group import LOGGER, ME, lasting, new_rows
from async_device import process_group
from async_device.process_group import StreamBackend

from allreduce_instrumentation import instrument, uninstrument


def ddp() -> dict[str, Any]:
    return timed_nccl2.ddp()


def synchronous_call() -> list[list[str]]:
    """As C++ code makes one, which drops the work: past the methods of the group."""
    lasting(0)
    group = dist.group.WORLD.boxed()
    new_rows()
    torch.ops.c10d.broadcast_([torch.ones(25, device=ME)], group, 0, 0, False, -1)
    return [[row.operation, row.status] for row in new_rows()]


if __name__ == "__main__":
    StreamBackend.as_nccl2 = True
    process_group.register()
    torch.accelerator.set_device_index(RANK)
    dist.init_process_group(process_group.NAME)
    instrument(LOGGER)
    run(globals())
    uninstrument()
    dist.destroy_process_group()
    LOGGER.close()

"""Make every process group of torch, and MPI's world, time itself; the program uses them as ever."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from timing_logger.autologging.session import Session
from timing_logger.autologging.this_rank import Rank, stated_rank
from timing_logger.recording.logger import TimingLogger

if TYPE_CHECKING:
    import torch.distributed as dist


def time_process_groups(session: Session) -> None:
    """Time all operations over the process groups that torch makes from now on."""
    from allreduce_instrumentation.process_group.initialization import time_all_groups

    def logger_of(group: dist.ProcessGroup) -> TimingLogger | None:
        return session.harmless(session.logger)(Rank(group.rank(), group.size()))

    time_all_groups(logger_of)


def time_world(session: Session, mpi: ModuleType) -> None:
    """Replace ``MPI.COMM_WORLD`` by a communicator that times itself, if the process is a rank of MPI's.

    It is not if no launcher of MPI started it: frameworks import mpi4py by the way, and find a world of one.
    """
    if not mpi.Is_initialized():
        return
    world = mpi.COMM_WORLD
    stated = stated_rank()
    if world.size == 1 if stated is None else stated.world_size not in (None, world.size):
        return
    from allreduce_instrumentation.mpi import TimedIntracomm

    logger = session.logger(Rank(world.rank, world.size))
    mpi.COMM_WORLD = TimedIntracomm(world, timing_logger=logger)  # type: ignore[attr-defined]

"""Start timing in this process: by one call, or because ``timing-logger run`` started it."""

from __future__ import annotations

import logging
import os
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from timing_logger.autologging.session import Session
from timing_logger.autologging.set_up import appear_soon, time_mpi_init, time_rendezvous
from timing_logger.autologging.settings import MESSAGES, Rank, Settings, from_environment, stated_rank
from timing_logger.process.shared_files import opened_to_append
from timing_logger.recording.import_hooks import after_import
from timing_logger.recording.logger import TimingLogger

if TYPE_CHECKING:
    import torch.distributed as dist


_session: Session | None = None


def autolog(
    log_dir: str | os.PathLike[str] = "logs/timing",
    *,
    every: int = 1,
    batch_work: bool = True,
    host_counters: bool = True,
    stack_samples: bool = False,
) -> None:
    """Time this program from now on, without a further change of its code.

    Every process group that torch makes from now on times itself, as does ``MPI.COMM_WORLD`` of mpi4py.
    Steps of torch's optimizers count iterations, and ``DATA``, ``FORWARD``, ``BACKWARD`` and ``OPTIMIZER``
    are rows. The process's logger is started when the first of these happens; a logger that the process has
    already is used. Call this before the process group is made. Calling it again changes nothing.

    Args:
        log_dir: folder of the timing files.
        every: record every Nth iteration only, 1 for all.
        batch_work: whether ``DATA`` rows state as ``work`` how much was loaded: the elements of the batch's
            largest tensor of whole numbers, such as token ids with their padding, or else its samples.
        host_counters: whether ``host-rank{rank}.csv`` has once a second what the process, its host and its
            devices counted, such as the time in which threads waited for a processor.
        stack_samples: whether ``stacks-rank{rank}.csv`` has five times a second which line of the program's
            code its main thread was in.
    """
    settings = Settings(
        log_dir=os.path.abspath(log_dir),
        every=every,
        batch_work=batch_work,
        host_counters=host_counters,
        stack_samples=stack_samples,
    )
    _start(settings)


def start_if_asked() -> None:
    """Start timing if ``timing-logger run`` started this process's job.

    Raises:
        ConfigurationError: the settings in the environment cannot be read.
    """
    settings = from_environment()
    if settings is not None:
        _log_into(settings.log_dir)
        _start(settings)


def _log_into(log_dir: str) -> None:
    """Have the package's warnings written into the folder: the program's own output is left as it is."""
    log = logging.getLogger("timing_logger")
    file = Path(log_dir, MESSAGES.replace("*", str(os.getpid())))
    log.addHandler(_Messages(file, delay=True))  # opened by the first warning
    log.propagate = False


class _Messages(logging.FileHandler):
    """The file of warnings."""

    def _open(self) -> TextIOWrapper:
        return TextIOWrapper(opened_to_append(Path(self.baseFilename)))


def _start(settings: Settings) -> None:
    global _session
    if _session is not None:
        return
    session = _session = Session(settings)

    @session.harmless
    def time_torch(torch: ModuleType) -> None:
        from timing_logger.autologging.torch_operations import TorchOperations

        if torch.distributed.is_available():
            time_process_groups(session)
            time_rendezvous(session, torch.distributed)
            appear_soon(session)
        TorchOperations(session).attach(torch)

    after_import("torch", time_torch)
    time_mpi = session.harmless(partial(time_world, session))
    after_import("mpi4py.MPI", time_mpi, around=partial(time_mpi_init, session))


# -- make every process group of torch, and MPI's world, time itself; the program uses them as ever ------


def time_process_groups(session: Session) -> None:
    """Time all operations over the process groups that torch makes from now on."""
    from allreduce_instrumentation.torch_distributed.initialization import time_all_groups

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

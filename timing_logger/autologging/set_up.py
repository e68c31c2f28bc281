"""Time how the ranks of a job find each other: the commonest hang is one in which a rank never comes.

The file of a rank is there before it waits for the others, and also if it never comes so far.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from timing_logger.autologging.session import Session
from timing_logger.autologging.settings import Rank, rank_of_mpi, stated_rank
from timing_logger.process import launchers
from timing_logger.recording.autograd_threads import frame_of_main_thread, from_innermost
from timing_logger.recording.cores.protocols import NeverWaitedFor
from timing_logger.recording.logger import TimingLogger
from timing_logger.schema.defaults import APPEARS_AFTER_S

RANK_PROCESS = "TIMING_LOGGER_RANK_PROCESS"
"""The environment variable by which children of a rank, which inherit its rank, know that they are none."""

_WAITING_FOR_A_CHILD = (
    "subprocess.py",
    "multiprocessing/spawn.py",
    "popen_fork.py",
    "multiprocessing/process.py",
)


def time_rendezvous(session: Session, dist: ModuleType) -> None:
    """Time ``init_process_group`` and ``new_group`` of torch, under which the ranks wait for each other."""
    for name in ("init_process_group", "new_group"):
        own = getattr(dist, name)
        timed = _timed(session, own, name.upper())
        for module in (dist, dist.distributed_c10d):
            if vars(module).get(name) is own:
                setattr(module, name, timed)


def _timed(session: Session, own: Callable[..., Any], operation: str) -> Callable[..., Any]:
    numbers = itertools.count()

    @functools.wraps(own)
    def timed(*args: Any, **kwargs: Any) -> Any:
        ranks = session.harmless(_all_ranks)(session, kwargs, numbers)
        call = functools.partial(own, *args, **kwargs)
        return call() if ranks is None else ranks.time(operation, call)

    return timed


class _AllRanks:
    """All ranks of the job, which make a call together before there is a group of them."""

    name = ""

    def __init__(self, logger: TimingLogger, size: int, numbers: Iterator[int]) -> None:
        self.size = size
        self._logger = logger
        self._numbers = numbers

    def time(self, operation: str, call: Callable[[], Any]) -> Any:
        """Make the call, which is known from the moment that it begins, even if it holds the GIL."""
        return self._logger.time_call(operation, None, None, None, self, NeverWaitedFor, call, ())

    def next_collective(self) -> int:
        return next(self._numbers)

    def take_back(self, error: BaseException) -> bool:
        return False


def _all_ranks(session: Session, kwargs: dict[str, Any], numbers: Iterator[int]) -> _AllRanks | None:
    """Return the ranks that make the call; None if this is the only one, or not all of them do."""
    rank = stated_rank() or _told_rank(kwargs)
    if rank is None or (rank.world_size or 0) < 2 or kwargs.get("use_local_synchronization"):
        return None
    return _ranks_of(session, rank, numbers)


def _told_rank(kwargs: dict[str, Any]) -> Rank | None:
    rank, size = kwargs.get("rank"), kwargs.get("world_size")
    return Rank(rank, size) if type(rank) is int and type(size) is int and 0 <= rank < size else None


def _ranks_of(session: Session, rank: Rank, numbers: Iterator[int]) -> _AllRanks | None:
    logger = session.logger(rank)
    return _AllRanks(logger, rank.world_size or 1, numbers) if logger.recording else None


# -- MPI -------------------------------------------------------------------------------------------------


def time_mpi_init(session: Session, load: Callable[[], None]) -> None:
    """Load mpi4py, which initialises MPI, and time that as ``MPI_INIT`` if the process is a rank of MPI's."""
    ranks = session.harmless(_ranks_of_mpi)(session)
    if ranks is None:
        load()
    else:
        ranks.time("MPI_INIT", load)


def _ranks_of_mpi(session: Session) -> _AllRanks | None:
    rank = rank_of_mpi()
    initialises = getattr(getattr(sys.modules.get("mpi4py"), "rc", None), "initialize", False)
    if rank is None or (rank.world_size or 0) < 2 or not initialises or is_child_of_rank():
        return None
    claim_rank()
    return _ranks_of(session, rank, itertools.count())


# -- a rank that never comes -------------------------------------------------------------------------------


def claim_rank() -> None:
    """Have the children of this process, which inherit what the launcher says of its rank, know that."""
    os.environ.setdefault(RANK_PROCESS, f"{os.getpid()} {_stated()}")


def is_child_of_rank() -> bool:
    """Tell whether an ancestor of this process is the rank that the environment states."""
    pid, _, stated = os.environ.get(RANK_PROCESS, "").partition(" ")
    return bool(pid) and pid != str(os.getpid()) and stated == _stated()


def _stated() -> str:
    return " ".join(os.environ.get(name, "") for name in ("RANK", "LOCAL_RANK")) + f" {stated_rank()}"


def appear_soon(session: Session) -> None:
    """Start the logger some seconds later, though the process has done nothing yet of what only ranks do.

    Launchers, and children of a rank, are no ranks, though the environment may state one.
    """
    rank = stated_rank()
    if rank is None or (rank.world_size or 0) < 2 or not _is_of_its_own() or is_child_of_rank():
        return
    claim_rank()
    thread = threading.Thread(target=_appear, args=(session,), name="timing-logger-start", daemon=True)
    thread.start()


def _appear(session: Session) -> None:
    never = threading.Event()
    while not session.has_logger and not never.wait(APPEARS_AFTER_S):
        if not _waits_for_a_child():
            session.harmless(session.logger)()
            return


def _is_of_its_own() -> bool:
    """Tell whether this is no launcher, no worker of the program's, and no batch script's process."""
    main: Any = sys.modules.get("__main__")
    name = getattr(getattr(main, "__spec__", None), "name", "") or ""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    by_slurm_alone = "SLURM_PROCID" in os.environ and rank_of_mpi() is None and "RANK" not in os.environ
    return not (
        any(program in one.programs or name.startswith(one.modules) for one in launchers.LAUNCHERS)
        or "--multiprocessing-fork" in sys.argv
        or (by_slurm_alone and "SLURM_STEP_ID" not in os.environ)
    )


def _waits_for_a_child() -> bool:
    return any(
        frame.f_code.co_filename.endswith(_WAITING_FOR_A_CHILD)
        for frame in from_innermost(frame_of_main_thread())
    )

"""Which run this process is of, and which world of that run: what the environment says, alike on all ranks.

A run is one start of a job. If its launcher restarts it, that is the same run in a later incarnation. Ranks
that ``MPI_Comm_spawn`` started are a world of their own in the run, and count from 0 like the others. If the
environment does not tell of that, MPI does, where it runs.
"""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Any, NamedTuple

from timing_logger.launchers import Environment, launcher_of_run

VARIABLE = "TIMING_LOGGER_RUN_ID"
"""What ``timing-logger run`` hands on to every process of the job that it starts."""

_PROCESS = os.getpid()


class Identity(NamedTuple):
    """What a sidecar says of the run that its process is of.

    Attributes:
        run_id: the run; "" if nothing that all ranks share is known of it.
        world: "" for the ranks that were started first, else the name of a world that they spawned.
        launch_id: what the ``timing-logger run`` that started this process calls the run; "" without one.
    """

    run_id: str
    world: str
    launch_id: str


def identity(environment: Environment = os.environ) -> Identity:
    """Return which run the process with this environment is of.

    One ``timing-logger run`` may start several launchers, each of which starts a run; and each host may have
    its own ``timing-logger run`` around its part of one launcher.
    """
    launch_id = environment.get(VARIABLE, "")
    launcher = launcher_of_run(environment)
    stated = launcher.id_of_run(environment) if launcher else ""
    if launch_id and _number(environment, "GROUP_WORLD_SIZE") <= 1:  # torchrun's number of hosts
        stated = f"{launch_id}/{stated}" if launcher and stated and launcher.starts_all else launch_id
    return Identity(stated or launch_id, _world(environment), launch_id)


def id_of_new_run(environment: Environment = os.environ) -> str:
    """Return the identity of the run that ``timing-logger run`` is about to start, fit for file names.

    If a launcher started ``timing-logger run`` itself on several ranks, all of them are of one run.
    """
    if (
        VARIABLE not in environment
    ):  # else this is a job within a job, whose launcher is that of the outer one
        launcher = launcher_of_run(environment)
        if launcher and _number(environment, launcher.run_size or launcher.size) > 1:
            return re.sub("[^a-zA-Z0-9.-]", "-", launcher.id_of_run(environment))
    return f"{time.strftime('%Y%m%dT%H%M%S')}-{os.urandom(3).hex()}"


# -- worlds -------------------------------------------------------------------------------------------


def _world(environment: Environment) -> str:
    """Return the name of the world of a process that MPI spawned; of Open MPI its number in the namespace."""
    if not (_is_spawned(environment) or _has_parents()):
        return ""
    namespace = environment.get("PMIX_NAMESPACE", "")
    if namespace.isdecimal():
        return str(int(namespace) & 0xFFFF)
    _, at, number = namespace.rpartition("@")
    return number if at else "spawned"


def _is_spawned(environment: Environment) -> bool:
    """Tell whether Open MPI, or else MPICH or Intel MPI, says in the environment that it was spawned."""
    return "OMPI_PARENT_PORT" in environment or environment.get("PMI_SPAWNED", "0") != "0"


def _has_parents() -> bool:
    """Ask MPI whether it spawned this process, if the program has it running and this thread may call it."""
    mpi: Any = sys.modules.get("mpi4py.MPI")
    try:
        return _may_call(mpi) and bool(mpi.Comm.Get_parent() != mpi.COMM_NULL)
    except Exception:  # it is None, or half imported
        return False


def _may_call(mpi: Any) -> bool:
    """Tell whether a call of MPI is allowed now: not in a forked child, nor beside another thread's call."""
    if os.getpid() != _PROCESS or not mpi.Is_initialized() or mpi.Is_finalized():
        return False
    level = mpi.Query_thread()
    is_the_only_one = level < mpi.THREAD_SERIALIZED and mpi.Is_thread_main()
    return bool(level == mpi.THREAD_MULTIPLE or is_the_only_one)


def _number(environment: Environment, name: str) -> int:
    text = environment.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else 0

"""What launchers set in the environment of the ranks that they start: the table of launchers.

All that asks which rank a process is, which run it is of, or whether it is a launcher itself, is made of this
table: in Python when it is imported, in C when the library for ``--native-mpi`` is built.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

Environment: TypeAlias = Mapping[str, str]

_LOOPBACK = ("localhost", "127.", "::1")


class Launcher(NamedTuple):
    """How a launcher is known; what it does not set is "".

    Attributes:
        name: the launcher in words.
        rank: the variable with a process's rank.
        size: the variable with the number of ranks.
        is_mpi: whether the ranks are those of MPI.
        run: the variable that only this launcher sets, the same for all ranks of a run.
        run_id: what tells this run from others: a text with variables in braces, or a function.
        run_size: the variable with the number of ranks of the run, if that is not ``size``.
        starts_all: whether it starts all ranks, so that no other run of one command has its ``run_id``.
        programs, modules: the names of its own programs, and how those of its modules in Python begin.
    """

    name: str
    rank: str = ""
    size: str = ""
    is_mpi: bool = False
    run: str = ""
    run_id: str | Callable[[Environment], str] = ""
    run_size: str = ""
    starts_all: bool = True
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    def id_of_run(self, environment: Environment) -> str:
        """Return what tells the run from others."""
        if callable(self.run_id):
            return self.run_id(environment)
        return re.sub(VARIABLE_IN_TEXT, lambda found: environment.get(found[1], ""), self.run_id)


VARIABLE_IN_TEXT = r"\{(\w+)\}"


def of_torchrun(environment: Environment) -> str:
    """Return its run id, or where the ranks meet if that is its default."""
    stated = environment["TORCHELASTIC_RUN_ID"]
    return of_address(environment) if stated == "none" else stated


def of_address(environment: Environment) -> str:
    """Return where the ranks meet: no other run can use this port of that host at the same time."""
    host, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
    host = os.uname().nodename if host.startswith(_LOOPBACK) else host
    return f"{host}:{port}" if host and port else ""


def of_pmix(environment: Environment) -> str:
    """Return the namespace without the number of the world.

    It is ``prterun-host-1234@2``, or 32 bits of an Open MPI 4.
    """
    namespace = environment["PMIX_NAMESPACE"]
    if namespace.isdecimal():
        return f"openmpi-{int(namespace) >> 16}"
    return namespace.rpartition("@")[0] or namespace


LAUNCHERS: tuple[Launcher, ...] = (
    Launcher(  # also inside of a job of one of those below
        "torchrun, accelerate", rank="RANK", size="WORLD_SIZE", run="TORCHELASTIC_RUN_ID", run_id=of_torchrun,
        programs=("torchrun", "accelerate", "deepspeed"),
        modules=(
            "torch.distributed.run", "torch.distributed.launch", "accelerate.commands", "deepspeed.launcher",
        ),
    ),
    Launcher(
        "Open MPI, and others that speak PMIx", rank="OMPI_COMM_WORLD_RANK", size="OMPI_COMM_WORLD_SIZE",
        is_mpi=True, run="PMIX_NAMESPACE", run_id=of_pmix, programs=("mpiexec", "mpirun"),
    ),
    Launcher(  # MPICH, Intel MPI
        "PMI with `PMI_JOBID`", rank="PMI_RANK", size="PMI_SIZE", is_mpi=True,
        run="PMI_JOBID", run_id="{PMI_JOBID}",
    ),
    Launcher("MVAPICH2", rank="MV2_COMM_WORLD_RANK", size="MV2_COMM_WORLD_SIZE", is_mpi=True),
    Launcher("PMIx", rank="PMIX_RANK", size="PMIX_SIZE", is_mpi=True),  # the size is not always there
    Launcher(  # a batch script is no step; each task of an array has a job id of its own
        "srun", rank="SLURM_PROCID", size="SLURM_NTASKS", run="SLURM_STEP_ID",
        run_id="slurm-{SLURM_JOB_ID}.{SLURM_STEP_ID}", run_size="SLURM_STEP_NUM_TASKS",
    ),
    Launcher(  # pods, or ranks that each other started, some of them perhaps before the variable was set
        "anything else that sets them", size="WORLD_SIZE", run="MASTER_PORT", run_id=of_address,
        starts_all=False,
    ),
)  # fmt: skip
"""The first that states a rank counts for that, and the first that states a run: an inner before an outer."""


LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
"""The variables with the number of a process among those of its host, an inner launcher's first."""


def local_rank(environment: Environment) -> str:
    """Return the number of a process among those of its host; "" if no launcher states it."""
    return next((environment[name] for name in LOCAL_RANKS if name in environment), "")


def launcher_of_run(environment: Environment) -> Launcher | None:
    """Return the launcher that says which run a process with this environment is of; None without one."""
    return next((one for one in LAUNCHERS if one.run and environment.get(one.run)), None)

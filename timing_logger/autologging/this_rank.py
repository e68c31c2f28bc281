"""Which rank this process is: what its launcher says of it in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Rank(NamedTuple):
    """A process's place in its job.

    Attributes:
        rank: from 0.
        world_size: the number of ranks; None if it is not known.
    """

    rank: int
    world_size: int | None


_VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun, accelerate, deepspeed: also inside of a job of one of those below
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),  # MVAPICH2
    ("PMIX_RANK", "PMIX_SIZE"),  # any launcher that speaks PMIx; the size is not always there
    ("SLURM_PROCID", "SLURM_NTASKS"),  # srun
)


_VARIABLES_OF_MPI = _VARIABLES[1:-1]


def stated_rank(environment: Mapping[str, str] = os.environ) -> Rank | None:
    """Return what the launcher states of this process; None without a launcher.

    Args:
        environment: the environment variables.
    """
    return _first_of(_VARIABLES, environment)


def rank_of_mpi(environment: Mapping[str, str] = os.environ) -> Rank | None:
    """Return what a launcher of MPI states of this process; None without one, or if it is another's rank.

    Args:
        environment: the environment variables.
    """
    rank = _first_of(_VARIABLES_OF_MPI, environment)
    return rank if rank == stated_rank(environment) else None


def _first_of(variables: Sequence[tuple[str, str]], environment: Mapping[str, str]) -> Rank | None:
    for name, of_all in variables:
        rank, size = _number(environment.get(name)), _number(environment.get(of_all))
        if rank is not None and (size is None or rank < size):
            return Rank(rank, size)
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None

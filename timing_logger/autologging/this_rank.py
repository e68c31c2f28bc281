"""Which rank this process is: what its launcher says of it in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from timing_logger.process import launchers
from timing_logger.process.launchers import Launcher


class Rank(NamedTuple):
    """A process's place in its job.

    Attributes:
        rank: from 0.
        world_size: the number of ranks; None if it is not known.
    """

    rank: int
    world_size: int | None


def stated_rank(environment: Mapping[str, str] = os.environ) -> Rank | None:
    """Return what the launcher states of this process; None without a launcher.

    Args:
        environment: the environment variables.
    """
    return _first_of(launchers.LAUNCHERS, environment)


def rank_of_mpi(environment: Mapping[str, str] = os.environ) -> Rank | None:
    """Return what a launcher of MPI states of this process; None without one, or if it is another's rank.

    Args:
        environment: the environment variables.
    """
    rank = _first_of([one for one in launchers.LAUNCHERS if one.is_mpi], environment)
    return rank if rank == stated_rank(environment) else None


def _first_of(among: Sequence[Launcher], environment: Mapping[str, str]) -> Rank | None:
    for one in among:
        rank, size = _number(environment.get(one.rank)), _number(environment.get(one.size))
        if rank is not None and (size is None or rank < size):
            return Rank(rank, size)
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None

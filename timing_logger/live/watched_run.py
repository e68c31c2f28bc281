"""Which run is watched: what its sidecars say of it, and the environment of a process that belongs to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from timing_logger.analysis.rows.files import File, hosts_of, not_told, sidecar_of
from timing_logger.process.launchers import Environment

_NO_ENVIRONMENT: Environment = MappingProxyType({})

_JOB_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID")
"""What Slurm, PBS, LSF and Flux call their jobs in the environment of a job's processes."""

_OF_SLURM = re.compile(r"(?:.*/)?slurm-(\w+)\..*")  # the row of srun in launchers.py


class WatchedRun(NamedTuple):
    """What an event states of the run itself.

    Attributes:
        run_id: the run, as its sidecars call it; "" if they do not.
        job_id: the job that the run is of, as the batch system calls it; "" if it is not known.
        world_size: the number of ranks; None if it is not known.
        hosts: the host of each rank; "" for a rank of which it is not known.
        not_told: what the source of an imported run does not tell, by the kind of the import and the names of
            ``sidecar.NOT_TOLD``.
    """

    run_id: str = ""
    job_id: str = ""
    world_size: int | None = None
    hosts: Mapping[int, str] = MappingProxyType({})
    not_told: Mapping[str, Sequence[str]] = MappingProxyType({})

    def hosts_of_ranks(self, ranks: Sequence[int]) -> list[str]:
        """Return the hosts of these ranks, each once; nothing where all ranks run on one host."""
        if len(set(self.hosts.values())) < 2:
            return []
        return list(dict.fromkeys(host for rank in ranks if (host := self.hosts.get(rank))))


def run_of(files: Iterable[File], environment: Environment = _NO_ENVIRONMENT) -> WatchedRun:
    """Return what is known of a run.

    Args:
        files: its timing files with their sidecars, as ``Snapshot.files`` has them.
        environment: the environment of a process of the run's job, for the name of the job. None is given by
            whoever looks on from elsewhere: he may be in a job of his own.
    """
    known = list(files)
    ids = (sidecar_of(file).get("run_id") for file in known)
    sizes = (sidecar_of(file).get("world_size") for file in known)
    run_id = next(filter(None, ids), "")
    return WatchedRun(
        run_id, _job_of(run_id, environment), max(filter(None, sizes), default=None), hosts_of(known),
        not_told(known),
    )  # fmt: skip


def _job_of(run_id: str, environment: Environment) -> str:
    """Return the job that ``srun`` stated on the ranks, or that a process of the job has as its own."""
    if stated := _OF_SLURM.fullmatch(run_id):
        return stated[1]
    return next((environment[name] for name in _JOB_VARIABLES if environment.get(name)), "")

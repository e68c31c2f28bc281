"""Runs a program under ``torchrun``, for tests: with a time limit, and ending only what it started."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import group_in_cpp
import warm
from limits import JOB_S
from places import ROOT, TESTS
from processes import run_job

PROGRAMS = TESTS / "torch_programs"
SHARED_CHECKS = TESTS / "mpi_programs"

_RESULTS = "RESULTS "  # what rank 0 of torch_programs prints before its JSON


def run_with_torchrun(ranks: int, program: str, *arguments: str, limit_s: float = JOB_S) -> list[Any]:
    """Run ``tests/torch_programs/{program}`` on ``ranks`` processes of this machine.

    Args:
        ranks: the number of processes.
        program: the program's file name.
        arguments: the program's arguments.
        limit_s: seconds after which the job is ended and the test fails.

    Returns:
        The results that the program printed, one per rank, in the order of the ranks.
    """
    job = run_under_torchrun(ranks, PROGRAMS / program, *arguments, limit_s=limit_s)
    lines = [line for line in job.stdout.splitlines() if line.startswith(_RESULTS)]
    assert job.returncode == 0, f"exit status {job.returncode}:\n{job.stdout}\n{job.stderr}"
    assert len(lines) == 1, f"no results:\n{job.stdout}\n{job.stderr}"
    results: list[Any] = json.loads(lines[0].removeprefix(_RESULTS))
    return results


def run_under_torchrun(
    ranks: int, program: Path, *arguments: str, limit_s: float = JOB_S, launcher: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run any ``program`` on ``ranks`` processes of this machine, over the loopback interface.

    ``launcher`` are further arguments of ``torchrun`` itself.
    """
    group_in_cpp.build_if_it_times()
    command = [warm.python(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks]
    environment = {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{SHARED_CHECKS}",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    name = f"{program.name} on {ranks} ranks"
    return run_job(
        [*command, *launcher, program, *arguments], environment=environment, limit_s=limit_s, name=name
    )

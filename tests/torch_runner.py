"""Runs a program under ``torchrun``, for tests: with a time limit, and ending only what it started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "torch_programs"
SHARED_CHECKS = Path(__file__).parent / "mpi_programs"
REPOSITORY = Path(__file__).parent.parent

_RESULTS = "RESULTS "  # what rank 0 of torch_programs prints before its JSON
_TO_CLEAN_UP_S = 15.0


def run_with_torchrun(ranks: int, program: str, *arguments: str, limit_s: float = 120.0) -> list[Any]:
    """Run ``tests/torch_programs/{program}`` on ``ranks`` processes of this machine.

    Args:
        limit_s: seconds after which the job is ended and the test fails.

    Returns:
        What each rank found out, in the order of the ranks.
    """
    job = subprocess.Popen(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
            PROGRAMS / program, *arguments,
        ],
        env={
            **os.environ,
            "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{SHARED_CHECKS}",
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        stdout, stderr = job.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        stdout, stderr = _end(job)
        pytest.fail(f"{program} on {ranks} ranks was not done in {limit_s:g} s:\n{stdout}\n{stderr}")
    lines = [line for line in stdout.splitlines() if line.startswith(_RESULTS)]
    assert job.returncode == 0, f"exit status {job.returncode}:\n{stdout}\n{stderr}"
    assert len(lines) == 1, f"no results:\n{stdout}\n{stderr}"
    results: list[Any] = json.loads(lines[0].removeprefix(_RESULTS))
    return results


def _end(job: subprocess.Popen[str]) -> tuple[str, str]:
    """Ask torchrun to end its workers, which are in sessions of their own, then insist."""
    job.send_signal(signal.SIGTERM)
    try:
        return job.communicate(timeout=_TO_CLEAN_UP_S)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        return job.communicate()

"""Runs jobs whose code is unchanged, as they are and under ``timing-logger run``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import warm
from limits import JOB_S
from mpi_runner import OPEN_MPI
from places import ROOT, TESTS
from processes import run_job

PROGRAMS = TESTS / "unchanged_programs"
RUN = [sys.executable, "-m", "timing_logger", "run"]
ENVIRONMENT = {**OPEN_MPI, "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo"}
Job = subprocess.CompletedProcess[str]


def run(command: Sequence[object], *, limit_s: float = JOB_S, **environment: str) -> Job:
    return run_job(command, environment={**ENVIRONMENT, **environment}, limit_s=limit_s, name="the job")


def untimed(command: Sequence[object]) -> Job:
    """Run a job without timing; again, if torch aborted it.

    A thread of gloo that asks for the interpreter's lock while Python shuts down ends the process.
    """
    jobs = (run(command) for _ in range(5))
    return next(job for job in jobs if "terminate called without" not in job.stderr)


def timed(folder: Path, command: Sequence[object], *options: object, **environment: str) -> Job:
    return run([*RUN, "--log-dir", folder, *options, "--", *command], **environment)


def timed_warm(folder: Path, command: Sequence[object], *options: object, **environment: str) -> Job:
    """``timed`` where it is not tested how the timing starts: it and torch are there when a program begins.

    ``command`` starts ``warm.python()``.
    """
    run_warm = [warm.python(), *RUN[1:], "--log-dir", folder, *options, "--", *command]
    return run(run_warm, **{warm.SITE: "1", **environment})


def torchrun(interpreter: str, ranks: int = 2) -> list[object]:
    return [interpreter, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks]


def said_by_the_command(job: Job) -> str:
    return "".join(line for line in job.stderr.splitlines(True) if line.startswith("timing-logger: "))

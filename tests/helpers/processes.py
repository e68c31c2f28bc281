"""Runs programs in processes of their own, with a time limit that ends only those."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

_TO_CLEAN_UP_S = 15.0

INTERRUPTIBLE_CLI = """
import signal, sys
from timing_logger.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""
"""The command line for ``python -c``, with SIGINT enabled, which shells ignore in background jobs."""


def run_python(
    program: str, *arguments: object, timeout_s: float = 60, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the text ``program``; ``sys.argv[1:]`` are ``arguments``. A hang fails the test.

    ``environment`` adds to this process's.
    """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def run_job(
    command: Sequence[object], *, environment: Mapping[str, str], limit_s: float, name: str
) -> subprocess.CompletedProcess[str]:
    """Run ``mpiexec`` or ``torchrun``, with ``environment`` added to this process's.

    After ``limit_s`` seconds the job is ended and the test fails.
    """
    job = subprocess.Popen(
        list(map(str, command)),
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        stdout, stderr = job.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        stdout, stderr = _end(job)
        pytest.fail(f"{name} was not done in {limit_s:g} s:\n{stdout}\n{stderr}")
    return subprocess.CompletedProcess(job.args, job.returncode, stdout, stderr)


def _end(job: subprocess.Popen[str]) -> tuple[str, str]:
    """Ask the launcher to end its processes, which are in groups of their own; kill it if it does not."""
    job.send_signal(signal.SIGTERM)
    try:
        return job.communicate(timeout=_TO_CLEAN_UP_S)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        return job.communicate()


def rows(file: Path) -> list[list[str]]:
    """Return the cells of each line of a timing file without quoted names; the last line must be complete."""
    *lines, tail = file.read_text(encoding="utf-8").split("\n")
    assert tail == "", f"the last line of {file} is torn: {tail!r}"
    return [line.split(",") for line in lines[1:]]

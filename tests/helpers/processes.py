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
import warm
from limits import JOB_S, PROCESS_S, scaled

_TO_CLEAN_UP_S = scaled(15)

INTERRUPTIBLE_CLI = """
import signal, sys
from timing_logger.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""
"""The command line for ``python -c``, with SIGINT enabled, which shells ignore in background jobs."""


def run_warm(
    program: str, *arguments: object, timeout_s: float = PROCESS_S, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the text ``program`` as ``run_python`` does, in a process that has torch and pandas already.

    Not for what is said of imports, forks, signals, or the end of an interpreter (``warm``).
    """
    return run_python(
        program, *arguments, timeout_s=timeout_s, environment=environment, interpreter=warm.python()
    )


def run_python(
    program: str,
    *arguments: object,
    timeout_s: float = PROCESS_S,
    environment: dict[str, str] | None = None,
    interpreter: str = sys.executable,
) -> subprocess.CompletedProcess[str]:
    """Run the text ``program``; ``sys.argv[1:]`` are ``arguments``. A hang fails the test.

    ``environment`` adds to this process's.
    """
    command = [interpreter, "-c", textwrap.dedent(program), *map(str, arguments)]
    environment = {**os.environ, **(environment or {})}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, env=environment
        )
    except subprocess.TimeoutExpired as late:
        said = "\n".join(_text(stream) for stream in (late.stdout, late.stderr))
    raise AssertionError(f"this program was not done in {timeout_s:g} s:\n{program}\nIt said:\n{said}")


def _text(stream: bytes | str | None) -> str:
    """Return what a process had said by its time limit: bytes, even of one that is read as text."""
    return stream.decode(errors="replace") if isinstance(stream, bytes) else stream or ""


def run_job(
    command: Sequence[object], *, environment: Mapping[str, str], limit_s: float = JOB_S, name: str
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

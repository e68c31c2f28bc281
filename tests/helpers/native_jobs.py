"""Runs programs in C under ``timing-logger run --native-mpi``, for tests, and reads what it wrote."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from limits import PROCESS_S
from mpi_runner import environment_of_a_job
from places import TESTS
from processes import run_job

from timing_logger.cli import launch, main
from timing_logger.schema.timing_files import TimingFile

BIN = Path(sys.executable).parent
PROGRAMS = TESTS / "native_programs"
RUN = [sys.executable, "-m", "timing_logger", "run", "--native-mpi"]
COLUMNS = ("operation", "message_size_bytes", "group", "group_size", "seq", "peer", "thread", "status")

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or not (BIN / "mpicc").exists(), reason="no C compiler, or no mpicc"
)

Job = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """The environment of the MPI jobs of a module, in which ``mpicc`` and ``mpiexec`` are found."""
    with environment_of_a_job() as found:
        yield {**found, "PATH": f"{BIN}:{os.environ['PATH']}"}


def compiled(name: str, folder: Path, environment: dict[str, str], *options: str) -> Path:
    """Compile ``native_programs/{name}.c`` into ``folder``."""
    path = folder / name
    command = ["mpicc", "-O1", "-pthread", *options, str(PROGRAMS / f"{name}.c"), "-o", str(path)]
    subprocess.run(command, check=True, timeout=PROCESS_S, env={**os.environ, **environment})
    return path


class Jobs:
    """Runs one program on two ranks, or without a launcher, timed into a folder of its own."""

    def __init__(self, program: Path, environment: dict[str, str], folder: Path) -> None:
        self.folder = folder
        self.environment = environment
        self.program = program
        self.launcher: list[object] = ["mpiexec", "-n", "2"]
        self.run = RUN

    @property
    def command(self) -> list[object]:
        return [*self.launcher, self.program]

    def timed(self, what: str, *options: object) -> Job:
        command = [*self.run, "--log-dir", self.folder, *options, "--", *self.command, what]
        return run_job(command, environment=self.environment, name=what)

    def plain(self, what: str) -> Job:
        return run_job([*self.command, what], environment=self.environment, name=what)

    def rows(self, rank: int = 0) -> list[tuple[str, ...]]:
        """Return the rows of a rank's first run, from all parts that are there."""
        paths = self.folder.glob(f"timing-rank{rank}.*csv")
        named = [(name, path) for path in paths if (name := TimingFile.parse(path.name)) is not None]
        return [row for name, path in sorted(named) if name.incarnation == 1 for row in rows_of(path)]

    def sidecar(self, rank: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / f"timing-rank{rank}.meta.json").read_text())
        return found


class JobsOfThisCommand(Jobs):
    """Runs the program, but not the command line that starts it, in a process of its own."""

    def timed(self, what: str, *options: object) -> Job:
        command = [*RUN[3:], "--log-dir", self.folder, *options, "--", *self.command, what]
        with (
            mock.patch.dict(os.environ, self.environment),
            mock.patch.object(launch, "_end_by"),  # as the program was ended: this process
        ):
            return Job(command, main(list(map(str, command))), "", "")


def rows_of(path: Path) -> list[tuple[str, ...]]:
    """Return the rows of one file in the columns that do not depend on the time."""
    with path.open(newline="") as file:
        lines = csv.reader(file)
        header = next(lines)
        chosen = itemgetter(*(header.index(column) for column in COLUMNS))
        return [chosen(line) for line in lines if line]

"""What launchers set stands in one table, of which all is made that reads it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from limits import PROCESS_S
from places import ROOT

from timing_logger.autologging import set_up
from timing_logger.autologging.settings import Rank, rank_of_mpi, stated_rank
from timing_logger.native_mpi.build import launchers_header
from timing_logger.process import launchers
from timing_logger.process.launchers import LAUNCHERS, Launcher
from timing_logger.process.this_process import id_of_new_run, identity

RUN = ROOT / "docs" / "run.md"

HERD = Launcher(
    "herd", rank="HERD_RANK", size="HERD_SIZE", run="HERD_JOB", run_id="herd 100%-{HERD_JOB}.{HERD_STEP}",
    programs=("herd",),
)  # fmt: skip
RANK_OF_HERD = {"HERD_RANK": "1", "HERD_SIZE": "4", "HERD_JOB": "7", "HERD_STEP": "2"}


@pytest.fixture
def with_herd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds a launcher by one row, and nothing else."""
    monkeypatch.setattr(launchers, "LAUNCHERS", (*LAUNCHERS[:-1], HERD, LAUNCHERS[-1]))


@pytest.mark.usefixtures("with_herd")
def test_a_launcher_is_added_by_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stated_rank(RANK_OF_HERD) == Rank(1, 4)
    assert rank_of_mpi(RANK_OF_HERD) is None
    assert identity(RANK_OF_HERD).run_id == "herd 100%-7.2"
    assert id_of_new_run(RANK_OF_HERD) == "herd-100--7.2"
    assert set_up._is_of_its_own()
    monkeypatch.setattr(sys, "argv", ["/usr/bin/herd"])
    assert not set_up._is_of_its_own()


_SAID_IN_C = """
#include <stdio.h>
#include <stdlib.h>
#include "launchers.h"
static char started[64];
static const char *variable(const char *name) { return getenv(name) ? getenv(name) : ""; }
static void read_namespace(const char *value) { snprintf(started, sizeof started, "namespace %s", value); }
int main(void) { READ_STARTED puts(started); }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.usefixtures("with_herd")
def test_the_library_for_mpi_reads_what_the_table_says(tmp_path: Path) -> None:
    (tmp_path / "launchers.h").write_text(launchers_header())
    (tmp_path / "said.c").write_text(_SAID_IN_C)
    command = ["cc", "-Wall", "-Wextra", "-Werror", str(tmp_path / "said.c"), "-o", str(tmp_path / "said")]
    subprocess.run(command, check=True, timeout=PROCESS_S)
    slurm = {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"}
    for environment, said in [
        ({}, ""),
        (RANK_OF_HERD, "herd 100%-7.2"),
        (slurm, "slurm-12.0"),
        ({**slurm, "PMI_JOBID": "3"}, "3"),
        ({**slurm, "PMIX_NAMESPACE": "a@1"}, "namespace a@1"),
    ]:
        done = subprocess.run(
            [tmp_path / "said"], capture_output=True, text=True, check=True, env=environment
        )
        assert done.stdout == said + "\n"
        if "PMIX_NAMESPACE" not in environment:
            assert identity(environment).run_id == said


def test_the_page_says_of_each_launcher_what_tells_its_runs_apart() -> None:
    table = (
        RUN.read_text().partition("| launcher | identity of the run |\n|---|---|\n")[2].partition("\n\n")[0]
    )
    told = [line.split("|")[1].strip() for line in table.splitlines()]
    assert told == [one.name for one in LAUNCHERS if one.run], "the table in docs/run.md"

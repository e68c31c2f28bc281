"""``timing-logger run`` says in one line that its job hangs, while it hangs, and leaves the job alone."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from hung_runs import Rank, open_call, trained, write_run
from places import ROOT
from processes import run_python
from timing_files import EPOCH_S

from timing_logger.engine.live import Watcher
from timing_logger.report import snapshot_text

HANGS = """
import sys, time
from timing_logger import TimingLogger
folder = sys.argv[1]
loggers = [TimingLogger(rank, folder, world_size=2, hang_after=0.5) for rank in range(2)]
group = {"group": "world", "group_size": 2}
for step in range(3):
    for logger in loggers:
        logger.set_current_iteration(step)
        with logger.record_mpi_operation("ALLREDUCE", 8, seq=step, **group): pass
with loggers[0].record_mpi_operation("ALLREDUCE", 8, seq=3, **group):
    time.sleep(float(sys.argv[2]))
sys.exit(7)
"""


def run(folder: Path, seconds: float, *options: str) -> tuple[int, str]:
    command = ["run", "--log-dir", folder, *options, "--", sys.executable, "-c", HANGS, folder, seconds]
    job = run_python(
        "import sys; from timing_logger.cli import main; sys.exit(main())", *command, timeout_s=120,
        environment={"TIMING_LOGGER_HANG_AFTER": "0.5", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return job.returncode, job.stderr


@pytest.mark.slow
def test_a_job_that_hangs_is_told_of_once_with_who_is_missing_and_its_exit_code_stays(tmp_path: Path) -> None:
    code, said = run(tmp_path, 12)
    notices = [line for line in said.splitlines() if "The job goes on" in line]
    assert code == 7
    assert len(notices) == 1, said
    assert notices[0].startswith(
        "timing-logger: Rank 1 never entered ALLREDUCE 3 of world, in which rank 0 has"
    )
    assert notices[0].endswith(f"more: timing-logger hang {os.path.relpath(tmp_path)}")


@pytest.mark.slow
def test_a_quiet_run_says_nothing_of_a_hang(tmp_path: Path) -> None:
    assert run(tmp_path, 6, "--quiet") == (7, "")


def test_whoever_watches_reads_the_number_of_open_calls_and_who_is_missing(tmp_path: Path) -> None:
    """The process has not yet written a row of the call, but its sidecar or its ring knows it."""
    write_run(tmp_path, Rank(trained(), sidecar={"open_calls": [open_call()]}), Rank(trained()))
    end = Watcher(tmp_path).snapshot()
    assert [rank.unfinished for rank in end.ranks] == [1, 0]
    assert "Rank 1 never entered ALLREDUCE 10 of MPI_COMM_WORLD" in snapshot_text(end, 140)


def test_whoever_watches_reads_who_is_missing_before_it_is_a_hang(tmp_path: Path) -> None:
    now_s = time.time() - EPOCH_S
    began = {"seen_s": now_s, "progressed_s": now_s - 4}
    young = Rank([], **began, sidecar={"open_calls": [open_call(start_s=now_s - 4, group_size=2)]})
    write_run(tmp_path, young, Rank([], **began))
    said = " ".join(snapshot_text(Watcher(tmp_path).snapshot(), 140).split())
    assert "which is no hang yet; rank 1 had not entered it." in said

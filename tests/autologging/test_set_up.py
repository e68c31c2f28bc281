"""A rank that never comes to the set-up of a job is told, with where it is, though there is no group yet."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import warm
from hung_runs import Rank, inflight, write_run
from limits import scaled
from processes import run_python
from timed_jobs import said_by_the_command, timed_warm

from timing_logger import read_timings
from timing_logger.analysis import hang
from timing_logger.autologging.settings import rank_of_mpi
from timing_logger.schema.record import Record

STUCK = {"idle_stack": ["train.py:7 in load_first"]}


def waits(operation: str = "INIT_PROCESS_GROUP", seq: int = 0) -> Rank:
    return Rank([set_up(operation, seq)])


def set_up(operation: str, seq: int) -> Record:
    return inflight(operation, iteration=None, epoch=None, group="", group_size=2, seq=seq, layer_name="")


def test_a_rank_that_never_comes_is_named_with_its_stack(tmp_path: Path) -> None:
    end = hang(read_timings(write_run(tmp_path, waits(), Rank([], sidecar=STUCK))))
    assert (end.state, end.culprits) == ("hang", (1,))
    assert end.sentences[0] == "Rank 1 never entered INIT_PROCESS_GROUP, in which rank 0 has been for 118 s."
    assert end.sentences[1].startswith("Rank 1 was last seen at train.py:7 in load_first")


def test_of_a_rank_without_a_file_it_is_said_that_there_is_none(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="no file of rank 1"):
        timings = read_timings(write_run(tmp_path, waits("MPI_INIT"), world_size=2))
    assert hang(timings).sentences[0] == (
        "Rank 0 has been in MPI_INIT for 118 s; there is no file of rank 1, whose process has not started, "
        "or not come so far as to import torch or mpi4py."
    )


def test_the_nth_new_group_of_a_rank_is_that_of_the_others(tmp_path: Path) -> None:
    before = set_up("NEW_GROUP", 0)._replace(status="ok", end_ns=11 * 10**9)
    end = hang(read_timings(write_run(tmp_path, waits("NEW_GROUP", 1), Rank([before], sidecar=STUCK))))
    assert (end.groups[0].inside, end.groups[0].missing) == ((0,), (1,))


def test_a_rank_of_mpi_is_that_of_its_launcher_and_no_batch_scripts() -> None:
    mpi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    assert rank_of_mpi(mpi) == (1, 2)
    assert rank_of_mpi({**mpi, "RANK": "5", "WORLD_SIZE": "8"}) is None
    assert rank_of_mpi({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}) is None


STARTS_CHILDREN = """
import os, subprocess, sys, time
import torch
if len(sys.argv) > 2:
    import timing_logger.autologging.set_up as set_up
    print(set_up.is_child_of_rank(), set_up.is_child_of_rank.__module__)
else:
    subprocess.run([sys.argv[1], __file__, "", "child"], check=True)
"""


@pytest.mark.slow("two real processes; what a process with the environment of a rank is has direct tests")
def test_a_child_of_a_rank_inherits_the_rank_and_is_none(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(STARTS_CHILDREN)
    command = [warm.python(), program, warm.python()]
    job = timed_warm(tmp_path / "logs", command, RANK="0", WORLD_SIZE="2")
    assert job.stdout.startswith("True"), job.stderr


NEVER_COMES = """
import os, sys, time, torch, torch.distributed as dist
def load_first():
    while not os.path.exists(sys.argv[1]): time.sleep(0.1)
if os.environ["RANK"] == "1": load_first()
dist.init_process_group("gloo")
"""


@pytest.mark.slow("waits ten seconds for a hang, of two ranks that start cold")
@pytest.mark.serial
def test_a_job_whose_rank_never_comes_to_init_process_group_is_told_while_it_hangs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(NEVER_COMES)
    watcher = """
        import subprocess, sys, time, pathlib
        job = subprocess.Popen(sys.argv[2:], stderr=subprocess.PIPE, text=True)
        for line in job.stderr:
            print(line, end="", file=sys.stderr)
            if "The job goes on" in line: pathlib.Path(sys.argv[1]).touch()
        sys.exit(job.wait())
        """
    go = tmp_path / "go"
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", 2, program, go]
    command = [sys.executable, "-m", "timing_logger", "run", "--log-dir", tmp_path / "logs", "--"]
    job = run_python(
        watcher, go, *command, sys.executable, "-m", *launcher, timeout_s=scaled(200),
        environment={"TIMING_LOGGER_HANG_AFTER": "10", "GLOO_SOCKET_IFNAME": "lo"},
    )  # fmt: skip
    assert job.returncode == 0, job.stderr
    said = next(line for line in said_by_the_command(job).splitlines() if "The job goes on" in line)
    assert "Rank 1 never entered INIT_PROCESS_GROUP, in which rank 0 has been for" in said

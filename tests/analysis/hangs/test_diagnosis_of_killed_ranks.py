"""Processes that are gone are told of at once and first, and a kill makes no hang shorter than it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conditions import wait_for
from hung_runs import Rank, trained, waiting, write_run
from processes import run_python

from timing_logger import read_timings
from timing_logger.analysis import RunEnd, hang
from timing_logger.process.this_process import boot_id, host_name, pid_namespace
from timing_logger.reading.living import as_it_stands
from timing_logger.recording.cores import chosen as core
from timing_logger.schema.timing_files import sidecar_path

RANK = """
import sys, time
from timing_logger import TimingLogger
rank, folder, n_ranks, hang_after = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
logger = TimingLogger(rank, folder, world_size=n_ranks, hang_after=hang_after)
group = {"group": "world", "group_size": n_ranks}
for step in range(10):
    logger.set_current_iteration(step)
    with logger.record_mpi_operation("ALLREDUCE", 8, seq=step, **group): pass
print("trained", flush=True)
def sleep(): time.sleep(1000)
if rank == 0 and hang_after < 10:
    with logger.record_mpi_operation("ALLREDUCE", 8, seq=10, **group): sleep()
sleep()
"""


@contextmanager
def ranks(folder: Path, n_ranks: int, hang_after_s: float) -> Iterator[list[subprocess.Popen[bytes]]]:
    command = [sys.executable, "-c", RANK]
    settings = [str(folder), str(n_ranks), str(hang_after_s)]
    jobs = [
        subprocess.Popen([*command, str(rank), *settings], stdout=subprocess.PIPE) for rank in range(n_ranks)
    ]
    try:
        for job in jobs:
            assert job.stdout is not None
            assert job.stdout.readline() == b"trained\n"
        yield jobs
    finally:
        for job in jobs:
            job.kill()
            job.communicate()


def asked(folder: Path) -> dict[str, Any]:
    run = run_python("import sys; from timing_logger.cli import main; main()", "hang", folder, "--json")
    told: dict[str, Any] = json.loads(run.stdout)
    return told


@pytest.mark.slow("starts four ranks; what is said of such ranks is tested on the files that they leave")
def test_ranks_that_were_killed_are_the_first_thing_that_is_said_of_a_run_that_goes_on(
    tmp_path: Path,
) -> None:
    with ranks(tmp_path, 4, 60.0) as jobs:
        for job in jobs[:3]:
            job.kill()
            job.wait()
        told = asked(tmp_path)
    assert (
        told["sentences"][0] == "Ranks 0, 1 and 2 ended without closing their logs, as killed processes do."
    )
    assert (told["state"], told["gone"]) == ("running", [0, 1, 2])


@pytest.mark.slow("asks a running job again and again; a hang that a kill ended is tested on files, too")
@pytest.mark.skipif(core.NAME != "native", reason="the Python core has no ring")
def test_a_hang_lasts_after_a_kill_as_long_as_before(tmp_path: Path) -> None:
    with ranks(tmp_path, 2, 1.0):
        lived = wait_for(lambda: told if (told := asked(tmp_path))["state"] == "hang" else {})
    killed = asked(tmp_path)
    assert (killed["state"], killed["culprits"]) == (lived["state"], lived["culprits"]) == ("hang", [1])
    assert killed["groups"][0]["since_s"] >= lived["groups"][0]["since_s"]


def gone_pid() -> int:
    job = subprocess.Popen([sys.executable, "-c", ""])
    job.wait()
    return job.pid


def here(pid: int) -> dict[str, Any]:
    """Return what the sidecar of a process says of where it ran."""
    return {"pid": pid, "host": host_name(), "boot_id": boot_id(), "pid_namespace": pid_namespace()}


def end_of(folder: Path, *running: Rank) -> RunEnd:
    return hang(read_timings(write_run(folder, *running)))


@pytest.mark.parametrize(("is_gone", "expected"), [(True, True), (False, False)])
def test_a_process_without_a_ring_is_known_to_be_gone_by_its_pid(
    tmp_path: Path, is_gone: bool, expected: bool
) -> None:
    sidecar = {"closed": False, **here(gone_pid() if is_gone else os.getpid())}
    file = tmp_path / "timing-rank0.csv"
    sidecar_path(file).write_text(json.dumps(sidecar))
    told = as_it_stands(sidecar, file)
    assert told is not None
    assert told.get("killed", False) is expected


def test_a_process_that_closes_its_log_while_it_is_looked_at_was_not_killed(tmp_path: Path) -> None:
    before = {"closed": False, **here(gone_pid())}
    file = tmp_path / "timing-rank0.csv"
    sidecar_path(file).write_text(json.dumps({**before, "closed": True}))
    told = as_it_stands(before, file)
    assert told is not None
    assert (told["closed"], told.get("killed", False)) == (True, False)


def test_who_waits_for_a_rank_that_is_dead_hangs_at_once(tmp_path: Path) -> None:
    young = {"seen_s": 12.0, "progressed_s": 10.0}
    inside = [Rank(waiting().rows, **young) for _ in range(3)]
    dead = Rank(trained(), **young, sidecar={"killed": True})
    end = end_of(tmp_path, *inside, dead)
    assert (end.state, end.culprits) == ("hang", (3,))
    assert end.sentences[1].startswith("Rank 3 ended without closing its log, as a killed process does")

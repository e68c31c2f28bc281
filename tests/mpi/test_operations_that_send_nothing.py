"""Calls in which ranks wait for each other without sending have rows, or are counted."""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import warm
from mpi_runner import PROGRAMS, environment_of_a_job, run_on_ranks
from native_jobs import BIN, RUN, needs_compiler, rows_of
from processes import run_job
from simulated_runs import data_parallel, factors

from timing_logger.analysis import (
    base_operation,
    is_collective,
    is_communication,
    match_collectives,
    stragglers,
    synchronises_all_ranks,
)
from timing_logger.analysis.rows.operations import SYNCHRONISING, goes_on, is_own_work
from timing_logger.reading.timings import read_timings
from timing_logger.results.plain import ONE_SIDED
from timing_logger.words.not_told import reason

Row = tuple[str, ...]

# -- rows on real ranks -------------------------------------------------------------------------------------


def with_tools(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment of a job that finds the tools of the wheels, such as ``mpicc``."""
    return {**environment, "PATH": f"{BIN}:{os.environ['PATH']}"}


class Timed(NamedTuple):
    """What a rank's timing file and sidecar have of ``mpi_programs/unseen_waits.py``."""

    rows: list[Row]
    sidecar: dict[str, Any]
    folder: Path


@pytest.fixture(
    scope="module",
    params=[
        "wrapper",
        pytest.param("native", marks=[needs_compiler, pytest.mark.slow("rows are the wrapper's")]),
    ],
    ids="by the {}".format,
)
def timed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Timed:
    folder, data = tmp_path_factory.mktemp("logs"), tmp_path_factory.mktemp("data")
    by_wrapper = request.param == "wrapper"
    python = warm.python() if by_wrapper else sys.executable  # which is started with a library beside it
    program = [BIN / "mpiexec", "-n", "2", python, "-m", "mpi4py", PROGRAMS / "unseen_waits.py"]
    if by_wrapper:
        command = [*program, folder, data]
    else:
        command = [warm.python(), *RUN[1:], "--quiet", "--log-dir", folder, "--", *program, data]
    with environment_of_a_job() as environment:
        job = run_job(command, environment=with_tools(environment), name=request.param)
    assert job.returncode == 0, job.stderr
    sidecar = json.loads((folder / "timing-rank1.meta.json").read_text())
    return Timed(rows_of(folder / "timing-rank1.csv"), sidecar, folder)


def rows(timed: Timed, *beginnings: str) -> list[Row]:
    """Return operation, bytes, group, seq and peer of the rows whose operation begins so."""
    return [(row[0], row[1], row[2], row[4], row[5]) for row in timed.rows if row[0].startswith(beginnings)]


def test_making_a_communicator_is_a_collective_of_the_one_that_it_is_made_of(timed: Timed) -> None:
    world = "MPI_COMM_WORLD"
    made = rows(timed, "COMM_", "CART_", "GRAPH_", "DIST_", "INTERCOMM_", "ICOMM_")
    assert [(row[0], row[2], row[3]) for row in made] == [
        ("COMM_DUP", world, "0"),
        ("COMM_DUP", world, "1"),
        ("COMM_DUP_WITH_INFO", world, "2"),
        ("COMM_SPLIT", world, "3"),
        ("COMM_SPLIT_TYPE", world, "4"),
        ("COMM_CREATE", world, "5"),
        ("COMM_CREATE_GROUP", "ranks 0-1 #7", "0"),
        ("GRAPH_CREATE", world, "6"),
        ("DIST_GRAPH_CREATE", world, "7"),
        ("DIST_GRAPH_CREATE_ADJACENT", world, "8"),
        ("CART_CREATE", world, "9"),
        ("CART_SUB", "ranks 0-1 #11", "0"),
        ("INTERCOMM_CREATE", "ranks 0|1", "0"),
        ("INTERCOMM_MERGE", "ranks 0|1", "1"),
        ("ICOMM_DUP", world, "10"),
        ("COMM_DISCONNECT", "ranks 0|1", "2"),
    ]
    assert [(row[0], row[3]) for row in rows(timed, "WAIT")] == [("WAIT", "10")]


def test_synchronisation_of_a_window_has_rows_and_who_is_locked_is_the_peer(timed: Timed) -> None:
    world, window = "MPI_COMM_WORLD", "ranks 0-1 window"
    assert [(row[0], *row[2:]) for row in rows(timed, "WIN_")] == [
        ("WIN_CREATE", world, "11", ""),
        ("WIN_FREE", window, "0", ""),
        ("WIN_ALLOCATE_SHARED", world, "12", ""),
        ("WIN_FREE", window, "1", ""),
        ("WIN_CREATE_DYNAMIC", world, "13", ""),
        ("WIN_FREE", window, "2", ""),
        ("WIN_ALLOCATE", world, "14", ""),
        ("WIN_FENCE_NOPRECEDE", window, "3", ""),
        ("WIN_FENCE", window, "4", ""),
        ("WIN_LOCK", window, "", "0"),
        ("WIN_FLUSH", window, "", "0"),
        ("WIN_FLUSH_LOCAL", window, "", "0"),
        ("WIN_UNLOCK", window, "", "0"),
        ("WIN_LOCK_ALL", window, "", ""),
        ("WIN_FLUSH_ALL", window, "", ""),
        ("WIN_FLUSH_LOCAL_ALL", window, "", ""),
        ("WIN_UNLOCK_ALL", window, "", ""),
        ("WIN_POST", window, "", ""),
        ("WIN_START", window, "", ""),
        ("WIN_COMPLETE", window, "", ""),
        ("WIN_WAIT", window, "", ""),
        ("WIN_FREE", window, "5", ""),
    ]


def test_collective_calls_on_a_file_have_rows_with_the_bytes_written_or_read(timed: Timed) -> None:
    found = rows(timed, "FILE_")
    of_world = [(row[0], row[3]) for row in found if row[2] == "MPI_COMM_WORLD"]
    assert of_world == [("FILE_OPEN", "15"), ("FILE_OPEN", "16")]
    of_file = [row for row in found if row[2] == "ranks 0-1 file"]  # the second has the name of the first
    assert [(row[0], row[1]) for row in of_file] == [
        ("FILE_SET_SIZE", ""),
        ("FILE_PREALLOCATE", ""),
        ("FILE_SET_VIEW", ""),
        ("FILE_WRITE_ALL", "1000"),
        ("FILE_WRITE_AT_ALL", "1000"),
        ("FILE_WRITE_ALL_BEGIN", "1000"),
        ("FILE_WRITE_ALL_END", ""),
        ("FILE_SYNC", ""),
        ("FILE_SET_VIEW", ""),
        ("FILE_READ_AT_ALL", "300"),
        ("FILE_READ_AT_ALL_BEGIN", ""),
        ("FILE_READ_AT_ALL_END", "200"),
        ("FILE_SET_VIEW", ""),
        ("FILE_SEEK_SHARED", ""),
        ("FILE_WRITE_ORDERED", "1000"),
        ("FILE_CLOSE", ""),
        ("FILE_READ_AT_ALL", "20"),  # of 4000 bytes of room: the file ends there
        ("FILE_CLOSE", ""),
    ]
    assert [row[3] for row in of_file] == list(map(str, range(len(of_file))))


def test_all_of_them_are_matched_across_ranks(timed: Timed) -> None:
    matched = match_collectives(read_timings(timed.folder))
    assert set(matched["state"]) == {"complete"}
    assert len(matched) >= 2 * 48


def test_what_is_not_timed_is_counted(timed: Timed) -> None:
    assert timed.sidecar["untimed"] == {"Rput": 1, "Rget": 1, "File_iwrite_all": 1}


@pytest.mark.slow("what MPI itself keeps to; that these calls have rows is quick")
def test_no_rank_leaves_a_synchronising_call_before_the_last_has_come() -> None:
    """Three ranks, one of which comes 20 ms late to each: this is what makes it synchronising."""
    times: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
    for rank in run_on_ranks(3, "late_rank.py").results:
        for operation, group, seq, start_ns, end_ns in rank:
            times[operation, group, seq].append((start_ns, end_ns))
    tried = set()
    for (operation, group, seq), ranks in times.items():
        if synchronises_all_ranks(operation):
            assert len(ranks) == 3, (operation, group, seq)
            assert min(end for _, end in ranks) > max(start for start, _ in ranks), operation
            tried.add(operation)
    nccls = {"ALLREDUCE", "ALLGATHER", "ALLTOALL", "REDUCE_SCATTER", "BARRIER"}
    assert tried == SYNCHRONISING - nccls - {"COMM_SHRINK"}


# -- what the names mean ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["FILE_X", "FILE_OPEN_CHECKPOINT", "FILE_READ", "WIN_X", "COMM_SPLIT_TENSORS"]
)
def test_a_free_name_that_begins_alike_is_own_work(name: str) -> None:
    assert is_own_work(name)
    assert base_operation(name) == name


def test_calls_on_a_window_in_which_not_all_take_part_are_no_collectives() -> None:
    assert all(map(is_communication, ONE_SIDED))
    assert not any(map(is_collective, ONE_SIDED))


def test_a_fence_that_need_not_wait_synchronises_nobody() -> None:
    assert synchronises_all_ranks("WIN_FENCE")
    assert not synchronises_all_ranks("WIN_FENCE_NOPRECEDE")
    assert is_collective("WIN_FENCE_NOPRECEDE")


@pytest.mark.parametrize("name", ["FILE_WRITE_ALL", "FILE_READ_AT_ALL_END", "FILE_SET_VIEW", "COMM_SPAWN"])
def test_collective_input_and_output_is_communication_that_synchronises_nobody(name: str) -> None:
    assert is_collective(name)
    assert not synchronises_all_ranks(name)


def test_a_duplicate_that_is_made_in_the_background_is_a_duplicate() -> None:
    assert base_operation("ICOMM_DUP") == "COMM_DUP"
    assert goes_on("ICOMM_DUP")
    assert not goes_on("INTERCOMM_CREATE")


# -- the verdict --------------------------------------------------------------------------------------------


def run_with(untimed: dict[str, int], slow: bool = False) -> Any:
    factor = factors(30, 4, noise=0.05, seed=7)
    if slow:
        factor[:, 2] *= 2
    timings = data_parallel(factor)
    timings.attrs["files"] = [
        {"rank": rank, "incarnation": 1, "sidecar": {"world_size": 4, "closed": True, "untimed": untimed}}
        for rank in range(4)
    ]
    return timings


def test_a_run_with_calls_that_are_not_timed_is_not_called_healthy() -> None:
    assert stragglers(run_with({})).judged
    verdict = stragglers(run_with({"Rput": 12, "File_iwrite_all": 1}))
    assert (verdict.verdict, verdict.judged) == ("healthy", False)
    assert reason(verdict.why) == (
        "ranks may have waited for each other in calls that are not timed (48 x Rput, 4 x File_iwrite_all)"
    )


def test_a_rank_that_is_known_to_be_slow_remains_so() -> None:
    verdict = stragglers(run_with({"Rput": 12}, slow=True))
    assert (verdict.verdict, verdict.ranks) == ("rank", (2,))


@pytest.mark.slow("one more kind of program; the late rank of usual ones is quick")
@pytest.mark.serial  # other tests would make other ranks late
@pytest.mark.parametrize("way", ["wrapper", pytest.param("native", marks=needs_compiler)])
def test_the_late_rank_of_a_program_with_windows_is_named(way: str, tmp_path: Path) -> None:
    """The other one waits for it in Win.Fence, and no longer in the Allreduce that follows."""
    python, options = (sys.executable, ["--native-mpi"]) if way == "native" else (warm.python(), [])
    program = [BIN / "mpiexec", "-n", "2", python, "-m", "mpi4py", PROGRAMS / "late_at_fences.py"]
    command = [warm.python(), *RUN[1:-1], *options, "--log-dir", tmp_path, "--", *program]
    with environment_of_a_job() as environment:
        job = run_job(command, environment={**with_tools(environment), warm.SITE: "1"}, name=way)
    assert "Verdict: rank 1 costs this run " in job.stderr, job.stderr

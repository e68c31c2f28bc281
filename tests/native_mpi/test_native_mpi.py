"""``timing-logger run --native-mpi``: programs in C and Python, timed by a library that is preloaded."""

from __future__ import annotations

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
import warm
from conditions import wait_for
from limits import LIMIT_S, PROCESS_S
from native_jobs import RUN, Job, Jobs, JobsOfThisCommand, compiled, needs_compiler, rows_of
from places import TESTS
from processes import run_job

from timing_logger.cli import main
from timing_logger.errors import ConfigurationError
from timing_logger.native_mpi import build, table
from timing_logger.native_mpi.build import library
from timing_logger.reading.timings import read_timings
from timing_logger.schema.record import COLUMNS, HEADER

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def program(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program ``native_programs/calls.c``, compiled."""
    return compiled("calls", tmp_path_factory.mktemp("native"), environment)


@pytest.fixture
def jobs(program: Path, environment: dict[str, str], tmp_path: Path) -> Jobs:
    """One program each on two ranks; the command of those that are not asked what it says is this process."""
    return JobsOfThisCommand(program, dict(environment), tmp_path / "logs")


@pytest.fixture
def jobs_of_a_command(program: Path, environment: dict[str, str], tmp_path: Path) -> Jobs:
    return Jobs(program, dict(environment), tmp_path / "logs")


# -- the oracle: what TimedIntracomm records ---------------------------------------------------------------


def test_its_rows_are_those_of_a_timed_communicator(environment: dict[str, str], tmp_path: Path) -> None:
    """Of every collective and message, blocking, nonblocking and persistent, over six communicators.

    Both time the same run.
    """
    by_wrapper, native = tmp_path / "wrapper", tmp_path / "native"
    program = [sys.executable, "-m", "mpi4py", TESTS / "mpi_programs" / "every_call.py", by_wrapper]
    run = [warm.python(), *RUN[1:], "--quiet", "--log-dir", native, "--", "mpiexec", "-n", "3", *program]
    job = run_job(run, environment=environment, name="every call")
    assert job.returncode == 0, job.stderr
    for rank in range(3):
        expected = rows_of(by_wrapper / f"timing-rank{rank}.csv")
        found = rows_of(native / f"timing-rank{rank}.csv")
        assert len(found) > 300
        assert found == expected


@pytest.mark.slow(
    "one more end, call or fault of a program in C; its rows, an error, a fork and a kill are quick"
)
@pytest.mark.parametrize("by", ["wrapper", "native"])
def test_a_receive_has_the_bytes_that_came_and_not_those_of_its_buffer(
    environment: dict[str, str], tmp_path: Path, by: str
) -> None:
    python = warm.python() if by == "wrapper" else sys.executable
    program = [python, "-m", "mpi4py", TESTS / "mpi_programs" / "short_receives.py"]
    command: list[object] = ["mpiexec", "-n", "2", *program]
    command = (
        [*command, tmp_path] if by == "wrapper" else [*RUN, "--quiet", "--log-dir", tmp_path, "--", *command]
    )
    job = run_job(command, environment=environment, name=by)
    assert job.returncode == 0, job.stderr
    received = [row for row in rows_of(tmp_path / "timing-rank1.csv") if row[0] in ("RECV", "IRECV", "WAIT")]
    assert len(received) == 4 + 2 * 11
    assert {row[1] for row in received} == {"1000"}


def test_every_function_that_moves_data_between_ranks_is_in_the_table(environment: dict[str, str]) -> None:
    """As far as this MPI declares it: also what a version to come will have."""
    os_environment = {**os.environ, **environment}
    text = subprocess.run(
        ["mpicc", "-E", "-x", "c", "-"], input="#include <mpi.h>\n", capture_output=True, text=True,
        check=True, timeout=PROCESS_S, env=os_environment,
    ).stdout  # fmt: skip
    declared = re.findall(r"\bint\s+PMPI_(\w+)\s*\(([^;]*)\)", text)
    moving = {name for name, given in declared if "MPI_Comm " in given and "MPI_Datatype " in given}
    elsewhere = {name for name in moving if name.startswith(("Pack", "Unpack", "Win_", "File_"))}
    families = (table.BLOCKING_COLLECTIVES, table.BLOCKING_MESSAGES, table.ISSUED, table.PREPARED)
    known = {function.name for family in families for function in family}
    assert {name.removesuffix("_c") for name in moving - elsewhere} <= known
    assert len(moving) > 80


# -- programs in C ------------------------------------------------------------------------------------------


class Finished(NamedTuple):
    """A program that was timed, and how it ended."""

    jobs: Jobs
    job: Job


LIMITED = ["bash", "-c", 'ulimit -f 64; trap "" XFSZ; exec "$@"', "bash"]
LAUNCHERS: dict[str, list[object]] = {
    "late": ["mpiexec", "-n", "2"], "failing": [], "forking": [], "killed": [], "flood": [*LIMITED],
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(
    program: Path, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Finished]:
    """What became of programs that ran side by side, as each of them mostly waits; by what they did."""

    def run(what: str, folder: Path) -> Finished:
        jobs = Jobs(program, dict(environment), folder)
        jobs.run, jobs.launcher = [warm.python(), *RUN[1:]], LAUNCHERS[what]
        return Finished(jobs, jobs.timed(what, *([] if what == "late" else ["--quiet"])))

    warm.python()  # one for all
    folders = [tmp_path_factory.mktemp(what) / "logs" for what in LAUNCHERS]
    with ThreadPoolExecutor() as pool:
        return dict(zip(LAUNCHERS, pool.map(run, LAUNCHERS, folders), strict=True))


def test_every_line_has_the_cells_of_the_table(finished: dict[str, Finished]) -> None:
    header, *lines = (finished["late"].jobs.folder / "timing-rank0.csv").read_text().splitlines()
    assert header + "\n" == HEADER
    assert [len(cells) for cells in csv.reader(lines)] == [len(COLUMNS)] * (5 + 16)


def test_a_program_in_c_has_its_rows_and_is_left_as_it_is(finished: dict[str, Finished]) -> None:
    jobs, job = finished["late"]
    assert (job.returncode, sorted(job.stdout.splitlines())) == (0, ["rank 0 of 2", "rank 1 of 2"])
    assert "timings of 2 ranks are in" in job.stderr
    world = ("MPI_COMM_WORLD", "2")
    assert jobs.rows(1)[:5] == [
        ("ALLREDUCE", "16", *world, "0", "", "MainThread", "ok"),
        ("ALLGATHER", "8", *world, "1", "", "MainThread", "ok"),
        ("BCAST", "12", *world, "2", "1", "MainThread", "ok"),
        ("IBARRIER", "", *world, "3", "", "MainThread", "ok"),
        ("WAIT", "", *world, "3", "", "MainThread", "ok"),
    ]
    assert jobs.sidecar()["closed"] is True
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of damaged or incomplete files
        assert len(read_timings(jobs.folder)) == 2 * (5 + 16)


@pytest.mark.slow("a rarer call; rows, names, bytes and ends of usual programs are in the quick tests here")
def test_a_message_from_any_source_names_its_sender_whether_or_not_the_program_asks(jobs: Jobs) -> None:
    assert jobs.timed("messages", "--quiet").returncode == 0
    received = [row for row in jobs.rows(0) if row[0] == "IRECV"]
    assert [(row[1], row[4], row[5]) for row in received] == [("5", "0", "1"), ("5", "1", "1")]


@pytest.mark.slow("a rarer call; rows, names, bytes and ends of usual programs are in the quick tests here")
def test_threads_record_side_by_side(jobs: Jobs) -> None:
    assert jobs.timed("threads", "--quiet").returncode == 0
    rows = jobs.rows(0)
    assert sorted(int(row[4]) for row in rows) == list(range(4 * 100))
    assert len({row[6] for row in rows}) == 4


@pytest.mark.slow("a rarer call; rows, names, bytes and ends of usual programs are in the quick tests here")
def test_what_comes_faster_than_it_can_be_written_is_written_or_counted(jobs: Jobs) -> None:
    assert jobs.timed("flood", "--quiet").returncode == 0
    counters = jobs.sidecar()["counters"]
    assert counters["accepted"] == 100_000 == counters["written"] + counters["dropped"]
    assert (jobs.folder / "timing-rank0.csv").read_bytes().count(b"\n") == 1 + counters["written"]


@pytest.mark.slow("a rarer call; rows, names, bytes and ends of usual programs are in the quick tests here")
def test_communicators_made_alike_have_names_of_their_own(jobs: Jobs) -> None:
    jobs.timed("duplicates", "--quiet")
    barriers = [row[2] for row in jobs.rows(0) if row[0] == "BARRIER"]
    assert barriers == ["ranks 0-1", "ranks 0-1 #2", "ranks 0-1 #3"]


@pytest.mark.slow("a rarer call; rows, names, bytes and ends of usual programs are in the quick tests here")
def test_pcontrol_pauses_the_rows_and_not_their_numbers(jobs: Jobs) -> None:
    jobs.timed("paused", "--quiet")
    assert [row[4] for row in jobs.rows(0)] == ["0", "2"]


def test_an_error_is_named_by_its_class(finished: dict[str, Finished]) -> None:
    jobs, job = finished["failing"]
    assert job.returncode == 0
    assert [row[-1] for row in jobs.rows()] == ["error:MPI_ERR_RANK"]


def test_a_forked_child_writes_nothing(finished: dict[str, Finished]) -> None:
    jobs, job = finished["forking"]
    assert job.returncode == 0
    assert [row[4] for row in jobs.rows()] == ["0", "1"]
    assert jobs.sidecar()["counters"]["written"] == 2


@pytest.mark.slow("a rarer call; rows, names, bytes and ends of usual programs are in the quick tests here")
def test_a_request_that_nobody_waits_for_is_unresolved(jobs: Jobs) -> None:
    jobs.timed("lost", "--quiet")
    assert [(row[0], row[-1]) for row in jobs.rows(0)] == [("IRECV", "unresolved")]


# -- programs in Fortran ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def symbols(environment: dict[str, str]) -> set[str]:
    """What the library defines or needs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", environment["PATH"])
        command = ["nm", "-D", str(library())]
    return set(
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=PROCESS_S).stdout.split()
    )


@pytest.mark.parametrize("name", ["pcontrol", "abort", "mprobe", "improbe", "mrecv", "imrecv"])
def test_the_library_has_what_a_program_in_fortran_calls(symbols: set[str], name: str) -> None:
    assert {f"mpi_{name}_", f"mpi_{name}_f08_"} <= symbols


@pytest.mark.skipif(shutil.which("mpifort") is None, reason="no compiler of Fortran for MPI")
@pytest.mark.parametrize("binding", ["MPIF_H", "MPI", "MPI_F08"])
def test_a_program_in_fortran_pauses_its_rows_and_receives_what_it_probed(
    environment: dict[str, str], tmp_path: Path, binding: str
) -> None:
    program = tmp_path / "matched"
    source = TESTS / "native_programs" / "matched.F90"
    subprocess.run(["mpifort", f"-D{binding}", source, "-o", program], check=True, timeout=PROCESS_S)
    command = [*RUN, "--quiet", "--log-dir", tmp_path / "logs", "--", program]
    own = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TMPDIR": str(tmp_path)}
    job = run_job(command, environment=own, name=binding)  # with the MPI of mpifort
    assert job.returncode == 0, job.stderr
    rows = [(row[0], row[4]) for row in rows_of(tmp_path / "logs" / "timing-rank0.csv")]
    assert [row for row in rows if row[0] == "BARRIER"] == [("BARRIER", "0"), ("BARRIER", "2")]
    assert [row for row in rows if row[0] in ("MPROBE", "RECV", "IMPROBE", "IRECV")] == [
        ("MPROBE", ""), ("RECV", "0"), ("IMPROBE", ""), ("IRECV", "1"),
    ]  # fmt: skip


# -- ends ---------------------------------------------------------------------------------------------------


@pytest.mark.slow(
    "one more end, call or fault of a program in C; its rows, an error, a fork and a kill are quick"
)
@pytest.mark.parametrize("what", ["killed", "leaving"])
def test_a_job_ends_as_it_would_have(jobs_of_a_command: Jobs, what: str) -> None:
    jobs = jobs_of_a_command
    assert jobs.timed(what, "--quiet").returncode == jobs.plain(what).returncode


@pytest.mark.slow(
    "one more end, call or fault of a program in C; its rows, an error, a fork and a kill are quick"
)
def test_a_program_that_aborts_ends_as_it_would_have(jobs_of_a_command: Jobs) -> None:
    """Alone: Open MPI's launcher itself crashes or hangs after one abort in thirty."""
    jobs = jobs_of_a_command
    jobs.launcher = []
    assert jobs.timed("aborting", "--quiet").returncode == jobs.plain("aborting").returncode != 0


def test_a_kill_loses_no_row_older_than_a_quarter_of_a_second(finished: dict[str, Finished]) -> None:
    jobs, job = finished["killed"]
    assert job.returncode == -signal.SIGKILL
    assert [row[0] for row in jobs.rows()] == ["BARRIER"]
    assert jobs.sidecar()["closed"] is False


def test_rows_that_the_disk_refuses_are_counted_and_the_program_goes_on(
    finished: dict[str, Finished],
) -> None:
    jobs, job = finished["flood"]
    assert job.returncode == 0
    sidecar = jobs.sidecar()
    assert sidecar["last_error"] == "write failed: File too large"
    assert sidecar["counters"]["written"] == len(jobs.rows())
    assert sidecar["counters"]["dropped"] == 100_000 - sidecar["counters"]["written"] > 0


@pytest.mark.slow(
    "one more end, call or fault of a program in C; its rows, an error, a fork and a kill are quick"
)
def test_the_rank_that_others_wait_for_in_a_hang_is_named(jobs: Jobs) -> None:
    command = [warm.python(), *RUN[1:], "--log-dir", jobs.folder, "--", *jobs.command, "hanging"]
    environment = {**os.environ, **jobs.environment, "TIMING_LOGGER_HANG_AFTER": "0.5"}
    job = subprocess.Popen(
        list(map(str, command)), env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    try:
        wait_for(lambda: (jobs.folder / "timing-rank0.meta.json").exists() and jobs.sidecar()["open_calls"])
        hangs_unix_ns = jobs.sidecar()["updated_unix_ns"]
        wait_for(lambda: jobs.sidecar(1)["updated_unix_ns"] > hangs_unix_ns)  # rank 1 tells where it is
    finally:
        job.send_signal(signal.SIGTERM)
        said = job.communicate(timeout=LIMIT_S)[1]
    assert "Rank 1 never entered BARRIER 1 of MPI_COMM_WORLD, in which rank 0 has been" in said
    assert jobs.rows(0)[-1][-1] == "inflight"


# -- the command and the library ----------------------------------------------------------------------------


def test_the_late_rank_of_an_mpi_program_is_named(finished: dict[str, Finished]) -> None:
    said = finished["late"].job.stderr
    assert "Verdict: rank 1 costs this run " in said
    assert "logger.operation" not in said  # the program may be in any language


def test_a_program_without_mpi_is_left_alone(environment: dict[str, str], tmp_path: Path) -> None:
    command = [warm.python(), *RUN[1:], "--log-dir", tmp_path, "--", "echo", "hello"]
    job = run_job(command, environment=environment, name="no MPI")
    assert (job.returncode, job.stdout) == (0, "hello\n")
    assert "no process of the job initialised MPI" in job.stderr


def test_the_library_brings_no_mpi_into_a_process(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", environment["PATH"])
    needed = subprocess.run(
        ["readelf", "-d", str(library())], capture_output=True, text=True, check=True, timeout=PROCESS_S
    ).stdout
    assert re.findall(r"NEEDED.*\[(.*)\]", needed) == ["libc.so.6"]


@pytest.mark.slow("a rarer call; rows, names, bytes and ends of usual programs are in the quick tests here")
def test_a_library_whose_path_the_loader_would_divide_is_preloaded_all_the_same(
    jobs_of_a_command: Jobs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The loader complains in each process about a library that it does not find."""
    jobs = jobs_of_a_command
    monkeypatch.setenv("PATH", jobs.environment["PATH"])
    cache = tmp_path / "a cache: $ORIGIN"
    (cache / "timing_logger").mkdir(parents=True)
    shutil.copy(library(), cache / "timing_logger")
    folder = tmp_path / "temporary"
    folder.mkdir()
    jobs.environment |= {"XDG_CACHE_HOME": str(cache), "TMPDIR": str(folder)}
    jobs.launcher = []
    job = jobs.timed("paused", "--quiet")
    assert (job.returncode, job.stderr) == (0, "")
    assert len(jobs.rows()) == 2
    assert not list(folder.glob("timing-logger-*"))


def test_where_no_folder_has_a_path_for_the_loader_it_says_what_to_do(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "library", lambda: tmp_path / "a library.so")
    monkeypatch.setattr(build, "_folders", list)
    with pytest.raises(ConfigurationError, match=r"a library\.so.*Set XDG_CACHE_HOME"):
        build.preloadable_library()


def test_without_an_mpi_compiler_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPICC", "no-such-mpicc")
    with pytest.raises(ConfigurationError, match=r"'no-such-mpicc' is not there.*set MPICC"):
        library()


def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that has no mpi.h, as a plain compiler."""
    monkeypatch.setenv("MPICC", "cc")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"'cc' failed: .*error: mpi\.h"):
        library()


COMPILES_NOTHING = """#!/bin/sh
case "$1" in -E) exec mpicc "$@" ;; esac
while [ "$1" != -o ]; do shift; done
touch "$2"
"""


def test_a_library_is_built_once(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler, cache = tmp_path / "compiler", tmp_path / "cache"
    compiler.write_text(COMPILES_NOTHING)  # all other tests have the library that a real one makes
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", environment["PATH"])
    monkeypatch.setenv("MPICC", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    first = library()
    monkeypatch.setattr(build, "_build", None)
    assert library() == first
    assert [path.name for path in (cache / "timing_logger").iterdir()] == [first.name]


def test_every_nth_iteration_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*RUN[3:], "--every", "2", "--log-dir", str(tmp_path), "--", "true"]
    assert main(command) == 2
    assert "--native-mpi knows no iterations" in capsys.readouterr().err

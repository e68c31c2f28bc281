"""What the library for ``--native-mpi`` promises when files are taken away, disks fail and programs end."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from limits import PROCESS_S
from native_jobs import RUN, Jobs, JobsOfThisCommand, compiled, needs_compiler, rows_of
from processes import run_job
from slow import slow

from timing_logger.reading.recovery import recover
from timing_logger.schema.sidecar import (
    UNUSABLE,
    FilePart,
    GroupProgress,
    OpenCallInfo,
    RunInfo,
    usable_sidecar,
)

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def program(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("faults", tmp_path_factory.mktemp("faults"), environment)


LIMITED: list[object] = ["timeout", PROCESS_S]


@pytest.fixture
def jobs(program: Path, environment: dict[str, str], tmp_path: Path) -> Jobs:
    """One process each, without a launcher."""
    found = JobsOfThisCommand(program, dict(environment), tmp_path / "logs")
    found.launcher = LIMITED
    return found


def counters(jobs: Jobs) -> tuple[int, int, int]:
    found = jobs.sidecar()["counters"]
    assert found["pending"] == 0
    return found["accepted"], found["written"], found["dropped"]


def parts(jobs: Jobs) -> list[tuple[str, int, int, str]]:
    return [(part["file"], part["rows"], part["lost"], part["why"]) for part in jobs.sidecar()["parts"]]


# -- what others do to the files -----------------------------------------------------------------------------


@pytest.fixture
def jobs_of_an_old_kernel(jobs: Jobs, environment: dict[str, str], tmp_path: Path) -> Jobs:
    """Before Linux 5.9, no thread could have descriptors of its own and close those of its process."""
    jobs.launcher = [*LIMITED, compiled("refused", tmp_path, environment), 436]
    return jobs


CLOSES = ["closes", "closes_and_takes_all_numbers"]


@pytest.mark.slow(
    "one more fault of a program in C; that its rows outlive a death, a kill and lost files is quick"
)
@pytest.mark.parametrize("what", CLOSES)
def test_a_program_that_closes_all_descriptors_closes_none_of_the_writers(jobs: Jobs, what: str) -> None:
    assert jobs.timed(what, "--quiet").returncode == 0
    assert (jobs.folder / "own.txt").read_text() == "mine\n"
    assert counters(jobs) == (1000, 1000, 0)
    assert parts(jobs) == [("timing-rank0.csv", 1000, 0, "")]


@pytest.mark.slow("a rarer fault; that rows outlive a death, a bad disk and lost files is quick")
@pytest.mark.parametrize("what", [CLOSES[0], slow(CLOSES[1], "without taking all numbers it is tried")])
def test_where_the_kernel_lets_the_program_close_the_writers_the_rows_go_on_in_a_new_part(
    jobs_of_an_old_kernel: Jobs, what: str
) -> None:
    jobs = jobs_of_an_old_kernel
    assert jobs.timed(what, "--quiet").returncode == 0
    assert (jobs.folder / "own.txt").read_text() == "mine\n"
    assert counters(jobs) == (1000, 1000, 0)
    assert [int(row[4]) for row in jobs.rows()] == list(range(1000))
    (first, second) = parts(jobs)
    assert first[:3] == ("timing-rank0.csv", 500, 0)
    assert first[3].startswith("had its descriptor closed")
    assert second == ("timing-rank0.part2.csv", 500, 0, "")


@pytest.mark.slow("a rarer fault; that rows outlive a death, a bad disk and lost files is quick")
def test_a_program_that_closes_and_opens_files_while_rows_are_written_has_them_to_itself(jobs: Jobs) -> None:
    """Between any two system calls of the writer, which tells of calls at once and so writes all the time."""
    jobs.environment["TIMING_LOGGER_HANG_AFTER"] = "0.00001"
    assert jobs.timed("calls_while_a_thread_closes", "--quiet").returncode == 0
    own = list(jobs.folder.glob("own-*.txt"))
    assert len(own) == 1000
    assert [path.name for path in own if path.read_bytes() != b"mine\n"] == []
    assert [why for *_, why in parts(jobs)] == [""]
    for path in jobs.folder.glob("*.csv"):
        path.unlink()  # hundreds of megabytes


@pytest.mark.slow("a rarer fault; that rows outlive a death, a bad disk and lost files is quick")
def test_the_writer_keeps_none_of_the_programs_pipes_and_locks(jobs: Jobs) -> None:
    assert jobs.timed("lets_go_of_its_files", "--quiet").returncode == 0
    assert counters(jobs) == (5, 5, 0)


@pytest.mark.parametrize(
    ("what", "why", "kept"),
    [
        ("unlinks", "was deleted", 0),
        pytest.param("moves", "was moved away", 0, marks=pytest.mark.slow("as what was deleted")),
        pytest.param("replaces", "was replaced", 0, marks=pytest.mark.slow("as what was deleted")),
        pytest.param(
            "cuts",
            "was cut to 20000 bytes",
            None,
            marks=pytest.mark.slow("that rows which are gone are counted is tried of a deleted file"),
        ),
        pytest.param("removes_the_folder", "was deleted", 0, marks=pytest.mark.slow("as what was deleted")),
    ],
)
def test_rows_go_on_in_a_new_part_and_those_that_are_gone_are_dropped(
    jobs: Jobs, what: str, why: str, kept: int | None
) -> None:
    assert jobs.timed(what, "--quiet").returncode == 0
    second = rows_of(jobs.folder / "timing-rank0.part2.csv")
    assert [int(row[4]) for row in second] == list(range(500, 1000))
    if kept is None:  # of what is left, each whole line counts
        kept = (jobs.folder / "timing-rank0.csv").read_text().count("\n") - 1
        assert kept > 0
    assert parts(jobs) == [
        ("timing-rank0.csv", kept, 500 - kept, why),
        ("timing-rank0.part2.csv", 500, 0, ""),
    ]
    assert counters(jobs) == (1000, 500 + kept, 500 - kept)


@pytest.mark.slow("a rarer fault; that rows outlive a death, a bad disk and lost files is quick")
def test_a_file_that_was_deleted_last_is_counted_without_a_new_one(jobs: Jobs) -> None:
    assert jobs.timed("unlinks_at_the_end", "--quiet").returncode == 0
    assert counters(jobs) == (500, 0, 500)
    assert not list(jobs.folder.glob("*.csv"))


# -- disks ---------------------------------------------------------------------------------------------------


@pytest.mark.slow("a rarer fault; that rows outlive a death, a bad disk and lost files is quick")
def test_a_limit_on_the_size_of_files_does_not_change_the_exit_code(jobs: Jobs) -> None:
    """SIGXFSZ ends a process that does not ignore it."""
    job = jobs.timed("limits_the_size_of_files", "--quiet")
    assert job.returncode == jobs.plain("limits_the_size_of_files").returncode == 0, job.stderr
    accepted, written, dropped = counters(jobs)
    assert accepted == 20_000 == written + dropped
    assert len(jobs.rows()) == written > 0


@pytest.mark.slow(
    "one more fault of a program in C; that its rows outlive a death, a kill and lost files is quick"
)
@pytest.mark.serial  # a process has two seconds to end
@pytest.mark.parametrize("stalled", ["the timing file", "everything"])
def test_a_stalled_disk_does_not_keep_a_process_from_its_end(
    jobs: Jobs, tmp_path: Path, stalled: str
) -> None:
    """Each write takes a minute. Rows that are left are counted, where the sidecar can be written."""
    jobs.environment["LD_PRELOAD"] = str(
        compiled("stalled_writes", tmp_path, jobs.environment, "-shared", "-fPIC", "-w")
    )
    jobs.environment["STALLED"] = stalled
    job = run_job(
        [*RUN, "--quiet", "--log-dir", jobs.folder, "--", jobs.program, "floods"],
        environment=jobs.environment, limit_s=30, name="a stall",
    )  # fmt: skip
    assert job.returncode == 0, job.stderr
    if stalled == "the timing file":
        assert counters(jobs) == (20_000, 0, 20_000)


# -- ends ----------------------------------------------------------------------------------------------------


@pytest.mark.slow("one more end of a rank; that a killed one has its rows and the call is quick")
def test_the_rank_that_aborts_has_its_rows_and_the_call(jobs: Jobs) -> None:
    assert jobs.timed("aborts", "--quiet").returncode == jobs.plain("aborts").returncode != 0
    rows = jobs.rows()
    assert len(rows) == 501
    assert (rows[-1][0], rows[-1][2], rows[-1][-1]) == ("ABORT", "MPI_COMM_WORLD", "error:MPI_Abort")
    assert jobs.sidecar()["closed"] is False


@pytest.mark.slow(
    "one more fault of a program in C; that its rows outlive a death, a kill and lost files is quick"
)
def test_a_rank_that_mpi_ends_for_an_error_has_its_rows_and_the_call(jobs: Jobs) -> None:
    assert jobs.timed("fails", "--quiet").returncode == jobs.plain("fails").returncode != 0
    rows = jobs.rows()
    assert len(rows) == 501
    assert (rows[-1][0], rows[-1][-1]) == ("SEND", "error:MPI_ERRORS_ARE_FATAL")
    assert jobs.sidecar()["closed"] is False


@pytest.mark.slow(
    "one more fault of a program in C; that its rows outlive a death, a kill and lost files is quick"
)
def test_a_process_that_leaves_at_once_has_all_rows(jobs: Jobs) -> None:
    assert jobs.timed("leaves", "--quiet").returncode == 0
    assert counters(jobs) == (500, 500, 0)
    assert len(jobs.rows()) == 500


@pytest.mark.slow(
    "one more fault of a program in C; that its rows outlive a death, a kill and lost files is quick"
)
def test_a_signal_handler_that_leaves_in_a_call_has_all_rows_and_that_call(jobs: Jobs) -> None:
    assert jobs.timed("leaves_in_a_handler", "--quiet").returncode == 7
    rows = jobs.rows()
    assert len(rows) == 501
    assert (rows[-1][0], rows[-1][-1]) == ("RECV", "inflight")


@pytest.mark.slow("a rarer fault; that rows outlive a death, a bad disk and lost files is quick")
def test_a_child_without_the_hooks_of_fork_leaves_the_files_alone(jobs: Jobs) -> None:
    assert jobs.timed("forks_in_c", "--quiet").returncode == 0
    assert counters(jobs) == (1000, 1000, 0)
    assert [int(row[4]) for row in jobs.rows()] == list(range(1000))


@pytest.mark.slow("a rarer fault; that rows outlive a death, a bad disk and lost files is quick")
def test_threads_that_call_while_the_process_ends_leave_whole_counts(jobs: Jobs) -> None:
    jobs.timed("leaves_while_threads_call", "--quiet")
    accepted, written, dropped = counters(jobs)
    assert accepted == written + dropped
    assert sum(file.read_bytes().count(b"\n") - 1 for file in jobs.folder.glob("*.csv")) == written


# -- spawned worlds ---------------------------------------------------------------------------------------


@pytest.mark.slow(
    "one more fault of a program in C; that its rows outlive a death, a kill and lost files is quick"
)
def test_spawned_processes_are_another_world_of_the_run(
    program: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    jobs = Jobs(program, environment, tmp_path / "logs")
    assert jobs.timed("spawns", "--quiet").returncode == 0
    told = [json.loads(path.read_text()) for path in sorted(jobs.folder.glob("*.meta.json"))]
    worlds = {one["world"] for one in told}
    assert len(told) == 4
    assert len(worlds) == 2
    assert "" in worlds
    assert len({one["run_id"] for one in told}) == 1
    for one in told:
        rows = rows_of(jobs.folder / one["file"])
        own = [row for row in rows if row[2] == "MPI_COMM_SELF"]
        assert len(own) == (5 if one["world"] == "" else 7)


@pytest.mark.slow(
    "one more fault of a program in C; that its rows outlive a death, a kill and lost files is quick"
)
def test_the_sidecar_says_what_recorded_and_that_a_kill_loses_nothing(jobs: Jobs) -> None:
    jobs.timed("leaves", "--quiet")
    sidecar = jobs.sidecar()
    assert sidecar["core"] == "native-mpi"
    assert sidecar["crash_protection"]["on"] is True
    assert not Path(sidecar["ring_path"]).exists(), "the ring of a program that has ended well"


@pytest.mark.slow(
    "one more fault of a program in C; that its rows outlive a death, a kill and lost files is quick"
)
def test_the_sidecar_has_the_fields_of_every_other_writers(jobs: Jobs) -> None:
    """Also those of a call that is open for long, which the program is killed in."""
    jobs.environment["TIMING_LOGGER_HANG_AFTER"] = "0.2"
    jobs.timed("is_killed_in_a_call", "--quiet")
    sidecar = jobs.sidecar()
    assert list(sidecar) == ["schema_version", *(field.name for field in fields(RunInfo))]
    assert UNUSABLE not in (usable_sidecar(sidecar) or {UNUSABLE: ""})
    assert sidecar["options"] == {"hang_after": 0.2}
    assert sidecar["open_calls"][0]["operation"] == "RECV"
    assert sidecar["logger_cpu_ns"] > 0
    for name, kind in (("open_calls", OpenCallInfo), ("parts", FilePart), ("groups", GroupProgress)):
        assert list(sidecar[name][0]) == list(kind._fields)


@pytest.mark.slow("a rarer fault; that rows outlive a death, a bad disk and lost files is quick")
def test_the_sidecar_says_for_how_long_rows_have_waited(jobs: Jobs) -> None:
    jobs.environment["TIMING_LOGGER_HANG_AFTER"] = "0.6"
    jobs.timed("is_killed_while_nothing_can_be_written", "--quiet")
    assert jobs.sidecar()["counters"]["pending"] > 0
    assert 0.5 < jobs.sidecar()["behind_s"] < 60


def test_what_a_killed_rank_had_called_is_in_its_file_afterwards_with_the_call_it_was_in(
    jobs: Jobs,
) -> None:
    assert jobs.timed("is_killed_in_a_call", "--quiet").returncode != 0
    recover(jobs.folder)
    rows = jobs.rows()
    assert [(row[0], row[-1]) for row in rows] == [("BARRIER", "ok")] * 1000 + [("RECV", "inflight")]
    assert [int(row[4]) for row in rows[:-1]] == list(range(1000))
    assert jobs.sidecar()["killed"] is True
    assert recover(jobs.folder) == []


@pytest.mark.slow("a rarer fault; that rows outlive a death, a bad disk and lost files is quick")
def test_more_communicators_than_the_ring_has_names_have_all_their_rows(jobs: Jobs) -> None:
    assert jobs.timed("makes_20000_communicators", "--quiet").returncode == 0
    groups = [row[2] for row in jobs.rows() if row[0] == "BARRIER"]
    assert len(groups) == len(set(groups)) == 20_000
    assert sum(counters(jobs)[1:]) == counters(jobs)[0]
    assert counters(jobs)[2] == 0
    assert "no room for another name" in jobs.sidecar()["crash_protection"]["reason"]


@pytest.mark.slow("a rarer fault; that rows outlive a death, a bad disk and lost files is quick")
def test_a_burst_of_rows_with_a_name_too_many_is_written_as_any_other(jobs: Jobs) -> None:
    assert jobs.timed("has_rows_with_a_name_too_many", "--quiet").returncode == 0
    assert counters(jobs) == (100_001, 100_001, 0)
    burst = jobs.rows()[40_001:]
    assert [int(row[4]) for row in burst] == list(range(60_000))
    assert len({row[:4] + row[5:] for row in burst}) == 1

"""Jobs that run at the same time in one folder, and worlds of one run: none is taken for another."""

from __future__ import annotations

import json
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import warm
from mpi_runner import environment_of_a_job
from slow import slow
from timed_jobs import PROGRAMS, RUN, run, said_by_the_command, timed_warm
from timing_files import record, write_sidecar, write_timing_file

from timing_logger import read_timings
from timing_logger.analysis import match_collectives
from timing_logger.cli import main
from timing_logger.cli.end_of_run import files_of_run
from timing_logger.errors import ConfigurationError
from timing_logger.live.watcher import Watcher
from timing_logger.reading.runs_of_job import number_of_run, numbers_of_runs
from timing_logger.reading.timings import find_sources

MPIEXEC = Path(sys.executable).parent / "mpiexec"
A, B = "20261125T031500-aaaaaa", "20261125T031501-bbbbbb"


def write(
    folder: Path,
    incarnations: dict[int, int],
    start_s: float,
    run_id: str,
    *,
    bytes: int = 4,
    world: str = "",
) -> None:
    """The files of one run: which number was free for which rank."""
    for rank, number in incarnations.items():
        rows = [record(start_s=start_s + i, message_size_bytes=bytes, group_size=2, seq=i) for i in range(9)]
        path = write_timing_file(folder, rank, rows, incarnation=number)
        write_sidecar(path, start_s=start_s, end_s=start_s + 10, run_id=run_id, world=world)


@pytest.fixture
def at_once(tmp_path: Path) -> Path:
    """B began a second after A, and each was the first to take a number of one of the two ranks."""
    write(tmp_path, {0: 1, 1: 2}, 0, A, bytes=4)
    write(tmp_path, {0: 2, 1: 1}, 1, B, bytes=8)
    return tmp_path


def read(folder: Path, **choice: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_timings(folder, **choice)


@pytest.mark.parametrize(("run", "size"), [(1, 4), (2, 8), ("latest", 8)])
def test_each_of_two_jobs_at_once_is_read_alone(at_once: Path, run: Any, size: int) -> None:
    rows = read(at_once, incarnations=run)
    assert set(rows["message_size_bytes"]) == {size}
    assert set(rows["rank"]) == {0, 1}
    assert {Path(left["path"]).name: left["reason"] for left in rows.attrs["left_out"]} == (
        {"timing-rank0.csv": f"of run 1 ({A})", "timing-rank1.run2.csv": f"of run 1 ({A})"}
        if size == 8
        else {"timing-rank0.run2.csv": f"of run 2 ({B})", "timing-rank1.csv": f"of run 2 ({B})"}
    )


def test_all_runs_together_are_numbered_by_run_and_collectives_are_matched_within_each(at_once: Path) -> None:
    rows = read(at_once, incarnations="all")
    assert set(zip(rows["message_size_bytes"], rows["incarnation"], strict=True)) == {(4, 1), (8, 2)}
    assert set(match_collectives(rows)["state"]) == {"complete"}


def test_the_answer_says_of_which_run_it_is_and_names_the_others(at_once: Path) -> None:
    with pytest.warns(UserWarning, match="left out") as said:
        read_timings(at_once)
    first = str(said[0].message).splitlines()[0]
    assert first == f"This is about run 2 ({B}), which began last. Left out: run 1 ({A})."


def test_each_run_is_known_by_its_number_and_the_latest_needs_none(at_once: Path) -> None:
    files = find_sources([at_once])
    assert numbers_of_runs(files) == [1, 2]
    names = ("timing-rank0.csv", "timing-rank1.run2.csv", "timing-rank0.run2.csv", "timing-rank7.csv")
    assert [number_of_run(files, at_once / name) for name in names] == [1, 1, None, None]


def test_where_there_is_one_run_its_number_is_the_highest_in_the_names(tmp_path: Path) -> None:
    write(tmp_path, {0: 3, 1: 1}, 0, A)
    files = find_sources([tmp_path])
    assert numbers_of_runs(files) == [3]
    assert number_of_run(files, tmp_path / "timing-rank1.csv") is None
    write(tmp_path, {0: 4, 1: 4}, 30, A)
    assert numbers_of_runs(find_sources([tmp_path])) == [3, 4]


AS_OF_HANG = pytest.mark.slow("the sentence comes with the rows, and hang says it")


@pytest.mark.parametrize(
    "command",
    [
        ["hang"],
        pytest.param(["stragglers"], marks=AS_OF_HANG),
        pytest.param(["waits"], marks=AS_OF_HANG),
        pytest.param(["summary", "--by", "rank"], marks=AS_OF_HANG),
    ],
)
def test_each_command_says_it(command: list[str], at_once: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, str(at_once), "--run", "1"]) == 0
    said = f"timing-logger: This is about run 1 ({A}). Left out: run 2 ({B}).\n"
    assert capsys.readouterr().err == said


def test_a_run_that_was_started_again_beside_another_is_of_two_incarnations(tmp_path: Path) -> None:
    write(tmp_path, {0: 1, 1: 1}, 0, A, bytes=4)
    write(tmp_path, {0: 2, 1: 2}, 5, B, bytes=8)
    write(tmp_path, {0: 3, 1: 3}, 20, A, bytes=12)
    sizes = [set(read(tmp_path, incarnations=run)["message_size_bytes"]) for run in (1, 2, 3)]
    assert sizes == [{4}, {8}, {12}]


def test_a_rank_whose_sidecar_is_lost_is_still_of_the_only_run(tmp_path: Path) -> None:
    write(tmp_path, {0: 1, 1: 1}, 0, A)
    (tmp_path / "timing-rank1.meta.json").unlink()
    assert set(read(tmp_path)["rank"]) == {0, 1}


@pytest.mark.slow("which files are of a run is quick, also for whoever watches, in test_newest_files.py")
def test_a_run_is_watched_alone(at_once: Path) -> None:
    now = Watcher(at_once).snapshot()
    assert [(rank.rank, rank.incarnation) for rank in now.ranks] == [(0, 2), (1, 1)]


def test_the_command_finds_the_files_of_its_run_on_all_hosts_and_no_others(tmp_path: Path) -> None:
    write(tmp_path, {0: 1, 1: 2}, 0, "node-a:29500")
    write(tmp_path, {0: 2, 1: 1}, 1, B)
    path = tmp_path / "timing-rank1.run2.meta.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "launch_id": "of-this-host"}))
    peer = {tmp_path / "timing-rank0.csv"}  # was there before the command of this host looked
    assert [file.name for file in files_of_run(tmp_path, "of-this-host", peer)] == [
        "timing-rank0.csv", "timing-rank1.run2.csv",
    ]  # fmt: skip
    assert files_of_run(tmp_path, "another", set(tmp_path.glob("*.csv"))) == []


@pytest.mark.slow("two jobs of mpiexec; the files of such jobs, and who finds them, are told apart above")
@pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec")
def test_two_jobs_at_once_in_one_folder_get_each_its_own_verdict(tmp_path: Path) -> None:
    """In each another rank is slow, by times that the program states: a busy machine does not change them."""
    program = """if True:
        import sys, time, timing_logger
        from mpi4py import MPI
        rank, ms = MPI.COMM_WORLD.rank, 1_000_000
        began_ns = MPI.COMM_WORLD.bcast(time.perf_counter_ns()) - 2000 * ms
        for step in range(25):
            own_ns = (51 if rank == int(sys.argv[1]) else 1) * ms
            timing_logger.get_timing_logger().record_interval(
                "Allreduce", began_ns + own_ns, began_ns + 52 * ms, 8, group="stated", group_size=2, seq=step
            )
            began_ns += 52 * ms
    """
    with environment_of_a_job() as environment, ThreadPoolExecutor(2) as both:
        ranks = [MPIEXEC, "-n", 2, warm.python(), "-c", program]
        jobs = list(both.map(lambda rank: timed_warm(tmp_path, [*ranks, rank], **environment), "01"))
    for rank, job in zip("01", jobs, strict=True):
        assert f"Verdict: rank {rank} " in job.stderr, job.stderr
        assert "The timings of 2 ranks are in" in job.stderr


# -- worlds of a run -------------------------------------------------------------------------------------


@pytest.fixture
def spawned(tmp_path: Path) -> Path:
    write(tmp_path, {0: 1, 1: 1}, 0, A, bytes=4)
    write(tmp_path, {0: 2, 1: 2, 2: 1}, 2, A, bytes=8, world="2")
    return tmp_path


@pytest.mark.parametrize(("world", "size", "ranks"), [("", 4, {0, 1}), ("2", 8, {0, 1, 2})])
@pytest.mark.parametrize("incarnations", ["latest", "all", slow(1, "as of latest")])
def test_each_world_is_read_alone(
    spawned: Path, world: str, size: int, ranks: set[int], incarnations: Any
) -> None:
    rows = read(spawned, world=world, incarnations=incarnations)
    assert set(rows["message_size_bytes"]) == {size}
    assert set(rows["rank"]) == ranks


def test_the_answer_says_that_there_is_another_world_and_how_to_ask_for_it(spawned: Path) -> None:
    assert read(spawned).attrs["about"] == (
        "This is about the world that was started first. The run also has the spawned world 2 (--world 2), "
        "3 ranks."
    )
    assert {left["reason"] for left in read(spawned).attrs["left_out"]} == {"of the spawned world 2"}


def test_a_world_that_is_not_there_is_an_error_that_names_those_that_are(spawned: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no world '3' in these files. The spawned worlds .*: 2"):
        read_timings(spawned, world="3")


@pytest.mark.slow(
    "test_this_process_run_identity.py spawns ranks, which state another world; such files are read above"
)
@pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec")
def test_ranks_that_were_spawned_are_another_world_of_the_run(tmp_path: Path) -> None:
    with environment_of_a_job() as environment:
        command = [MPIEXEC, "-n", 2, warm.python(), "-m", "mpi4py", PROGRAMS / "spawning.py"]
        job = timed_warm(tmp_path, command, **environment)
    assert job.returncode == 0, job.stderr
    assert "The timings of 2 ranks are in" in said_by_the_command(job)
    assert "also has the spawned world 2 (--world 2), 3 ranks" in said_by_the_command(job)
    counts = [read(tmp_path, world=world).groupby(["rank", "operation"]).size() for world in ("", "2")]
    assert counts[0][:, "ALLREDUCE"].to_dict() == {0: 40, 1: 40}
    assert counts[1][:, "ALLREDUCE"].to_dict() == {0: 2, 1: 2, 2: 2}


@pytest.mark.slow("two commands, one in the other; which files are of a run is tested on files")
def test_a_command_within_a_job_reports_on_its_own_run(tmp_path: Path) -> None:
    inner = [*map(str, RUN), "--log-dir", str(tmp_path), "--", sys.executable, str(PROGRAMS / "alone.py")]
    program = f"import subprocess; subprocess.run({inner!r}, check=True)"
    job = run([*RUN, "--log-dir", tmp_path, "--", sys.executable, "-c", program])
    assert job.stderr.count("The timings of 1 rank are in") == 1
    assert job.stderr.count("nothing was recorded in") == 1


def test_a_file_that_another_job_is_just_making_is_not_of_this_run(tmp_path: Path) -> None:
    """Its sidecar, which says of which run it is, is made a moment later."""
    write(tmp_path, {0: 1}, 0, A)
    write_timing_file(tmp_path, 1, [])
    assert [file.name for file in files_of_run(tmp_path, A, set())] == ["timing-rank0.csv"]

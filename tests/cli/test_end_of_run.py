"""What is said of a run that has ended: which files are its own, what recorded, and what went wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest
from sidecars import states

from timing_logger.analysis.rows.files import File
from timing_logger.autologging.settings import problem_file
from timing_logger.cli.end_of_run import (
    _as_typed,
    _recorded_by,
    _slow_core,
    about,
    files_of_run,
    said_of_run,
    timing_files,
)


def written(folder: Path, rank: int, **sidecar: Any) -> Path:
    path = folder / f"timing-rank{rank}.csv"
    path.write_text("")
    return states(path, **sidecar) if sidecar else path


def test_the_ranks_that_this_command_started_tell_which_run_the_others_are_of(tmp_path: Path) -> None:
    here = written(tmp_path, 0, launch_id="mine", run_id="job")
    elsewhere = written(tmp_path, 1, launch_id="other", run_id="job")
    written(tmp_path, 2, launch_id="other", run_id="another")
    assert files_of_run(tmp_path, "mine", set()) == [here, elsewhere]


def test_what_was_there_before_does_not_tell_which_run_it_is(tmp_path: Path) -> None:
    before = written(tmp_path, 0, launch_id="mine", run_id="old")
    now = written(tmp_path, 1, run_id="mine")
    assert files_of_run(tmp_path, "mine", {before}) == [now]


def test_a_file_that_states_no_run_is_of_this_one_unless_it_was_there_before(tmp_path: Path) -> None:
    before, now = (written(tmp_path, rank, run_id="") for rank in range(2))
    assert files_of_run(tmp_path, "mine", {before}) == [now]


def test_a_file_without_a_sidecar_is_of_another_job(tmp_path: Path) -> None:
    path = written(tmp_path, 0)
    assert timing_files(tmp_path) == {path}
    assert files_of_run(tmp_path, "mine", set()) == []


@pytest.mark.parametrize(
    ("in_python", "said"), [(True, "made a torch process group"), (False, "initialised MPI with MPI_Init")]
)
def test_where_nothing_was_recorded_the_reasons_are_those_of_what_was_timed(
    tmp_path: Path, in_python: bool, said: str
) -> None:
    (line,) = said_of_run(tmp_path, [], "mine", in_python=in_python)
    assert line.startswith(f"nothing was recorded in {tmp_path}: ")
    assert said in line


def test_the_first_process_that_was_not_timed_in_full_is_told_and_those_of_other_jobs_are_not(
    tmp_path: Path,
) -> None:
    for run_id, process in (("mine", "9"), ("mine", "7"), ("other", "1")):
        (tmp_path / problem_file(run_id, process)).write_text("")
    _, line = said_of_run(tmp_path, [], "mine", in_python=True)
    assert line == (
        f"not timed in full, as {tmp_path / problem_file('mine', '7')} says; the job was not touched by it"
    )


def file_of(rank: int, **sidecar: object) -> File:
    return cast("File", {"rank": rank, "sidecar": sidecar})


@pytest.mark.parametrize(
    ("cores", "said"),
    [
        ([None, ""], ""), (["native", None], " (recorded by the native core)"),
        (["python", "native", "python"], " (recorded by the native and the python core)"),
    ],
)  # fmt: skip
def test_what_recorded_is_named_once_as_far_as_it_is_known(cores: list[str | None], said: str) -> None:
    assert _recorded_by([file_of(rank, core=core) for rank, core in enumerate(cores)]) == said


def test_why_the_slow_core_recorded_is_told_of_the_first_rank() -> None:
    files = [file_of(0, core_note=""), file_of(1, core_note="no compiler"), file_of(2, core_note="another")]
    assert _slow_core(files) == ["rank 1 recorded with the python core: no compiler."]
    assert _slow_core(files[:1]) == []


def test_a_folder_is_named_from_the_working_folder_for_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _as_typed(tmp_path / "my logs") == "'my logs'"

    def gone(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os.path, "relpath", gone)
    assert _as_typed(tmp_path / "my logs") == f"'{tmp_path}/my logs'"


def test_a_command_about_a_run_is_asked_about_all_of_its_rows(tmp_path: Path) -> None:
    asked = about([tmp_path / "a.csv", tmp_path / "b.csv"], output="page.html")
    assert asked.logdir == [f"{tmp_path}/a.csv", f"{tmp_path}/b.csv"]
    assert (asked.run, asked.world, asked.ranks, asked.iterations) == ("latest", "", None, None)
    assert (asked.engine, asked.scheduler, asked.expected, asked.open) == ("auto", None, None, False)
    assert asked.output == "page.html"

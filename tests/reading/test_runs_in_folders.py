"""Which runs are in a folder: one, several one after the other, or those of the folders in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from slow import slow
from timing_files import record, write_sidecar, write_timing_file

from timing_logger.errors import NoTimingFilesError
from timing_logger.reading.runs_in_folders import runs_in


def write_run(folder: Path, incarnation: int = 1, run_id: str = "", at_s: float = 1.0) -> None:
    for rank in (0, 1):
        file = write_timing_file(folder, rank, [record(start_s=at_s)], incarnation=incarnation)
        write_sidecar(file, run_id=run_id, world_size=2, start_s=at_s, end_s=at_s + 1)


def test_a_folder_with_one_run_is_that_run(tmp_path: Path) -> None:
    write_run(tmp_path)
    assert [(one.number, one.of, str(one)) for one in runs_in(tmp_path)] == [(1, 1, str(tmp_path))]


@pytest.mark.parametrize(
    "run_ids",
    [slow(("", "", ""), "incarnations alone tell them apart in test_runs_of_job.py"), ("a", "b", "c")],
)
def test_each_of_several_runs_in_a_folder_counts(tmp_path: Path, run_ids: tuple[str, ...]) -> None:
    for place, run_id in enumerate(run_ids):
        write_run(tmp_path, place + 1, run_id, at_s=10.0 * place + 1)
    assert [one.number for one in runs_in(tmp_path)] == [1, 2, 3]
    assert str(runs_in(tmp_path)[1]) == f"{tmp_path}, run 2"


def test_the_folders_in_a_folder_without_timing_files_count(tmp_path: Path) -> None:
    for name in ("run1", "run2"):
        write_run(tmp_path / name)
    (tmp_path / "other").mkdir()
    assert [one.folder.name for one in runs_in(tmp_path)] == ["run1", "run2"]


def test_a_folder_without_any_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoTimingFilesError, match="nor in the folders in it"):
        runs_in(tmp_path)
    with pytest.raises(NoTimingFilesError, match="does not exist"):
        runs_in(tmp_path / "nowhere")


def test_what_is_no_folder_is_passed_over(tmp_path: Path) -> None:
    write_run(tmp_path / "run1")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert [one.folder.name for one in runs_in(tmp_path)] == ["run1"]

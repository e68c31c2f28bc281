"""Whatever becomes of the files of a run is seen at the next look, also where few sidecars are looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
from sidecars import states

from timing_logger.errors import NoTimingFilesError
from timing_logger.live.newest_files import NewestFiles
from timing_logger.schema.timing_files import TimingFile

HERE, THERE = "node0", "node1"


def begin(folder: Path, rank: int, host: str, *, run: int = 1, incarnation: int = 1) -> Path:
    """Write the file of a rank of a run, and its sidecar."""
    path = folder / TimingFile(rank, incarnation).name
    path.touch()
    return states(path, host=host, run_id=f"run {run}", started_unix_ns=run)


@pytest.fixture
def files(tmp_path: Path) -> NewestFiles:
    begin(tmp_path, 0, HERE)
    begin(tmp_path, 1, THERE)
    files = NewestFiles(tmp_path, HERE)
    assert seen(files) == [(0, 1, "run 1"), (1, 1, "run 1")]
    return files


def seen(files: NewestFiles) -> list[tuple[int, int, str]]:
    return [(one.name.rank, one.name.incarnation, one.sidecar["run_id"]) for one in files.found()]


@pytest.mark.parametrize("host", [HERE, THERE])
def test_a_rank_that_begins_late_is_found(tmp_path: Path, files: NewestFiles, host: str) -> None:
    begin(tmp_path, 2, host)
    assert seen(files)[2:] == [(2, 1, "run 1")]


@pytest.mark.parametrize(("rank", "host"), [(0, HERE), (1, THERE)])
def test_a_rank_that_restarts_is_found(tmp_path: Path, files: NewestFiles, rank: int, host: str) -> None:
    begin(tmp_path, rank, host, incarnation=2)
    assert (rank, 2, "run 1") in seen(files)


def test_another_run_beside_it_is_found_with_its_files_alone(tmp_path: Path, files: NewestFiles) -> None:
    begin(tmp_path, 1, THERE, run=2, incarnation=2)
    assert seen(files) == [(1, 2, "run 2")]


def test_another_run_in_its_place_is_found_whole_though_its_files_look_the_same(
    tmp_path: Path, files: NewestFiles
) -> None:
    """The inodes are those of the run before, as they may be of files that were removed and made again."""
    begin(tmp_path, 0, HERE, run=2)
    begin(tmp_path, 1, THERE, run=2)
    assert seen(files) == [(0, 1, "run 2"), (1, 1, "run 2")]


def test_another_run_of_other_hosts_in_its_place_is_found(tmp_path: Path, files: NewestFiles) -> None:
    begin(tmp_path, 0, THERE, run=2)
    begin(tmp_path, 1, "node2", run=2)
    assert seen(files) == [(0, 1, "run 2"), (1, 1, "run 2")]
    begin(tmp_path, 0, THERE, run=3)
    begin(tmp_path, 1, "node2", run=3)
    assert seen(files) == [(0, 1, "run 3"), (1, 1, "run 3")]


def test_what_is_gone_is_no_longer_found(tmp_path: Path, files: NewestFiles) -> None:
    (tmp_path / "timing-rank1.csv").unlink()
    assert seen(files) == [(0, 1, "run 1")]
    (tmp_path / "timing-rank0.csv").unlink()
    with pytest.raises(NoTimingFilesError, match="no timing file"):
        files.found()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoTimingFilesError, match="is not a folder"):
        NewestFiles(tmp_path / "logs").found()

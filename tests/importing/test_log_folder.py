"""The sidecar of an imported file says from when to when its rows are."""

from __future__ import annotations

import csv
import errno
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from open_files import is_open
from timing_files import record

from timing_logger.errors import LogPathError
from timing_logger.importing import log_folder
from timing_logger.importing.log_folder import (
    LogFolder,
    Process,
    TimingFileOfRank,
    new_log_folder,
    refuse,
)
from timing_logger.process.sidecar_files import read_sidecar
from timing_logger.schema.sidecar import ImportedFrom

OFFSET_NS = 10**18
IMPORTED = ImportedFrom("steps", ["log"], {}, [])


def said_of(folder: Path, *appended: list[Any], seen_unix_ns: int | None = None) -> dict[str, Any]:
    """Return the sidecar after rows were appended, some at a time."""
    file = TimingFileOfRank(folder, Process(0, wall_offset_ns=OFFSET_NS))
    for rows in appended:
        file.append(rows)
    file.close()
    file.describe(IMPORTED, "run", seen_unix_ns)
    said = read_sidecar(folder / "timing-rank0.csv")
    assert said is not None
    return dict(said)


def test_a_file_ends_with_the_row_that_ends_last(tmp_path: Path) -> None:
    said = said_of(tmp_path, [record(start_s=1.0, elapsed_ms=900.0), record(start_s=1.5, elapsed_ms=1.0)])
    assert said["last_progress_counter_ns"] == 1_900_000_000
    assert said["updated_unix_ns"] == OFFSET_NS + 1_900_000_000


def test_a_row_without_an_end_counts_with_its_start(tmp_path: Path) -> None:
    said = said_of(tmp_path, [record(start_s=1.0), record(start_s=2.0, elapsed_ms=None)])
    assert said["last_progress_counter_ns"] == 2_000_000_000


def test_a_file_begins_with_the_earliest_of_its_first_rows_and_ends_with_the_last_of_all(
    tmp_path: Path,
) -> None:
    said = said_of(tmp_path, [record(start_s=3.0), record(start_s=2.0)], [record(start_s=1.0)], [])
    assert said["started_unix_ns"] == OFFSET_NS + 2_000_000_000
    assert said["last_progress_counter_ns"] == 3_001_000_000


def test_a_file_to_which_rows_may_come_was_updated_when_it_was_last_looked_for_them(tmp_path: Path) -> None:
    said = said_of(tmp_path, [record()], seen_unix_ns=OFFSET_NS + 5)
    assert (said["updated_unix_ns"], said["closed"]) == (OFFSET_NS + 5, False)


def test_a_closed_file_is_not_open_and_one_that_is_removed_leaves_nothing(tmp_path: Path) -> None:
    file = TimingFileOfRank(tmp_path, Process(0, wall_offset_ns=OFFSET_NS))
    file.append([record()])
    file.describe(IMPORTED, "run")
    assert is_open(tmp_path / "timing-rank0.csv")
    file.close()
    assert not is_open(tmp_path / "timing-rank0.csv")
    file.remove()
    assert list(tmp_path.iterdir()) == []


def test_rows_are_counted_and_what_they_were_made_from_is_known(tmp_path: Path) -> None:
    said = said_of(tmp_path, [record(), record()], [record()])
    assert said["counters"] == {"accepted": 3, "written": 3, "dropped": 0, "pending": 0}
    file = TimingFileOfRank(tmp_path, Process(1))
    for source in ("b", "a", "b"):
        file.append([record()], Path(source))
    file.close()
    assert (list(file.sources), file.n_rows, file.n_lost) == ([Path("b"), Path("a")], 3, 0)


# -- a new folder ----------------------------------------------------------------------------------------


def named(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def add_row(folder: LogFolder) -> None:
    folder.add(Process(0, wall_offset_ns=OFFSET_NS), [record()], [Path("log")], {}, {"end"})


def test_a_folder_is_there_when_it_is_complete(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with new_log_folder(tmp_path / "out", "steps") as folder:
        add_row(folder)
        assert named(tmp_path / "out") == []
    assert named(tmp_path) == ["out"]
    assert named(tmp_path / "out") == ["timing-rank0.csv", "timing-rank0.meta.json"]
    assert (folder.ranks, folder.n_rows, folder.not_told) == ([0], 1, ["end"])


def rows_in(path: Path) -> list[str]:
    """Return the operations of a timing file, in the order of its rows."""
    return [row["operation"] for row in csv.DictReader(path.read_text().splitlines())]


def test_rows_are_written_by_their_starts_whatever_order_they_come_in(tmp_path: Path) -> None:
    rows = [record(name, start_s=at_s) for name, at_s in (("C", 3.0), ("A", 1.0), ("B", 2.0))]
    with new_log_folder(tmp_path / "out", "steps") as folder:
        folder.add(Process(0), rows, [Path("log")], {}, {"end"})
    assert rows_in(tmp_path / "out" / "timing-rank0.csv") == ["A", "B", "C"]


@pytest.mark.parametrize("fails", [False, True])
def test_the_file_of_a_rank_is_closed_once_it_is_written_or_could_not_be(
    tmp_path: Path, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    folder = LogFolder(tmp_path, "steps", "run")
    if fails:
        monkeypatch.setattr(TimingFileOfRank, "append", fail)
    with pytest.raises(OSError, match="full") if fails else nullcontext():
        add_row(folder)
    assert not is_open(tmp_path / "timing-rank0.csv")


def test_more_rows_than_are_written_at_a_time_are_all_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_folder, "_ROWS_AT_A_TIME", 2)
    said = said_of(tmp_path, [record(name, start_s=1.0) for name in "ABCDE"])
    assert rows_in(tmp_path / "timing-rank0.csv") == list("ABCDE")
    assert said["counters"]["written"] == 5


def test_the_sidecar_of_a_rank_says_what_was_imported_from_where(tmp_path: Path) -> None:
    process = Process(3, 8, "node1", "clock of node1", OFFSET_NS, 77)
    with new_log_folder(tmp_path / "out", "steps") as folder:
        folder.add(process, [record()], [Path("logs/b"), Path("logs/a")], {"a line": 2}, {"end", "waits"})
    said = read_sidecar(tmp_path / "out" / "timing-rank3.csv")
    assert said is not None
    assert (said["run_id"], said["core"], said["closed"]) == ("import steps out", "import steps", True)
    assert [said[name] for name in ("rank", "world_size", "host", "boot_id", "pid")] == [
        3, 8, "node1", "clock of node1", 77,
    ]  # fmt: skip
    assert (said["imported"]["files"], said["imported"]["left_out"]) == (["b", "a"], {"a line": 2})
    assert (said["imported"]["not_told"], folder.not_told) == (["waits", "end"], ["waits", "end"])


def test_a_folder_that_is_cleared_has_nothing_in_it_and_is_written_anew(tmp_path: Path) -> None:
    with new_log_folder(tmp_path / "out", "steps") as folder:
        folder.add(Process(5), [record(), record()], [Path("log")], {}, {"waits"})
        folder.clear()
        assert (folder.ranks, folder.n_rows, folder.not_told) == ([], 0, [])
        add_row(folder)
    assert named(tmp_path / "out") == ["timing-rank0.csv", "timing-rank0.meta.json"]
    assert (folder.ranks, folder.n_rows, folder.not_told) == ([0], 1, ["end"])


def test_a_link_to_an_empty_folder_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "empty")
    with pytest.raises(LogPathError, match="exists and is no folder"):
        refuse(tmp_path / "out")
    refuse(tmp_path / "empty")
    refuse(tmp_path / "nothing")


def fail_in(folder: LogFolder, error: Exception) -> None:
    add_row(folder)
    raise error


@pytest.mark.parametrize("error", [KeyError("log"), FileNotFoundError(errno.ENOENT, "not there", "log")])
def test_of_a_folder_that_fails_nothing_is_left_and_the_error_stays_what_it_is(
    tmp_path: Path, error: Exception
) -> None:
    with pytest.raises(type(error), match="log"), new_log_folder(tmp_path / "new" / "out", "steps") as folder:
        fail_in(folder, error)
    assert named(tmp_path) == []


def test_what_somebody_else_puts_there_meanwhile_stays(tmp_path: Path) -> None:
    wanted = rf"^output: '{tmp_path}/out' cannot be written: Directory not empty\. Name another folder\.$"
    with pytest.raises(LogPathError, match=wanted), new_log_folder(tmp_path / "out", "steps"):
        (tmp_path / "out" / "theirs").mkdir(parents=True)
    assert (named(tmp_path), named(tmp_path / "out")) == (["out"], ["theirs"])


def test_what_a_killed_process_of_the_same_number_left_is_no_obstacle(tmp_path: Path) -> None:
    left = tmp_path / f".{os.getpid()}.out"
    left.mkdir()
    (left / "timing-rank7.csv").touch()
    with new_log_folder(tmp_path / "out", "steps") as folder:
        add_row(folder)
    assert named(tmp_path) == ["out"]
    assert named(tmp_path / "out") == ["timing-rank0.csv", "timing-rank0.meta.json"]

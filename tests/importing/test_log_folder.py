"""The sidecar of an imported file says from when to when its rows are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from timing_files import record

from timing_logger.importing.log_folder import Process, TimingFileOfRank
from timing_logger.run_info import ImportedFrom, read_sidecar

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

"""Which rows a command is asked for: what no file has is refused, with what there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from timing_files import record, write_sidecar, write_timing_file

from timing_logger.engine import rows
from timing_logger.engine.rows import Query, require_room
from timing_logger.errors import ConfigurationError, TooLargeError
from timing_logger.reading.timings import TimingFiles, timing_files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TimingFiles:
    """The files of ranks 0 to 2, each with a row of iterations 4 and 5."""
    folder: Path = tmp_path_factory.mktemp("rows")
    for rank in range(3):
        its = [record("FORWARD", start_s=float(i), iteration=i) for i in (4, 5)]
        write_sidecar(write_timing_file(folder, rank, its))
    return timing_files(folder)


def test_a_chosen_rank_without_a_file_is_refused_with_those_that_have_one(files: TimingFiles) -> None:
    with pytest.raises(ConfigurationError, match="no timing file is of 3,7; there are 0-2"):
        _ = Query(files, ranks=[1, 3, 7]).files


def test_only_files_of_the_chosen_ranks_are_read(files: TimingFiles) -> None:
    assert [source.name.rank for source, _ in Query(files, ranks=[2, 0]).files] == [0, 2]


@pytest.mark.parametrize("chosen", [slice(None, 5), slice(5, None), slice(4, 5), slice(5, 6), None])
def test_iterations_that_some_row_has_are_accepted(files: TimingFiles, chosen: slice | None) -> None:
    Query(files, iterations=chosen).require_iterations()


@pytest.mark.parametrize("chosen", [slice(None, 4), slice(6, None), slice(1, 3)])
def test_iterations_that_no_row_has_are_refused_with_those_that_there_are(
    files: TimingFiles, chosen: slice
) -> None:
    with pytest.raises(ConfigurationError, match="there are 4 to 5"):
        Query(files, iterations=chosen).require_iterations()


def test_rows_that_need_just_what_is_free_are_analysed() -> None:
    require_room(1000, 1000)
    with pytest.raises(TooLargeError, match=r"0\.0 GB are free"):
        require_room(1001, 1000)


def test_rows_that_would_not_fit_into_one_table_are_refused_after_the_first_batch(
    files: TimingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "free_memory_bytes", lambda: 0)
    with pytest.raises(TooLargeError):
        Query(files).in_one_table()

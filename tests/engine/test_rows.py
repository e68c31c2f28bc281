"""Which rows a command is asked for: what no file has is refused, with what there is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
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


def test_the_first_files_tell_how_much_all_of_them_need(
    files: TimingFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    required: list[int] = []
    monkeypatch.setattr(rows, "batches_of", lambda files: [[file] for file in files])
    monkeypatch.setattr(rows, "require_room", lambda needed_bytes, room_bytes: required.append(needed_bytes))
    table = Query(files).in_one_table()
    assert len(table) == 6
    assert len(required) == 3
    assert min(required) == max(required) > 0


def query_of(*iterations: Sequence[int | None], chosen: slice, engine: str = "pandas") -> Any:
    """Return a query of files that were read, each with rows of these iterations."""
    tables = [pd.DataFrame({"iteration": pd.array(list(each), "Int64")}) for each in iterations]
    sources = [SimpleNamespace(parsed=SimpleNamespace(frame=table), engine=engine) for table in tables]
    aligned: Any = SimpleNamespace(aligned=[(source, None) for source in sources])
    return Query(aligned, iterations=chosen)


@pytest.mark.parametrize(
    ("iterations", "there_are"),
    [
        ([[4, 5], [7]], "there are 4 to 7"), ([[None], [], [6]], "there are 6 to 6"),
        ([[None], []], "none states an iteration"),
    ],
)  # fmt: skip
def test_the_iterations_that_there_are_are_those_of_all_files_that_state_any(
    iterations: list[list[int | None]], there_are: str
) -> None:
    with pytest.raises(ConfigurationError, match=rf"no row is of 1:2; {there_are}\.$"):
        query_of(*iterations, chosen=slice(1, 2)).require_iterations()


@pytest.mark.parametrize(("engine", "is_kept"), [("pandas", True), ("pyarrow", False)])
def test_rows_that_were_read_to_look_for_iterations_are_kept_where_this_process_needs_them(
    engine: str, is_kept: bool
) -> None:
    query = query_of([4], [5], [6], chosen=slice(5, None), engine=engine)
    query.require_iterations()
    kept = [hasattr(source, "parsed") for source, _ in query.files]
    assert kept == [is_kept, is_kept, True]  # the last was not looked at

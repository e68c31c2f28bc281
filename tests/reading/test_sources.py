"""A file that is read by itself: the columns that were asked for, and no row that a later one replaces."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from timing_files import content, record

from timing_logger.errors import NotATimingFileError
from timing_logger.reading import sources
from timing_logger.reading.csv_lines import Parsed
from timing_logger.reading.sources import Engine, Source
from timing_logger.run_info import TimingFile

OPEN = record("ALLREDUCE", 5.0, None, seq=7, status="inflight")
ENDED = record("ALLREDUCE", 5.0, 2.0, seq=7)


def source_of(path: Path, *rows: Any, engine: Engine = "pandas") -> Source:
    """Return a file with these rows, of which only the operation is asked for."""
    path.write_bytes(content(rows))
    return Source([path], TimingFile(0), engine, ["operation"])


@pytest.mark.parametrize("engine", get_args(Engine))
def test_an_open_call_that_ended_is_dropped_where_few_columns_are_asked_for(
    tmp_path: Path, engine: Engine
) -> None:
    parsed = source_of(tmp_path / "timing-rank0.csv", record(), OPEN, ENDED, engine=engine).parsed
    assert (len(parsed.frame), parsed.content.n_rows, parsed.content.replaced) == (2, 2, 1)
    assert list(parsed.frame) == ["timestamp", "operation", "start_counter", "end_counter"]


def test_a_file_without_open_calls_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    by_lines = sources._parsed_by_lines

    def noted(path: Path) -> Parsed:
        read.append(path)
        return by_lines(path)

    monkeypatch.setattr(sources, "_parsed_by_lines", noted)
    source = source_of(tmp_path / "timing-rank0.csv", record(), ENDED)
    assert (len(source.parsed.frame), len(read)) == (2, 1)


@pytest.mark.parametrize("engine", get_args(Engine))
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(
    tmp_path: Path, engine: Engine, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "timing-rank0.csv"
    make(path)
    with pytest.raises(NotATimingFileError, match=r"^paths: .*rank0\.csv' is not a regular file"):
        _ = Source([path], TimingFile(0), engine).parsed

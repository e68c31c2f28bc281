"""The runs in folders are summarized one after the other; files of summaries are read, and distrusted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from compared_runs import summary, write_runs

from timing_logger import read_timings
from timing_logger.analysis.comparison.summarize_run import summarize_run
from timing_logger.engine.run_summaries import read_summary, summaries_of, summary_text
from timing_logger.errors import RunSummaryError


def test_each_run_in_folders_is_summarized_as_its_rows_are(tmp_path: Path) -> None:
    folders = write_runs(tmp_path, 2, n_steps=4)
    found = summaries_of([tmp_path])
    assert [one.place for one in found] == [str(folder) for folder in folders]
    assert [one.summary for one in found] == [summarize_run(read_timings(folder)) for folder in folders]


@pytest.mark.slow("what the engines read is compared in tests/reading")
def test_pyarrow_gives_the_same(tmp_path: Path) -> None:
    (folder,) = write_runs(tmp_path, 1, n_steps=15)
    by_each = [summaries_of([folder], engine=engine)[0].summary for engine in ("pandas", "pyarrow")]
    assert by_each[0] == by_each[1]


def test_a_summary_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "one.run.json"
    path.write_text(summary_text(summary()))
    assert [one.summary for one in summaries_of([path])] == [summary()]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"null", b'{"schema_version": 1}']
)
def test_a_damaged_summary_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.run.json"
    path.write_bytes(content)
    with pytest.raises(RunSummaryError, match=r"bad\.run\.json.*Remove it"):
        read_summary(path)


def test_a_cut_summary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut.run.json"
    path.write_text(summary_text(summary())[:-20])
    with pytest.raises(RunSummaryError):
        read_summary(path)


def test_a_summary_that_is_too_large_or_no_file_is_not_read(tmp_path: Path) -> None:
    large, fifo = tmp_path / "large.run.json", tmp_path / "fifo.run.json"
    large.write_text(json.dumps("x" * 2**21))
    os.mkfifo(fifo)
    for path in (large, fifo):
        with pytest.raises(RunSummaryError, match="no regular file of at most 1 MiB"):
            read_summary(path)

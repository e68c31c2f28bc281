"""The runs in folders are summarized one after the other; files of summaries are read, and distrusted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from compared_runs import summary, write_runs

from timing_logger import read_timings
from timing_logger.analysis.comparison.summarize_run import summarize_run
from timing_logger.engine import run_summaries
from timing_logger.engine.run_summaries import read_summary, summaries_of, summary_text
from timing_logger.errors import RunSummaryError
from timing_logger.reading.runs_in_folders import FoundRun


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


@pytest.mark.parametrize(("room", "is_read"), [(1, True), (0, True), (-1, False)])
def test_a_summary_may_be_as_large_as_the_largest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, is_read: bool
) -> None:
    path = tmp_path / "one.run.json"
    path.write_text(summary_text(summary()))
    monkeypatch.setattr(run_summaries, "_MOST_BYTES", path.stat().st_size + room)
    if is_read:
        assert read_summary(path) == summary()
    else:
        with pytest.raises(RunSummaryError, match="at most 1 MiB"):
            read_summary(path)


@pytest.mark.parametrize(
    ("about", "n_runs", "said"),
    [("of two worlds", 1, ["of two worlds"]), ("of two worlds", 2, []), ("", 1, [])],
)
def test_which_world_a_run_is_of_is_told_where_it_is_the_only_run(
    monkeypatch: pytest.MonkeyPatch, about: str, n_runs: int, said: list[str]
) -> None:
    answer = SimpleNamespace(answer="the summary")
    monkeypatch.setattr(run_summaries, "timing_files", lambda *paths, **how: SimpleNamespace(about=about))
    monkeypatch.setattr(run_summaries, "run", lambda *asked, **how: answer)
    told: list[str] = []
    found = run_summaries._summarized(FoundRun(Path("logs"), 1, n_runs), "auto", None, told.append)
    assert found.summary == "the summary"
    assert told == said

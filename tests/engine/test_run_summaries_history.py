"""A history keeps the newest runs, each in a file that appears whole, and passes over what is damaged."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from compared_runs import summary

from timing_logger.engine.run_summaries import add_to_history, read_history
from timing_logger.errors import LogPathError


def test_what_was_added_is_read_in_its_order(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "history"
    add_to_history(folder, [summary(1.0), summary(2.0)], 20)
    add_to_history(folder, [summary(3.0)], 20)
    assert [run.step_mean_ms for run in read_history(folder).runs] == [100.0, 200.0, 300.0]


def test_runs_that_were_added_together_are_one_batch(tmp_path: Path) -> None:
    add_to_history(tmp_path, [summary(), summary()], 20)
    add_to_history(tmp_path, [summary()], 20)
    batches = [run.batch for run in read_history(tmp_path).runs]
    assert batches[0] == batches[1] != batches[2]


def test_the_newest_are_kept(tmp_path: Path) -> None:
    for factor in range(1, 6):
        n_kept = add_to_history(tmp_path, [summary(float(factor))], 3)
    assert n_kept == 3
    assert [run.step_mean_ms for run in read_history(tmp_path).runs] == [300.0, 400.0, 500.0]


@pytest.mark.parametrize("keep", [1, 0])
def test_at_least_one_is_kept(tmp_path: Path, keep: int) -> None:
    n_kept = [add_to_history(tmp_path, [summary(factor)], keep) for factor in (1.0, 2.0)]
    assert n_kept == [1, 1]
    assert [run.step_mean_ms for run in read_history(tmp_path).runs] == [200.0]


def test_a_history_begun_anew_has_only_the_new_runs(tmp_path: Path) -> None:
    add_to_history(tmp_path, [summary(), summary()], 20)
    assert add_to_history(tmp_path, [summary(2.0)], 20, anew=True) == 1
    assert [run.step_mean_ms for run in read_history(tmp_path).runs] == [200.0]


def test_a_folder_that_is_not_there_keeps_nothing(tmp_path: Path) -> None:
    assert read_history(tmp_path / "none") == ([], [])


def test_damaged_files_are_told_and_others_are_not_touched(tmp_path: Path) -> None:
    add_to_history(tmp_path, [summary()], 20)
    (tmp_path / "0.run.json").write_text("{")
    (tmp_path / "notes.txt").write_text("mine")
    history = read_history(tmp_path)
    assert len(history.runs) == len(history.unusable) == 1
    assert "0.run.json" in history.unusable[0]
    add_to_history(tmp_path, [summary()], 1)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_several_may_add_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: add_to_history(tmp_path, [summary()], 5), range(24)))
    history = read_history(tmp_path)
    assert history.unusable == []
    assert 1 <= len(history.runs) <= 5


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogPathError, match="history"):
        add_to_history(tmp_path / "file", [summary()], 5)
    with pytest.raises(LogPathError, match="history"):
        read_history(tmp_path / "file")


def test_what_a_killed_process_had_begun_to_write_is_no_run(tmp_path: Path) -> None:
    (tmp_path / ".123.00-1.run.json").write_text("{")
    assert read_history(tmp_path) == ([], [])


def test_a_file_that_cannot_be_opened_is_told_beside_those_that_can(tmp_path: Path) -> None:
    add_to_history(tmp_path, [summary()], 20)
    (tmp_path / "1.run.json").symlink_to(tmp_path / "gone")
    history = read_history(tmp_path)
    assert len(history.runs) == 1
    assert ["1.run.json" in said for said in history.unusable] == [True]

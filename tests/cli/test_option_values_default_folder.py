"""The folder of the newest run is taken where none was named."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

import pytest

from timing_logger.cli.option_values import name_folder
from timing_logger.errors import NoTimingFilesError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(path: str, at_s: int) -> None:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")
    os.utime(file, (at_s, at_s))


@pytest.mark.parametrize(("none", "found"), [(None, "logs/run"), ([], ["logs/run"])])
def test_the_folder_that_was_written_to_last_is_filled_in_and_said(
    none: object, found: object, capsys: pytest.CaptureFixture[str]
) -> None:
    written("logs/timing/timing-rank0.csv", 100)
    written("logs/run/timing-rank0.csv", 200)
    written("logs/timing/timing-rank0.txt", 300)  # of something else
    arguments = Namespace(logdir=none)
    name_folder(arguments)
    assert arguments.logdir == found
    assert "this is about logs/run, the default folder" in capsys.readouterr().err


def test_a_folder_right_below_is_found_and_none_further_down() -> None:
    written("logs/run/a/timing-rank0.csv", 100)
    written("logs/run/a/b/timing-rank0.csv", 200)
    arguments = Namespace(logdir=None)
    name_folder(arguments)
    assert arguments.logdir == "logs/run/a"


@pytest.mark.parametrize("arguments", [Namespace(logdir="x"), Namespace(logdir=["x"]), Namespace()])
def test_what_was_named_or_needs_no_folder_is_left_as_it_is(
    arguments: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    written("logs/run/timing-rank0.csv", 100)
    before = dict(vars(arguments))
    name_folder(arguments)
    assert vars(arguments) == before
    assert capsys.readouterr().err == ""


def test_where_there_is_no_run_the_folders_are_named_in_which_one_was_sought() -> None:
    Path("logs/run").mkdir(parents=True)
    with pytest.raises(NoTimingFilesError, match="no timing files in logs/timing or logs/run"):
        name_folder(Namespace(logdir=[]))

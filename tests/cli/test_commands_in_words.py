"""What commands that write files say at their end, and what ``watch`` refuses, without any program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from snapshots import snapshot_of
from timing_files import record, write_sidecar, write_timing_file

from timing_logger.cli import commands, main
from timing_logger.cli.commands import _looks, _nothing_to_recover
from timing_logger.errors import NoTimingFilesError
from timing_logger.live.watcher import Watcher
from timing_logger.reading.recovery import Recovery


def recovery(ended: bool | None) -> Recovery:
    return Recovery(Path("timing-rank0.csv"), ended=ended)


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ([True, True], "No process was killed before it had written all that it recorded.\n"),
        ([True, False, False], "Nothing was recovered. 2 of 3 files are of processes that still run.\n"),
        ([None, True], "Nothing was recovered. Nothing is known of 1, as no sidecar can be read.\n"),
        (
            [None, False],
            "Nothing was recovered. 1 of 2 files are of processes that still run. "
            "Nothing is known of 1, as no sidecar can be read.\n",
        ),
    ],
)
def test_why_nothing_was_recovered_is_said(ended: list[bool | None], said: str) -> None:
    assert _nothing_to_recover([recovery(one) for one in ended]) == said


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    write_sidecar(write_timing_file(tmp_path / "logs", 0, [record(), record()]), world_size=1)
    return tmp_path / "logs"


@pytest.mark.parametrize(("to", "name"), [("csv", "timings.csv"), ("jsonl", "timings.jsonl")])
def test_what_is_converted_is_counted_and_has_a_usual_name(
    logs: Path, to: str, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(logs.parent)
    assert main(["convert", str(logs), "--to", to]) == 0
    per_row = Path(name).stat().st_size / 2
    assert capsys.readouterr().out == f"{name}: 2 rows in 1 file, {per_row:.1f} bytes a row.\n"


def test_there_is_something_to_recover_only_where_there_are_timing_files(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["recover", str(logs)]) == 0
    assert main(["recover", str(tmp_path / "empty")]) == 2


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--verdict", "--once"], "--verdict tells changes, and draws no table"),
        (["--verdict", "--all"], "--verdict tells changes, and draws no table"),
        (["--json"], "--json is for what changes: give --verdict, too."),
    ],
)
def test_watch_refuses_what_contradicts_itself(
    logs: Path, options: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(logs), *options]) == 2
    assert why in capsys.readouterr().err


def test_watch_goes_on_until_the_run_is_over_and_pauses_between_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = snapshot_of(1)
    over = snapshot_of(1, rank0={"closed": True})
    assert (running.is_over, over.is_over) == (False, True)
    states = iter([NoTimingFilesError("none"), FileNotFoundError(), running, over, running])

    def snapshot() -> Any:
        found = next(states)
        if isinstance(found, Exception):
            raise found
        return found

    pauses: list[float] = []
    monkeypatch.setattr(commands, "time", SimpleNamespace(sleep=pauses.append))
    looks: Iterator[Any] = _looks(cast("Watcher", SimpleNamespace(snapshot=snapshot)), 2.5)
    assert list(looks) == [None, None, running, over]
    assert pauses == [2.5] * 3

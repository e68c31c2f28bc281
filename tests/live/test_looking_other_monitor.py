"""What another monitor tells is heard from the file of verdicts: each event once, and nothing damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from snapshots import BEGINS, ENDS

from timing_logger.engine.changes import Change
from timing_logger.live.delivery import VerdictsFile
from timing_logger.live.events import Event, WatchedRun, event_of
from timing_logger.live.looking import OtherMonitor


def tell(folder: Path, change: Change = BEGINS, run_id: str = "job 7") -> Event:
    event = event_of(change, WatchedRun(run_id))
    VerdictsFile(folder).receive(event)
    return event


def test_each_event_is_heard_once_and_those_of_before_are_not(tmp_path: Path) -> None:
    tell(tmp_path)
    other = OtherMonitor(tmp_path)
    assert other.told("job 7") == []
    told = [tell(tmp_path), tell(tmp_path, ENDS)]
    assert other.told("job 7") == told
    assert other.told("job 7") == []


def test_the_file_may_begin_later(tmp_path: Path) -> None:
    other = OtherMonitor(tmp_path)
    assert other.told("") == []
    assert other.told("") == [] != [tell(tmp_path)] == other.told("")


def test_a_file_that_was_begun_again_is_read_from_its_beginning(tmp_path: Path) -> None:
    tell(tmp_path)
    other = OtherMonitor(tmp_path)
    os.rename(tmp_path / "verdicts.jsonl", tmp_path / "earlier.jsonl")
    told = [tell(tmp_path, ENDS), tell(tmp_path)]
    assert other.told("") == told


def test_events_of_another_run_are_not_heard(tmp_path: Path) -> None:
    other = OtherMonitor(tmp_path)
    tell(tmp_path, run_id="job 6")
    event = tell(tmp_path)
    assert other.told("job 7") == [event]


def test_a_line_is_heard_when_it_is_whole(tmp_path: Path) -> None:
    other, path = OtherMonitor(tmp_path), tmp_path / "verdicts.jsonl"
    event = tell(tmp_path)
    line = path.read_bytes()
    path.write_bytes(line[:50])
    assert other.told("") == []
    with path.open("ab") as file:
        file.write(line[50:])
    assert other.told("") == [event]


def damaged() -> list[bytes]:
    event = event_of(BEGINS, WatchedRun())
    others: list[object] = [[], 7, {}, {**event, "ranks": 3}, {**event, "at": None}]
    return [b"{", b"\xff", b"", *(json.dumps(one).encode() for one in others)]


@pytest.mark.parametrize("line", damaged())
def test_what_is_no_event_is_left_out(tmp_path: Path, line: bytes) -> None:
    other = OtherMonitor(tmp_path)
    (tmp_path / "verdicts.jsonl").write_bytes(line + b"\n")
    event = tell(tmp_path)
    assert other.told("") == [event]


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "verdicts.jsonl")
    assert OtherMonitor(tmp_path).told("") == []

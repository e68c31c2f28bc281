"""A monitor that heard what another told goes on from there when it has to tell itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from json_lines import json_rows
from monitored_runs import Voice
from snapshots import BEGINS, HANGS, HEALTHY, SLOW, snapshot_of

from timing_logger.analysis import Verdict
from timing_logger.live.events import WatchedRun, event_of
from timing_logger.live.looking import Telling
from timing_logger.process.monitor import MonitorSettings


@pytest.mark.parametrize("found", [SLOW, HANGS], ids=["slow", "hang"])
def test_what_another_monitor_told_is_told_again_only_when_it_is_over(tmp_path: Path, found: Verdict) -> None:
    voice = Voice()
    telling = Telling(MonitorSettings(log_dir=str(tmp_path)), voice.say)
    begins = event_of(BEGINS._replace(verdict=found), WatchedRun("job 7"))
    telling.hear(begins)
    for verdict in (found, found, HEALTHY, HEALTHY, HEALTHY):
        telling.tell(snapshot_of(8, verdict))
    telling.close()
    ends = voice.said[-1]["event"]
    assert [one["event"]["change"] for one in voice.said] == ["begins", "ends"]
    assert json_rows(tmp_path / "verdicts.jsonl") == [ends]
    assert {**ends, "change": "begins", "at": begins["at"], "id": begins["id"]} == begins
    assert ends["id"] != begins["id"]


def test_what_another_monitor_told_to_be_over_may_begin_again(tmp_path: Path) -> None:
    voice = Voice()
    telling = Telling(MonitorSettings(log_dir=str(tmp_path)), voice.say)
    begins = event_of(BEGINS, WatchedRun())
    telling.hear(begins)
    telling.hear({**begins, "change": "ends"})
    for _ in range(2):
        telling.tell(snapshot_of(8, SLOW))
    telling.close()
    assert [one["event"]["change"] for one in voice.said] == ["begins", "ends", "begins"]

"""A monitor is a process of its own, which tells who started it, stays out of the way, and ends with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conditions import wait_for
from monitored_runs import LIMIT_S, monitor_of, write_run_of_this_host
from places import ROOT

STARTS_ONE = """
import sys, time
from timing_logger.monitor import Settings
from timing_logger.monitor_process import MonitorProcess
monitor = MonitorProcess(Settings(log_dir=sys.argv[1]), print)
print(monitor.pid, flush=True)
time.sleep(600)
"""


def has_ended(pid: int) -> bool:
    """Tell whether a process that is no child of this one has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_who_is_slow_is_told_to_whoever_started_it_and_stands_in_the_folder(tmp_path: Path) -> None:
    folder = write_run_of_this_host(tmp_path / "run")
    with monitor_of(folder) as (_, heard):
        event = heard.next("event")
    assert (event["change"], event["verdict"], event["ranks"]) == ("begins", "rank", [2])
    (line,) = (folder / "verdicts.jsonl").read_text().splitlines()
    assert json.loads(line) == event


def test_a_healthy_run_is_looked_at_and_nothing_is_told(tmp_path: Path) -> None:
    folder = write_run_of_this_host(tmp_path / "run", slow_rank=None)
    with monitor_of(folder) as (process, heard):
        process.close(LIMIT_S)
        assert heard.next("ended") == 0
    assert not (folder / "verdicts.jsonl").exists()
    assert (folder / "monitor" / "judge.lock").exists()


def test_files_of_an_earlier_run_are_not_judged(tmp_path: Path) -> None:
    folder = write_run_of_this_host(tmp_path / "run")
    with monitor_of(folder, since_unix_s=time.time()) as (process, heard):
        process.close(LIMIT_S)
        assert heard.next("ended") == 0
    assert not (folder / "verdicts.jsonl").exists()


def test_what_cannot_be_judged_is_said_once_and_looked_at_again(tmp_path: Path) -> None:
    folder = write_run_of_this_host(tmp_path / "run")
    damaged = folder / "timing-rank1.csv"
    content = damaged.read_bytes()
    damaged.write_bytes(b"no,timing,file\n1,2,3\n")
    with monitor_of(folder) as (_, heard):
        assert "cannot be judged" in heard.next("said")
        damaged.write_bytes(content)
        assert heard.next("event")["ranks"] == [2]


def test_it_ends_when_whoever_started_it_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_ONE, str(tmp_path)]
    parent = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait(LIMIT_S)
    wait_for(lambda: has_ended(pid))


def test_it_runs_on_any_processor_behind_the_ranks_and_not_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIMING_LOGGER_AUTOLOG", json.dumps({"log_dir": str(tmp_path / "timed")}))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "timing_logger/autologging/site"))
    folder = write_run_of_this_host(tmp_path / "run")
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usable)})
    try:
        with monitor_of(folder) as (process, heard):
            heard.next("event")
            assert os.sched_getaffinity(process.pid) == usable
            assert os.getpriority(os.PRIO_PROCESS, process.pid) >= min(
                19, os.getpriority(os.PRIO_PROCESS, 0) + 10
            )
    finally:
        os.sched_setaffinity(0, usable)
    assert not (tmp_path / "timed").exists()


def test_ctrl_c_in_the_terminal_is_for_the_job(tmp_path: Path) -> None:
    folder = write_run_of_this_host(tmp_path / "run")
    with monitor_of(folder) as (process, heard):
        heard.next("event")
        os.kill(process.pid, signal.SIGINT)
        process.close(LIMIT_S)
        assert heard.next("ended") == 0

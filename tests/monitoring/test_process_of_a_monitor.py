"""A monitor is a process of its own, which tells who started it, stays out of the way, and ends with it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which one rank is slow, whose files nobody looked at yet."""
    return write_run_of_this_host(tmp_path_factory.mktemp("monitored") / "run")


class Behaved(NamedTuple):
    """What a monitor of a job did that is timed from outside, and may use one processor.

    Attributes:
        folder: of the run.
        event: what it told.
        processors: on which it may run.
        niceness: how far behind others it stands.
        status: with which it ended, after Ctrl-C in the terminal and then the end of who started it.
        is_timed: whether it was taken for a rank.
    """

    folder: Path
    event: dict[str, Any]
    processors: set[int]
    niceness: int
    status: int
    is_timed: bool


@pytest.fixture(scope="module")
def behaved(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behaved]:
    timed, usable = tmp_path_factory.mktemp("other") / "timed", os.sched_getaffinity(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIMING_LOGGER_AUTOLOG", json.dumps({"log_dir": str(timed)}))
        patch.setenv("RANK", "0")
        patch.setenv("PYTHONPATH", str(ROOT / "timing_logger/autologging/site"))
        own = shutil.copytree(folder, tmp_path_factory.mktemp("behaved") / "run")
        os.sched_setaffinity(0, {min(usable)})
        try:
            with monitor_of(own) as (process, heard):
                event = heard.next("event")
                processors = os.sched_getaffinity(process.pid)
                niceness = os.getpriority(os.PRIO_PROCESS, process.pid)
                os.kill(process.pid, signal.SIGINT)
                process.close(LIMIT_S)
                status = heard.next("ended")
        finally:
            os.sched_setaffinity(0, usable)
        yield Behaved(own, event, processors, niceness, status, timed.exists())


def test_who_is_slow_is_told_to_whoever_started_it_and_stands_in_the_folder(behaved: Behaved) -> None:
    folder, event = behaved.folder, behaved.event
    assert (event["change"], event["verdict"], event["ranks"]) == ("begins", "rank", [2])
    (line,) = (folder / "verdicts.jsonl").read_text().splitlines()
    assert json.loads(line) == event


@pytest.mark.slow("that a monitor ends with its job is quick in tests/cli/test_monitored.py")
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


def test_it_runs_on_any_processor_behind_the_ranks_and_not_as_one(behaved: Behaved) -> None:
    assert behaved.processors == os.sched_getaffinity(0)
    assert behaved.niceness >= min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    assert not behaved.is_timed


def test_ctrl_c_in_the_terminal_is_for_the_job(behaved: Behaved) -> None:
    assert behaved.status == 0

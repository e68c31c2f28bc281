"""A monitor is a process of its own, which tells who started it, stays out of the way, and ends with it."""

from __future__ import annotations

import gc
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from conditions import wait_for
from monitored_runs import LIMIT_S, monitor_of, write_run_of_this_host
from places import ROOT
from processes import run_warm

from timing_logger.live import looking
from timing_logger.live import monitor_loop as process
from timing_logger.process import monitor
from timing_logger.process.monitor import MonitorSettings

STARTS_ONE = """
import sys, time
from timing_logger.process.monitor import MonitorProcess, MonitorSettings
monitor = MonitorProcess(MonitorSettings(log_dir=sys.argv[1]), print)
print(monitor.pid, flush=True)
time.sleep(600)
"""


def has_ended(pid: int) -> bool:
    """Tell whether a process that is no child of this one has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


# -- what its process does, in this one -------------------------------------------------------------------


class Ear(io.StringIO):
    """Takes what a monitor says, and ends it with its first event: the other end of its input is closed."""

    def __init__(self, other_end: int) -> None:
        super().__init__()
        self._other_end = other_end
        self.events: list[dict[str, Any]] = []

    def write(self, text: str) -> int:
        content = json.loads(text)
        if "event" in content:
            self.events.append(content["event"])
            if len(self.events) == 1:
                os.close(self._other_end)
        return len(text)


@pytest.fixture
def _collects_as_before() -> Iterator[None]:
    usual = gc.get_threshold()
    yield
    gc.set_threshold(*usual)


@pytest.mark.usefixtures("_collects_as_before")
def test_who_is_slow_is_told_and_stands_in_the_folder_and_it_ends_with_its_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_run_of_this_host(tmp_path / "run", steps=60)
    own_end, other_end = os.pipe()
    os.write(
        other_end, json.dumps(asdict(MonitorSettings(log_dir=str(folder), every_s=0.05))).encode() + b"\n"
    )
    ear = Ear(other_end)
    with open(own_end) as settings:
        monkeypatch.setattr(sys, "stdin", settings)
        monkeypatch.setattr(sys, "stdout", ear)
        monkeypatch.setattr(process, "_stay_out_of_the_way", lambda: None)
        assert process.main() == 0
    (event,) = ear.events
    assert (event["change"], event["verdict"], event["ranks"]) == ("begins", "rank", [2])
    (line,) = (folder / "verdicts.jsonl").read_text().splitlines()
    assert json.loads(line) == event


class Looks:
    """A monitor that looks on a clock of its own; what it does is noted with the time.

    Attributes:
        took_s: how long each look takes.
        still_s: when some process is seen to stand still.
        ends_s: when its input ends.
    """

    def __init__(self, took_s: list[float], still_s: list[float], ends_s: float) -> None:
        self.took_s, self.still_s, self.ends_s = took_s, still_s, ends_s
        self.now_s, self.done, self.waits_s = 0.0, list[tuple[str, float]](), list[float]()

    def look(self) -> None:
        self.done.append(("look", self.now_s))
        self.now_s += self.took_s.pop(0) if self.took_s else 0.0

    def hear_other(self) -> None:
        self.done.append(("hear", self.now_s))

    def close(self) -> None:
        self.done.append(("close", self.now_s))

    def stands_still(self) -> bool:
        return self.now_s in self.still_s

    def is_over(self, parent: int, within_s: float) -> bool:
        self.waits_s.append(within_s)
        self.now_s += within_s
        return self.now_s >= self.ends_s or len(self.waits_s) > 1000

    @property
    def looks_s(self) -> list[float]:
        return [at_s for what, at_s in self.done if what == "look"]


def looked(monkeypatch: pytest.MonkeyPatch, looks: Looks) -> list[int]:
    """Run the process of a monitor that looks each ten seconds; return what its collector was told."""
    thresholds: list[int] = []
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"log_dir": "run", "every_s": 10.0}) + "\n"))
    monkeypatch.setattr(process, "_stay_out_of_the_way", lambda: None)
    monkeypatch.setattr(process, "_TICK_S", 0.25)
    monkeypatch.setattr(process, "_is_over", looks.is_over)
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: looks.now_s))
    monkeypatch.setattr(process, "gc", SimpleNamespace(set_threshold=thresholds.append))
    monkeypatch.setattr(looking, "Looking", lambda settings, say: looks)
    assert process.main() == 0
    return thresholds


def test_looks_begin_ten_seconds_apart_and_five_after_the_end_of_one_that_took_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = Looks([0.625, 7.0, 0.5], [], 45.0)
    assert looked(monkeypatch, looks) == [100_000]
    assert looks.looks_s == [0.0, 10.0, 22.0, 32.0, 42.0, 45.0]
    assert (min(looks.waits_s), max(looks.waits_s)) == (0.0, 0.25)
    assert looks.done[-3:] == [("look", 45.0), ("hear", 45.0), ("close", 45.0)]
    assert ("hear", 5.125) in looks.done  # between looks, too


def test_when_a_process_stands_still_the_next_look_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks([], [3.0], 24.0)
    looked(monkeypatch, looks)
    assert looks.looks_s == [0.0, 3.0, 20.0, 24.0]


def test_what_is_said_is_a_line_that_is_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    out = SimpleNamespace(write=done.append, flush=lambda: done.append("flushed"))
    monkeypatch.setattr(sys, "stdout", out)
    process.say(said="no room")
    assert done == ['{"said": "no room"}\n', "flushed"]


STAYS_OUT_OF_THE_WAY = """
import os, signal
from timing_logger.live.monitor_loop import _stay_out_of_the_way
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
before = os.getpriority(os.PRIO_PROCESS, 0)
_stay_out_of_the_way()
print(len(os.sched_getaffinity(0)), os.cpu_count())
print(os.getpriority(os.PRIO_PROCESS, 0), min(19, before + 10))
print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
"""


def test_it_takes_any_processor_behind_the_ranks_and_leaves_ctrl_c_to_the_job() -> None:
    done = run_warm(STAYS_OUT_OF_THE_WAY)
    assert done.returncode == 0, done.stderr
    processors, priority, ignores = (line.split() for line in done.stdout.splitlines())
    assert processors[0] == processors[1]
    assert priority[0] == priority[1]
    assert ignores == ["True"]


def test_it_is_started_as_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    site = str(ROOT / "timing_logger/autologging/site")
    monkeypatch.setenv("TIMING_LOGGER_AUTOLOG", "{}")
    monkeypatch.setenv("LD_PRELOAD", "none.so")
    monkeypatch.syspath_prepend(site)
    environment = monitor._environment()
    assert not environment.keys() & {"TIMING_LOGGER_AUTOLOG", "LD_PRELOAD"}
    assert site not in environment["PYTHONPATH"].split(os.pathsep)


# -- its process beside a job ------------------------------------------------------------------------------


class Behaved(NamedTuple):
    """What a monitor of a job did that is timed from outside, and may use one processor.

    Attributes:
        event: what it told.
        processors: on which it may run.
        niceness: how far behind others it stands.
        status: with which it ended, after Ctrl-C in the terminal and then the end of who started it.
        is_timed: whether it was taken for a rank.
    """

    event: dict[str, Any]
    processors: set[int]
    niceness: int
    status: int
    is_timed: bool


@pytest.fixture(scope="module")
def behaved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behaved]:
    timed, usable = tmp_path_factory.mktemp("other") / "timed", os.sched_getaffinity(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIMING_LOGGER_AUTOLOG", json.dumps({"log_dir": str(timed)}))
        patch.setenv("RANK", "0")
        patch.setenv("PYTHONPATH", str(ROOT / "timing_logger/autologging/site"))
        folder = write_run_of_this_host(tmp_path_factory.mktemp("behaved") / "run")
        os.sched_setaffinity(0, {min(usable)})
        try:
            with monitor_of(folder) as (process, heard):
                event = heard.next("event")
                processors = os.sched_getaffinity(process.pid)
                niceness = os.getpriority(os.PRIO_PROCESS, process.pid)
                os.kill(process.pid, signal.SIGINT)
                process.close(LIMIT_S)
                status = heard.next("ended")
        finally:
            os.sched_setaffinity(0, usable)
        yield Behaved(event, processors, niceness, status, timed.exists())


@pytest.mark.slow("an interpreter of its own; what it tells is tried above")
def test_who_is_slow_is_told_to_whoever_started_it(behaved: Behaved) -> None:
    event = behaved.event
    assert (event["change"], event["verdict"], event["ranks"]) == ("begins", "rank", [2])


@pytest.mark.slow("that a monitor ends with its job is quick in tests/cli/test_launch_monitored.py")
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


@pytest.mark.slow("an interpreter of its own; what it does to stay out of the way is tried above")
def test_it_runs_on_any_processor_behind_the_ranks_and_not_as_one(behaved: Behaved) -> None:
    assert behaved.processors == os.sched_getaffinity(0)
    assert behaved.niceness >= min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    assert not behaved.is_timed


@pytest.mark.slow("an interpreter of its own; that it leaves Ctrl-C alone is tried above")
def test_ctrl_c_in_the_terminal_is_for_the_job(behaved: Behaved) -> None:
    assert behaved.status == 0

"""``timing-logger run --monitor`` says while a job runs who is slow, and leaves the job as it is."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm
from snapshots import BEGINS, ENDS, HANGS
from timed_jobs import timed_warm, torchrun

from timing_logger.cli import launch, main
from timing_logger.cli.launch import JobMonitor
from timing_logger.live.events import WatchedRun, event_of
from timing_logger.process.monitor import MonitorSettings

TOLD = """
import time
from pathlib import Path
import torch
import torch.distributed as dist

dist.init_process_group("gloo")  # ranks that wait leave the processor to others
rank, folder = dist.get_rank(), Path(r"FOLDER")
limit_s = time.monotonic() + 200

def told(change):
    path = folder / "verdicts.jsonl"
    return path.exists() and f'"{change}"' in path.read_text()

def works():
    time.sleep(0.030 + (0.090 if rank == 1 and not told("begins") else 0.0))

def one_ends():
    ends = torch.tensor([int(told("ends") or time.monotonic() > limit_s)])
    dist.all_reduce(ends)
    return bool(ends)
"""
"""Rank 1 is slow until that is told, and the program goes on until it is told that it no longer is."""

UNCHANGED = f"""{TOLD}
while not one_ends():
    works()
dist.destroy_process_group()
"""


HEARS_IT_TOO = f"""{TOLD}
from timing_logger import Monitor, init_timing_logger

def keep(event):
    with (folder / "heard.jsonl").open("a") as file: file.write(event["id"] + "\\n")

monitor = Monitor(every_s=1, window_s=10, on_verdict=keep)
logger = init_timing_logger(rank=rank, log_dir=folder, monitor=monitor)
step, ends = 0, False
while not ends:
    logger.set_current_iteration(step)
    with logger.operation("DATA"):
        works()
    with logger.record_mpi_operation("ALLREDUCE", 8, seq=step, group="world", group_size=3):
        ends = one_ends()
    step += 1
logger.close()
dist.destroy_process_group()
"""


def monitored(folder: Path, *job: object) -> tuple[int, str]:
    """Run a job with a monitor, and return the exit code and stderr."""
    done = timed_warm(folder, job, "--monitor", "--monitor-every", 1)
    return done.returncode, done.stderr


def monitored_ranks(folder: Path, text: str) -> tuple[int, str]:
    program = folder.with_name("program.py")
    program.write_text(text.replace("FOLDER", str(folder)))
    return monitored(folder, *torchrun(warm.python(), 3), program)


@pytest.mark.slow(
    "three ranks for ten seconds; the lines are tried below, and monitors of programs are quick"
)
@pytest.mark.serial  # ranks that lack a processor now and then are slow now and then, which is told, too
def test_it_says_when_a_rank_is_found_slow_and_when_that_is_over(tmp_path: Path) -> None:
    status, said = monitored_ranks(tmp_path / "logs", UNCHANGED)
    lines = re.findall(r"^timing-logger: \d\d:\d\d:\d\d (.*)$", said, re.MULTILINE)
    events = [json.loads(line) for line in (tmp_path / "logs/verdicts.jsonl").read_text().splitlines()]
    assert status == 0, said
    assert [event["change"] for event in events] == ["begins", "ends"], said
    assert [event["ranks"] for event in events] == [[1], [1]]
    assert lines == [events[0]["text"], f"over: {events[1]['text']}"]


@pytest.mark.slow(
    "three ranks for ten seconds; make test has a monitor of the command, and monitors of programs"
)
def test_a_function_of_the_program_gets_each_event_once_too(tmp_path: Path) -> None:
    """The program has a monitor of its own: one of the two judges, the other passes on what that tells."""
    folder = tmp_path / "logs"
    status, said = monitored_ranks(folder, HEARS_IT_TOO)
    told = [json.loads(line)["id"] for line in (folder / "verdicts.jsonl").read_text().splitlines()]
    assert status == 0, said
    assert told, said
    assert (folder / "heard.jsonl").read_text().splitlines() == told, said
    assert len(re.findall(r"^timing-logger: \d\d:\d\d:\d\d ", said, re.MULTILINE)) == len(told), said


def test_the_exit_code_is_the_jobs_and_its_monitor_ends_with_it(tmp_path: Path) -> None:
    ends = "from mpi4py import MPI; raise SystemExit(7)"
    status, said = monitored(tmp_path / "logs", sys.executable, "-c", ends)
    assert status == 7, said
    assert "monitor" not in said


def test_what_begins_and_ends_is_said_in_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    monitor = JobMonitor()
    events = [event_of(change, WatchedRun()) for change in (BEGINS, ENDS)]
    for event in events:
        monitor.hear({"event": event})
    said = re.findall(r"^timing-logger: \d\d:\d\d:\d\d (.*)$", capsys.readouterr().err, re.MULTILINE)
    assert said == [events[0]["text"], f"over: {events[1]['text']}"]


@pytest.mark.parametrize("option", [["--webhook", "https://a.example"], ["--prometheus", "9400"]])
def test_what_is_for_a_monitor_needs_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    assert main(["run", "--log-dir", str(tmp_path), *option, "--", sys.executable, "-c", ""]) == 2
    assert f"{option[0]} is for what a monitor sees" in capsys.readouterr().err


# -- what its process says -------------------------------------------------------------------------------


def test_what_changes_is_said_to_be_so_now(capsys: pytest.CaptureFixture[str]) -> None:
    event = event_of(BEGINS._replace(kind="changes"), WatchedRun())
    JobMonitor().hear({"event": event})
    assert f" now: {event['text']}" in capsys.readouterr().err


def test_a_hang_stands_from_its_begin_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    monitor, stands = JobMonitor(), []
    hang = BEGINS._replace(verdict=HANGS)
    for change in (BEGINS, hang, hang._replace(kind="changes"), hang._replace(kind="ends"), ENDS):
        monitor.hear({"event": event_of(change, WatchedRun())})
        stands.append(monitor.hang_stands)
    assert stands == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("content", "said", "is_at_work"),
    [
        ({"said": "no webhook"}, "timing-logger: monitor: no webhook\n", True),
        ({"ended": ""}, "", False),
        ({"ended": "killed"}, "timing-logger: the monitor ended (killed); the job goes on without.\n", False),
        ({}, "", True),
    ],
)
def test_what_goes_wrong_is_said_and_only_what_ended_is_no_longer_at_work(
    content: dict[str, str], said: str, is_at_work: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    monitor = JobMonitor()
    monitor.hear(content)
    assert (capsys.readouterr().err, monitor.is_at_work) == (said, is_at_work)


# -- around the job --------------------------------------------------------------------------------------


class Process:
    """Stands for the process of a monitor, and keeps what becomes of it."""

    started: list[Process]

    def __init__(self, settings: MonitorSettings, hear: Callable[..., object]) -> None:
        self.settings, self.grace_s = settings, 0.0
        self.started.append(self)

    def close(self, grace_s: float) -> None:
        self.grace_s = grace_s


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    found: list[Process] = []
    monkeypatch.setattr(Process, "started", found, raising=False)
    monkeypatch.setattr(launch, "MonitorProcess", Process)
    for name in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    return found


def asked(**options: Any) -> Namespace:
    plain = {"monitor": True, "monitor_every": 3.0, "webhook": None, "prometheus": None}
    return Namespace(**{**plain, **options})


def test_without_being_asked_nobody_monitors(started: list[Process], tmp_path: Path) -> None:
    with launch.monitored(asked(monitor=False), tmp_path) as monitor:
        assert monitor is None
    assert started == []


def test_the_monitor_looks_as_often_as_asked_and_is_waited_for_at_the_end(
    started: list[Process], tmp_path: Path
) -> None:
    options = asked(webhook="https://a.example", prometheus=9400)
    with pytest.raises(RuntimeError), launch.monitored(options, tmp_path):
        raise RuntimeError  # of the job
    (process,) = started
    assert (process.settings.log_dir, process.settings.every_s) == (str(tmp_path), 3.0)
    assert [one["kind"] for one in process.settings.show_in] == ["prometheus"]
    assert [one["url"] for one in process.settings.webhooks] == ["https://a.example"]
    assert process.grace_s == 15.0


def test_nobody_is_told_unless_that_is_asked(started: list[Process], tmp_path: Path) -> None:
    with launch.monitored(asked(), tmp_path):
        pass
    assert (list(started[0].settings.webhooks), list(started[0].settings.show_in)) == ([], [])


def test_of_several_runs_on_a_host_the_first_has_the_monitor(
    started: list[Process], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for local_rank, n_started in (("1", 0), ("0", 1)):
        monkeypatch.setenv("LOCAL_RANK", local_rank)
        with launch.monitored(asked(), tmp_path) as monitor:
            assert monitor is not None
            assert monitor.is_at_work
        assert len(started) == n_started


def test_a_monitor_that_cannot_be_started_is_said_and_the_job_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> Process:
        raise OSError("no memory")

    monkeypatch.setattr(launch, "MonitorProcess", fails)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    with launch.monitored(asked(), tmp_path) as monitor:
        assert monitor is not None
        assert not monitor.is_at_work
    assert capsys.readouterr().err == (
        "timing-logger: the job cannot be judged while it goes on: no memory\n"
    )

"""A logger starts the monitor of its run, and a run goes on whatever becomes of that."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm
from conditions import wait_for
from hung_runs import Rank, open_call, trained, write_run
from json_lines import json_rows
from limits import MONITOR_S
from monitored_runs import judges_of, monitor_of, write_run_of_this_host

from timing_logger import Monitor, TimingLogger
from timing_logger.errors import ConfigurationError
from timing_logger.process import monitor as module
from timing_logger.process.monitor import RunMonitor
from timing_logger.process.this_process import boot_id, host_name


def started(folder: Path, rank: int = 0, **options: Any) -> RunMonitor:
    return RunMonitor(Monitor(every_s=1.0, **options), folder, rank)


@pytest.fixture
def monitors_start_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of monitors have imported what takes long already."""
    monkeypatch.setattr(sys, "executable", warm.python())


def test_a_function_that_raises_gets_each_event_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Any] = []

    def on_verdict(event: dict[str, Any]) -> None:
        heard.append(event)
        raise ValueError("of the user's")

    monkeypatch.setattr(module, "MonitorProcess", lambda settings, hear: hear)  # it starts none
    hear: Any = started(tmp_path, on_verdict=on_verdict)._process
    for number in range(2):
        hear({"event": {"ranks": [number]}})
    assert heard == [{"ranks": [0]}, {"ranks": [1]}]
    assert caplog.text.count("on_verdict raised") == 2


class Process:
    """A monitor's process that was not started: ``hear`` is what it would call."""

    pid = 77

    def __init__(self, settings: object, hear: Any) -> None:
        self.hear = hear
        self.closed: list[float] = []

    def close(self, grace_s: float) -> None:
        self.closed.append(grace_s)


@pytest.fixture
def process_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[RunMonitor], Process]:
    monkeypatch.setattr(module, "MonitorProcess", Process)

    def process_of(monitor: RunMonitor) -> Process:
        process: Any = monitor._process
        assert isinstance(process, Process)
        return process

    return process_of


def test_the_function_of_another_rank_than_0_hears_of_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process_of: Callable[[RunMonitor], Process]
) -> None:
    monkeypatch.setenv("LOCAL_RANK", "0")
    heard: list[Any] = []
    process_of(started(tmp_path, 4, on_verdict=heard.append)).hear({"event": {"ranks": [0]}})
    assert heard == []
    process_of(started(tmp_path, 0, on_verdict=heard.append)).hear({"event": {"ranks": [0]}})
    assert heard == [{"ranks": [0]}]


def test_what_a_monitor_says_and_that_it_ends_is_logged(
    tmp_path: Path, process_of: Callable[[RunMonitor], Process], caplog: pytest.LogCaptureFixture
) -> None:
    hear = process_of(started(tmp_path)).hear
    hear({})
    hear({"ended": None})
    assert caplog.messages == []
    hear({"said": "another one is at work"})
    hear({"ended": "signal 9"})
    assert caplog.messages == [
        "timing logger: monitor: another one is at work",
        "timing logger: the monitor has ended (signal 9); the run goes on without",
    ]


def test_the_end_of_a_monitor_that_was_closed_is_nothing_to_log(
    tmp_path: Path, process_of: Callable[[RunMonitor], Process], caplog: pytest.LogCaptureFixture
) -> None:
    monitor = started(tmp_path)
    process = process_of(monitor)
    assert monitor.pid == 77
    monitor.close()
    process.hear({"ended": "code 0"})
    assert process.closed == [0.5]
    assert caplog.messages == []


def test_a_monitor_that_cannot_be_started_is_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(settings: object, hear: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(module, "MonitorProcess", refuse)
    monitor = started(tmp_path)
    assert monitor.pid is None
    monitor.close()
    (message,) = caplog.messages
    assert message.startswith("timing logger: the monitor of the run cannot be started: [Errno 11]")


@pytest.mark.slow("starts a monitor; that the function gets what it tells is quick")
@pytest.mark.usefixtures("monitors_start_warm")
def test_the_function_gets_each_event_and_what_it_raises_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[dict[str, Any]] = []

    def on_verdict(event: dict[str, Any]) -> None:
        events.append(event)
        raise ValueError("of the user's")

    monitor = started(write_run_of_this_host(tmp_path / "run"), on_verdict=on_verdict)
    wait_for(lambda: events, limit_s=MONITOR_S)
    monitor.close()
    assert [event["ranks"] for event in events] == [[2]]
    assert "on_verdict raised" in caplog.text


@pytest.mark.slow("two monitors on two ranks; events of one are quick")
@pytest.mark.usefixtures("monitors_start_warm")
def test_the_function_gets_each_event_once_though_another_monitor_judges(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As under ``timing-logger run --monitor``, which starts a monitor of its own. It raises, too."""
    here = {"host": host_name(), "boot_id": boot_id()}
    ranks = [Rank(trained(), sidecar=here)] * 2
    folder = write_run(tmp_path / "run", *ranks)
    events: list[dict[str, Any]] = []

    def on_verdict(event: dict[str, Any]) -> None:
        events.append(event)
        raise ValueError("of the user's")

    with monitor_of(folder) as (_, heard):
        wait_for(lambda: judges_of(folder), limit_s=MONITOR_S)
        monitor = started(folder, on_verdict=on_verdict)
        wait_for(lambda: "another monitor of this run is at work" in caplog.text, limit_s=MONITOR_S)
        write_run(folder, Rank(trained(), sidecar={**here, "open_calls": [open_call()]}), ranks[1])
        wait_for(lambda: events, limit_s=MONITOR_S)
        monitor.close()
        assert heard.next("event") == events[0]
    assert json_rows(folder / "verdicts.jsonl") == events
    assert [event["event"] for event in events] == ["hang"]
    assert "on_verdict raised" in caplog.text


@pytest.mark.parametrize(
    ("rank", "local_rank", "starts"), [(0, "", True), (4, "0", True), (4, "", False), (5, "1", False)]
)
def test_rank_0_and_the_first_rank_of_each_host_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int, local_rank: str, starts: bool
) -> None:
    if local_rank:
        monkeypatch.setenv("LOCAL_RANK", local_rank)
    begun: list[object] = []
    monkeypatch.setattr(module, "MonitorProcess", lambda settings, hear: begun.append(settings))
    started(tmp_path, rank)
    assert len(begun) == starts


def test_a_monitor_that_is_killed_is_logged_once_and_recording_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with TimingLogger(0, tmp_path, monitor=Monitor()) as logger:
        assert logger._monitor is not None
        pid = logger._monitor.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: "monitor has ended" in caplog.text)
        with logger.operation("FORWARD"):
            pass
    assert logger.stats.written == 1
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"every_s": 0.5}, "every_s"),
        ({"every_s": "5"}, "every_s"),
        ({"window_s": 8.0}, "window_s"),
        ({"on_verdict": "print"}, "on_verdict"),
    ],
)
def test_options_that_cannot_be_are_refused_at_once(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        Monitor(**options)


@pytest.mark.parametrize(("log_dir", "monitor"), [(None, Monitor()), ("logs", "yes")])
def test_a_monitor_needs_files_and_is_a_monitor(tmp_path: Path, log_dir: str | None, monitor: Any) -> None:
    with pytest.raises(ConfigurationError, match="monitor"):
        TimingLogger(0, log_dir and tmp_path / log_dir, monitor=monitor)

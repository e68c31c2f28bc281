"""A logger from its start to its end: what it begins, tells and closes, in which order, and what is left."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger import Monitor, TimingLogger
from timing_logger.errors import ConfigurationError
from timing_logger.recording import lifecycle
from timing_logger.recording import logger as logger_module
from timing_logger.recording.flusher import Flusher
from timing_logger.schema.sidecar import ClockOffset, Counters
from timing_logger.sinks.memory import MemorySink

OFFSET = ClockOffset(1, 2, 3, 0, "host", "boot", 4)


def in_memory(**options: Any) -> TimingLogger:
    return TimingLogger(0, log_dir=None, **{"sinks": [MemorySink()], "flush_interval": 3600, **options})


def off() -> TimingLogger:
    return TimingLogger(0, enabled=False)


def sidecar(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "timing-rank0.meta.json").read_text())
    return found


def test_a_logger_that_is_off_has_counted_nothing_and_waits_for_nothing(tmp_path: Path) -> None:
    logger = off()
    assert (logger.stats, logger.flush(0), logger.path) == (Counters(0, 0, 0, 0), True, None)
    logger.flush_soon()
    logger.add_clock_offset(OFFSET)
    logger.close()
    assert repr(logger) == "<TimingLogger rank 0: off>"


def test_a_logger_is_off_on_ranks_that_were_left_out_and_on_the_others_not(tmp_path: Path) -> None:
    assert TimingLogger(1, tmp_path, ranks=[0]).path is None
    with TimingLogger(1, tmp_path, ranks=[1]) as logger:
        assert logger.path == tmp_path / "timing-rank1.csv"
        assert repr(logger) == f"<TimingLogger rank 1: {tmp_path / 'timing-rank1.csv'}>"


def test_a_logger_without_a_file_says_so() -> None:
    logger = in_memory()
    assert repr(logger) == "<TimingLogger rank 0: no file>"
    logger.add_clock_offset(OFFSET)
    logger.close()


def test_records_go_somewhere_and_a_monitor_reads_files() -> None:
    with pytest.raises(ConfigurationError, match=r"^log_dir is None and there are no sinks"):
        TimingLogger(0, log_dir=None)
    with pytest.raises(ConfigurationError, match=r"^monitor reads the timing files, and log_dir is None"):
        in_memory(monitor=Monitor())


def test_a_part_of_a_file_has_as_many_megabytes_as_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []

    def refuse(*_: Any, **options: Any) -> None:
        made.append(options)
        raise ZeroDivisionError

    monkeypatch.setattr(logger_module, "CsvSink", refuse)
    for most in (None, 2):
        with pytest.raises(ZeroDivisionError):
            TimingLogger(0, tmp_path, max_file_mb=most, file_mode=0o600)
    assert [options["max_bytes"] for options in made] == [None, 2_000_000]
    assert [options["mode"] for options in made] == [0o600, 0o600]


def test_a_file_comes_before_further_sinks(tmp_path: Path) -> None:
    sink = MemorySink()
    with TimingLogger(0, tmp_path, sinks=[sink]) as logger:
        logger.record_timing("SEND", 1.0)
        assert logger.flush()
        assert logger.stats.written == 1
        assert [row.operation for row in sink.records] == ["SEND"]
    assert [one["sink"] for one in sidecar(tmp_path)["sinks"]] == ["MemorySink"]


def test_a_clock_offset_is_in_the_sidecar_and_after_the_close_it_is_told_to_be_late(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = TimingLogger(0, tmp_path)
    logger.add_clock_offset(OFFSET)
    logger.close()
    caplog.clear()
    logger.add_clock_offset(OFFSET)
    logger.flush_soon()
    assert len(sidecar(tmp_path)["clock_offsets"]) == 1
    assert caplog.messages == ["timing logger: a clock offset came after close and is not in the sidecar"]


def test_a_request_to_write_soon_is_one_to_the_flush_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    hurried: list[bool] = []
    monkeypatch.setattr(Flusher, "hurry", lambda flusher: hurried.append(True))
    logger = in_memory()
    logger.flush_soon()
    logger.close()
    logger.flush_soon()
    assert hurried == [True]


# -- the end ---------------------------------------------------------------------------------------------


class Part:
    """Remembers that it was closed, and when."""

    def __init__(self, done: list[str], name: str) -> None:
        self._done, self._name = done, name

    def close(self, *_: float) -> None:
        self._done.append(self._name)


def test_at_the_end_what_records_ends_first_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    logger, done = in_memory(), []
    held: Any = logger
    held._samplers, held._monitor = [Part(done, "sampler")], Part(done, "monitor")
    monkeypatch.setattr(held._pause_rows, "end", lambda: done.append("pauses"))
    monkeypatch.setattr(held._open_calls, "write_all", lambda status: done.append(status))
    close = held._flusher.close
    monkeypatch.setattr(held._flusher, "close", lambda: (done.append("rows"), close()))
    for name in ("first", "last"):
        logger.before_close(lambda name=name: done.append(name))
    logger.close()
    assert done == ["pauses", "sampler", "first", "last", "unresolved", "rows", "monitor"]
    logger.close()
    assert len(done) == 7


def test_last_calls_that_an_interrupt_aborted_are_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    logger, done = in_memory(), []

    def interrupt() -> None:
        done.append("interrupted")
        raise KeyboardInterrupt

    logger.before_close(interrupt)
    logger.before_close(lambda: done.append("other"))
    with pytest.raises(KeyboardInterrupt):
        logger.close()
    logger.close()
    assert done == ["interrupted", "other"]


@pytest.mark.parametrize("came", [True, False])
def test_the_sidecar_says_what_ended_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, came: bool
) -> None:
    monkeypatch.setattr(lifecycle, "exception_that_ends_us", lambda: "KeyError")
    monkeypatch.setattr(logger_module, "sigterm_came", lambda told: came)
    TimingLogger(0, tmp_path).close()
    assert sidecar(tmp_path)["ended_by"] == "KeyError"
    assert sidecar(tmp_path)["signal"] == ("SIGTERM" if came else "")


@pytest.mark.parametrize("ends", [True, False])
def test_at_sigterm_open_calls_are_written_once_and_the_logger_is_closed_if_the_process_ends(
    ends: bool,
) -> None:
    sink = MemorySink()
    logger = in_memory(sinks=[sink])
    block = logger.record_mpi_operation("BARRIER")
    block.__enter__()
    logger._see_sigterm(ends)
    assert [(row.operation, row.status) for row in sink.records] == [("BARRIER", "inflight")]
    assert logger._hang_watch.signal == "SIGTERM"
    flusher = logger._flusher
    assert flusher is not None
    assert flusher.closed is ends
    if not ends:
        block.__exit__(None, None, None)
        logger.close()
        assert [row.status for row in sink.records] == ["inflight", "ok"]


def test_what_came_after_the_close_is_told_once_at_the_exit(caplog: pytest.LogCaptureFixture) -> None:
    logger = in_memory()
    logger.record_timing("A", 1.0)
    logger._close_at_exit()
    assert caplog.messages == []
    for _ in range(2):
        logger.record_timing("A", 1.0)
    logger._close_at_exit()
    logger._close_at_exit()
    assert caplog.messages == ["timing logger: 2 records came after close and were dropped"]
    logger.record_timing("A", 1.0)
    logger._close_at_exit()
    assert caplog.messages[1:] == ["timing logger: 1 records came after close and were dropped"]


# -- forks -----------------------------------------------------------------------------------------------


def test_in_a_child_the_file_the_thread_and_what_waits_are_the_parents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = MemorySink()
    logger = in_memory(sinks=[sink])
    held: Any = logger
    flusher, closed = held._flusher, []
    held._samplers, held._monitor = [Part(closed, "sampler")], Part(closed, "monitor")
    ended: list[bool] = []
    monkeypatch.setattr(held._pause_rows, "end", lambda: ended.append(True))
    block = logger.record_mpi_operation("BARRIER")
    block.__enter__()
    logger.record_timing("A", 1.0)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert logger.flush(0)
    assert (held._flusher, held._samplers, held._monitor, flusher.closed) == (None, [], None, True)
    assert ended == [True]
    assert list(held._open_calls) == []
    logger.close()
    logger.record_timing("A", 1.0)
    assert (logger.stats.written, logger.stats.dropped) == (0, 1)
    assert (sink.records, closed) == ([], [])


def test_a_child_of_a_logger_that_is_off_lets_go_of_nothing() -> None:
    logger: Any = off()
    logger.detach()
    assert logger._flusher is None


# -- what it begins --------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [True, False])
def test_what_is_not_asked_for_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    begun: list[Any] = []
    monkeypatch.setattr(logger_module, "at_sigterm", lambda told: begun.append("at_sigterm"))
    monkeypatch.setattr(
        logger_module, "RunMonitor",
        lambda options, folder, rank: begun.append((folder, rank)) or SimpleNamespace(close=lambda: None),
    )  # fmt: skip
    monitor = Monitor() if asked else None
    TimingLogger(0, tmp_path, handle_sigterm=asked, monitor=monitor, pause_rows=False).close()
    assert begun == (["at_sigterm", (tmp_path, 0)] if asked else [])


def test_it_is_closed_at_the_exit_and_detached_in_children(monkeypatch: pytest.MonkeyPatch) -> None:
    at_exit: list[Any] = []
    in_children: list[Any] = []
    monkeypatch.setattr(lifecycle, "at_exit", at_exit.append)
    monkeypatch.setattr(lifecycle, "detach_in_forked_children", in_children.append)
    logger = in_memory()
    logger.close()
    assert (at_exit, in_children) == ([logger._close_at_exit], [logger])


def test_a_logger_that_writes_is_refused_in_a_sub_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise ConfigurationError("mine")

    monkeypatch.setattr(lifecycle, "refuse_sub_interpreters", refuse)
    with pytest.raises(ConfigurationError, match="mine"):
        TimingLogger(0, tmp_path)
    assert list(tmp_path.iterdir()) == []
    off()


@pytest.mark.parametrize(("counters", "stacks"), [(False, False), (True, False), (False, True)])
def test_files_beside_the_timing_file_are_begun_if_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counters: bool, stacks: bool
) -> None:
    done: list[str] = []

    def sampler(name: str) -> Any:
        def start(*_: Any) -> SimpleNamespace:
            done.append(f"{name} begins")
            return SimpleNamespace(close=lambda timeout_s: done.append(f"{name} ends"), info=lambda: None)

        return start

    monkeypatch.setattr("timing_logger.recording.watchers.host_sampler.start_counting", sampler("host"))
    monkeypatch.setattr("timing_logger.recording.watchers.stack_sampler.start_sampling", sampler("stacks"))
    TimingLogger(0, tmp_path, host_counters=counters, stack_samples=stacks).close()
    begun = ["host"] * counters + ["stacks"] * stacks
    assert done == [f"{name} {what}" for name in begun for what in ("begins", "ends")]

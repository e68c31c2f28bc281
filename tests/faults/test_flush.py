"""P10: flush says True only when it is true, and answers in time."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from processes import rows
from sinks import StalledSink

from timing_logger import TimingLogger
from timing_logger.sinks.memory import MemorySink


def kill_flush_thread(logger: TimingLogger) -> None:
    """End the thread as nothing in the logger can."""

    def die(*_: object, **__: object) -> bool:
        raise SystemExit

    assert logger._flusher is not None
    logger._flusher._serve = die  # type: ignore[method-assign]
    logger._flusher._thread.join()
    del logger._flusher._serve


dies = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


def test_after_flush_the_rows_are_in_the_file(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path, flush_interval=3600) as logger:
        for n in range(1, 50):
            logger.record_timing("A", 1.0)
            assert logger.flush()
            assert logger.path is not None
            assert len(rows(logger.path)) == n


@pytest.mark.serial
def test_flush_gives_up_in_time_on_a_stalled_disk() -> None:
    sink = StalledSink()
    logger = TimingLogger(0, log_dir=None, sinks=[sink], flush_interval=0.001)
    logger.record_timing("A", 1.0)
    assert sink.stalled.wait(30)
    before_s = time.monotonic()
    assert not logger.flush(0.3)
    assert 0.3 <= time.monotonic() - before_s <= 0.4
    sink.resume()
    assert logger.flush()
    logger.close()


@dies
def test_flush_works_with_a_dead_flush_thread(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path, flush_interval=0.01) as logger:
        kill_flush_thread(logger)
        logger.record_timing("A", 1.0)
        assert logger.flush()
        assert logger.path is not None
        assert len(rows(logger.path)) == 1


@dies
def test_flush_works_with_a_dead_flush_thread_when_no_thread_can_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with TimingLogger(0, tmp_path, flush_interval=0.01) as logger:
        kill_flush_thread(logger)
        logger.record_timing("A", 1.0)
        monkeypatch.setattr(threading.Thread, "start", refuse)
        assert logger.flush()
        logger.record_timing("B", 1.0)
        logger.close()
    assert logger.stats == (2, 2, 0, 0)


def test_flush_on_the_flush_thread_itself_answers_no_instead_of_waiting_for_itself() -> None:
    answers: list[bool] = []

    class Reentrant(MemorySink):
        def write(self, batch: object, wall_offset_ns: int) -> None:
            answers.append(logger.flush(10))

    logger = TimingLogger(0, log_dir=None, sinks=[Reentrant()])
    logger.record_timing("A", 1.0)
    assert logger.flush()
    logger.close()
    assert answers == [False]


def test_fsync_is_asked_for_only_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for fsync, times in ((False, 0), (True, 1)):
        with TimingLogger(0, tmp_path, fsync=fsync, flush_interval=3600) as logger:
            logger.record_timing("A", 1.0)
            assert logger.flush()
            assert len(synced) == times


def test_a_failed_fsync_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with TimingLogger(0, tmp_path, fsync=True, flush_interval=3600) as logger:
        logger.record_timing("A", 1.0)
        assert not logger.flush()
    assert logger.stats == (1, 1, 0, 0)

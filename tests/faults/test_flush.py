"""P10: flush says True only when it is true, and answers in time."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from limits import LIMIT_S
from misbehaving_sinks import StalledSink
from processes import rows, run_python

from timing_logger import TimingLogger
from timing_logger.recording import flusher
from timing_logger.recording.cores import chosen as core
from timing_logger.sinks.memory import MemorySink

pytestmark = pytest.mark.both_cores


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
    assert sink.stalled.wait(LIMIT_S)
    before_s = time.monotonic()
    assert not logger.flush(0.3)
    assert 0.3 <= time.monotonic() - before_s <= 0.4
    sink.resume()
    assert logger.flush()
    logger.close()


def test_flush_gives_up_though_a_signal_handler_outlasts_its_time_limit() -> None:
    """SimpleQueue.get waits for ever then: the rest of its time is less than nothing."""
    sink = StalledSink()
    logger = TimingLogger(0, log_dir=None, sinks=[sink], flush_interval=0.001)
    logger.record_timing("A", 1.0)
    assert sink.stalled.wait(LIMIT_S)
    rescue = threading.Timer(20, sink.resume)
    rescue.start()
    before = signal.signal(signal.SIGALRM, lambda *_: time.sleep(0.3))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        assert not logger.flush(0.2)
        assert rescue.is_alive()  # else the sink went on, and only that ended the wait
    finally:
        signal.signal(signal.SIGALRM, before)
        rescue.cancel()
        sink.resume()
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


@pytest.mark.serial
def test_flush_gives_up_in_time_where_every_wait_ends_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits needs the interpreter again, which 64 threads that record keep for 0.3 s."""

    class LateMailbox:
        def put(self, answer: bool) -> None: ...

        def take(self, timeout_s: float) -> bool:
            if timeout_s > 0:
                time.sleep(timeout_s + 0.15)
            raise TimeoutError

    sink = StalledSink()
    logger = TimingLogger(0, log_dir=None, sinks=[sink], flush_interval=0.001)
    logger.record_timing("A", 1.0)
    assert sink.stalled.wait(LIMIT_S)
    with monkeypatch.context() as patched:
        patched.setattr(flusher, "Mailbox", LateMailbox)
        before_s = time.monotonic()
        assert not logger.flush(0.55)
        assert time.monotonic() - before_s <= 0.65
    sink.resume()
    logger.close()


def test_whoever_reads_of_dropped_records_is_told_that_the_flush_thread_had_no_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with TimingLogger(0, log_dir=None, sinks=[MemorySink()], maxsize=10, flush_interval=3600) as logger:
        assert logger._flusher is not None
        logger._flusher._note_wait(0.3)
        for _ in range(100):
            logger.record_timing("A", 1.0)
        logger.flush()
    (told,) = [record.message for record in caplog.records if "dropped" in record.message]
    assert "waited more than 0.2 s at a time for a processor or for the interpreter's lock" in told


@pytest.mark.skipif(core.NAME != "native", reason="the Python core cannot write without the interpreter")
def test_rows_written_without_the_interpreter_are_all_there_once_and_in_order(tmp_path: Path) -> None:
    """Though the file cannot grow for a while, some records have no slot, and names get longer."""
    run = run_python(
        """
        import resource, sys
        from timing_logger import TimingLogger
        logger = TimingLogger(0, sys.argv[1], flush_interval=3600, maxsize=100_000)
        def record(first, last):
            for n in range(first, last):
                name, odd = "é" * (n // 1000), None if n % 10_007 else {}
                logger.record_interval("A", n, n + 1, 8, name, iteration=n, metadata=odd)
        record(0, 20_000)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
        assert not logger.flush(30)
        assert 8192 < logger.stats.written < 20_000 and logger.stats.dropped == 0, logger.stats
        record(20_000, 24_000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert logger.flush(30)
        record(24_000, 36_000)
        logger.close()
        assert logger.stats == (36_000, 36_000, 0, 0), logger.stats
        """,
        tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert [int(row[1]) for row in rows(tmp_path / "timing-rank0.csv")] == list(range(36_000))

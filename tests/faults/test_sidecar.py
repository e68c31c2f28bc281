"""The sidecar on a file system that stalls, fails or is gone: the rows go on; and how old it may be."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from limits import LIMIT_S
from processes import rows, run_python
from sidecars import remove_folder, sidecar_when

from timing_logger import TimingLogger
from timing_logger.recording import sidecar_writer as _sidecar
from timing_logger.recording.sidecar_writer import replace_sidecar
from timing_logger.schema import defaults
from timing_logger.sinks._append_only_file import AppendOnlyFile


class StalledReplace:
    """A metadata server that answers no rename for now: each waits on a real pipe until ``resume``."""

    def __init__(self, replace: Callable[..., None]) -> None:
        self._replace = replace
        self._gate, self._key = os.pipe()
        self.stalled = threading.Event()

    def __call__(self, *paths: Any) -> None:
        self.stalled.set()
        os.read(self._gate, 1)
        self._replace(*paths)

    def resume(self) -> None:
        if self._key >= 0:
            os.close(self._key)  # end of file: every read returns from now on
            self._key = -1


@pytest.fixture
def logger(tmp_path: Path) -> Iterator[TimingLogger]:
    """Its first sidecar is written."""
    with TimingLogger(0, tmp_path, flush_interval=0.05) as logger:
        yield logger


@pytest.fixture
def replace(logger: TimingLogger, monkeypatch: pytest.MonkeyPatch) -> Iterator[StalledReplace]:
    stalled = StalledReplace(os.replace)
    monkeypatch.setattr(os, "replace", stalled)
    yield stalled
    stalled.resume()


def test_a_sidecar_on_a_stalled_disk_does_not_stop_the_rows(
    logger: TimingLogger, replace: StalledReplace, tmp_path: Path
) -> None:
    logger.record_timing("A", 1.0)
    assert replace.stalled.wait(LIMIT_S)
    for n in range(1, 20):
        logger.record_timing("A", 1.0)
        assert logger.flush(30)
        assert len(rows(tmp_path / "timing-rank0.csv")) == n + 1
    replace.resume()
    logger.close()
    sidecar = sidecar_when(tmp_path, lambda content: True)
    assert sidecar["closed"] is True
    assert sidecar["counters"] == {"accepted": 20, "written": 20, "dropped": 0, "pending": 0}


def test_close_waits_for_a_stalled_sidecar_at_most_two_seconds_and_says_so_once(
    logger: TimingLogger, replace: StalledReplace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger.record_timing("A", 1.0)
    assert replace.stalled.wait(LIMIT_S)
    before_s = time.monotonic()
    logger.close()
    logger.close()
    assert time.monotonic() - before_s <= 2.0
    (message,) = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert "sidecar failed" in message.replace("_", " ")
    assert "not written within" in message
    assert len(rows(tmp_path / "timing-rank0.csv")) == 1
    replace.resume()  # and what was to be said is said when the file system takes it after all
    assert sidecar_when(tmp_path, lambda content: content["closed"])["counters"]["written"] == 1


RENAMES_HANG = """
import os, subprocess, sys, time
from timing_logger import TimingLogger
logger = TimingLogger(0, sys.argv[1], maxsize=1000, flush_interval=3600)
tracer = subprocess.Popen(
    ["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=rename,renameat,renameat2",
     "-e", "inject=rename,renameat,renameat2:delay_enter=3600000000", "-p", str(os.getpid())])
while "TracerPid:\\t0\\n" in open("/proc/self/status").read():
    if tracer.poll() is not None:
        sys.exit(77)
    time.sleep(0.01)
for _ in range(2000):  # too many: the sidecar is to say so at once
    logger.record_timing("A", 1.0)
print(logger.flush())
for _ in range(500):
    logger.record_timing("A", 1.0)
print(logger.flush())
before_s = time.monotonic()
logger.close()
print(time.monotonic() - before_s <= 2.0)
tracer.kill()
"""


@pytest.mark.slow("a stand-in for such a file system is tried above")
@pytest.mark.serial
def test_a_process_whose_renames_hang_writes_its_rows_and_ends(tmp_path: Path) -> None:
    """For real: each rename after the constructor's is held up by a tracer."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    run = run_python(RENAMES_HANG, tmp_path)
    if run.returncode == 77:
        pytest.skip(f"no process may be traced here: {run.stderr}")
    assert run.stdout.split() == ["True"] * 3, run.stderr
    assert len(rows(tmp_path / "timing-rank0.csv")) == 1500


def test_a_sidecar_whose_folder_vanished_stops_nothing_and_is_there_again_with_the_rows(
    logger: TimingLogger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    remove_folder(tmp_path)
    for _ in range(5):
        logger.record_timing("A", 1.0)
        assert logger.flush()
    logger.close()
    assert logger.stats == (5, 5, 0, 0)
    told = [record.message for record in caplog.records if "sidecar" in record.message]
    assert len(told) <= 2  # while it ran, and at close
    assert sidecar_when(tmp_path, lambda content: content["closed"])["counters"]["written"] == 5


def test_the_sidecar_is_written_when_no_thread_can_start(
    logger: TimingLogger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    logger.record_timing("A", 1.0)
    assert logger.flush()
    assert sidecar_when(tmp_path, lambda content: content["counters"]["written"] == 1)
    logger.close()
    assert sidecar_when(tmp_path, lambda content: content["closed"])


@pytest.mark.serial
def test_the_sidecar_says_within_a_second_that_rows_are_in_the_file(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path) as logger:
        logger.record_timing("A", 1.0)
        assert logger.flush()
        before_s = time.monotonic()
        sidecar_when(tmp_path, lambda content: content["counters"]["written"] == 1)
        assert time.monotonic() - before_s <= 1.0


def test_the_sidecar_is_a_heartbeat_of_a_process_that_records_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, "SIDECAR_REFRESH_S", 0.1)
    with TimingLogger(0, tmp_path, flush_interval=3600):
        first_ns = sidecar_when(tmp_path, lambda content: True)["updated_unix_ns"]
        second = sidecar_when(tmp_path, lambda content: content["updated_unix_ns"] > first_ns)
        assert sidecar_when(tmp_path, lambda content: content["updated_unix_ns"] > second["updated_unix_ns"])
        assert second["counters"]["written"] == 0


def test_two_loggers_of_one_process_may_write_one_sidecar_at_a_time(tmp_path: Path) -> None:
    """As where a folder was emptied under the first one, and the second took its names."""
    path = tmp_path / "timing-rank0.meta.json"
    failed: list[OSError] = []

    def replace_often() -> None:
        try:
            for number in range(40):
                replace_sidecar(path, f'{{"number": {number}}}\n')
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=replace_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


class StalledFile(AppendOnlyFile):
    """A draft that the writing thread of the first sidecar cannot open for a while."""

    may_open = threading.Event()

    def __init__(self, path: Path, **options: Any) -> None:
        if threading.current_thread().name == "timing-logger-sidecar":
            assert self.may_open.wait(LIMIT_S)
        super().__init__(path, **options)


def test_a_sidecar_that_is_written_late_leaves_that_of_the_next_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a file system stalled it, the folder was emptied, and the next run began there."""
    monkeypatch.setattr(_sidecar, "AppendOnlyFile", StalledFile)
    old = TimingLogger(0, tmp_path / "logs", flush_interval=3600)
    old.record_timing("OLD", 1.0)
    assert old.flush()  # its sidecar is handed over, and waits
    shutil.rmtree(tmp_path / "logs")
    new = TimingLogger(0, tmp_path / "logs", flush_interval=3600, labels={"whose": "new"})
    StalledFile.may_open.set()
    old.record_timing("OLD", 1.0)
    old.close()
    assert sidecar_when(tmp_path / "logs", lambda _: True)["labels"] == {"whose": "new"}
    assert (tmp_path / "logs" / "timing-rank0.run2.csv").read_text().count("OLD") == 1
    new.close()
    assert not list(tmp_path.glob("logs/*.tmp"))

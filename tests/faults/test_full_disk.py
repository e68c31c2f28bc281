"""A file that cannot grow any further: no torn line, nothing twice, and on it goes when it can."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fault_programs import FILE_SIZE_LIMIT
from processes import rows, run_python, run_warm

from timing_logger import TimingLogger, read_timings
from timing_logger.sinks.csv import CsvSink

pytestmark = pytest.mark.both_cores


def test_when_there_is_room_again_every_row_is_written_once_and_the_exit_code_is_the_jobs(
    tmp_path: Path,
) -> None:
    run = run_python(FILE_SIZE_LIMIT, tmp_path, "freed")
    assert run.returncode == 3, run.stderr
    assert [int(row[1]) for row in rows(tmp_path / "timing-rank0.csv")] == list(range(3000))


@pytest.mark.slow("test_accounting.py counts what a full disk never took, and the log says it below")
def test_when_there_is_no_room_to_the_end_the_loss_is_counted(tmp_path: Path) -> None:
    run = run_python(FILE_SIZE_LIMIT, tmp_path, "full")
    assert run.returncode == 3, run.stderr
    assert "File too large" in run.stderr
    written = len(rows(tmp_path / "timing-rank0.csv"))
    counters = json.loads((tmp_path / "timing-rank0.meta.json").read_text())["counters"]
    assert counters == {"accepted": 3000, "written": written, "dropped": 3000 - written, "pending": 0}


def test_a_torn_line_that_cannot_be_taken_back_is_closed_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write = os.write
    sink = CsvSink(tmp_path, 0)

    def write_half_and_fail(descriptor: int, data: memoryview) -> int:
        if len(data) == 1:
            raise OSError(28, "No space left on device")
        return real_write(descriptor, data[:-1])

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    record = (1, 0, "layer", "A", "dense", 1, 0, 1, "host", "", None, None, None, "t", "ok")
    with monkeypatch.context() as broken:
        broken.setattr(os, "write", write_half_and_fail)
        broken.setattr(os, "ftruncate", fail)
        with pytest.raises(OSError, match="No space"):
            sink.write([record], 0)
    sink.write([record], 0)
    sink.close()
    torn, whole = rows(sink.path)
    assert torn == [*whole[:-1], whole[-1] + "\0"]
    assert sink.written_bytes == sink.path.stat().st_size


def test_lines_that_reached_the_file_and_cannot_be_taken_back_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A short write, then an error, then a ftruncate that fails: as a dying disk does."""
    real_write, calls = os.write, []

    def write_a_third_and_fail(descriptor: int, data: memoryview) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(5, "Input/output error")
        return real_write(descriptor, data[: len(data) // 3])

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    logger = TimingLogger(0, tmp_path, flush_interval=3600)
    for number in range(300):
        logger.record_timing("A", 1.0, iteration=number)
    with monkeypatch.context() as broken:
        broken.setattr(os, "write", write_a_third_and_fail)
        broken.setattr(os, "ftruncate", fail)
        assert not logger.flush()
        assert 80 < logger.stats.written < 120
    logger.close()
    with pytest.warns(UserWarning, match="1 damaged line was skipped"):  # the piece of one that was torn
        found = read_timings(tmp_path)
    assert sorted(found["iteration"]) == list(range(300))
    assert logger.stats.written == 300


def test_the_log_says_how_many_records_a_broken_disk_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The sidecar that would say it cannot be written either."""
    logger = TimingLogger(0, tmp_path, flush_interval=3600)
    for _ in range(1234):
        logger.record_timing("A", 1.0)

    def fail(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "write", fail)
    monkeypatch.setattr(os, "replace", fail)
    logger.close()
    assert "closed without 1234 records" in caplog.text


def test_a_logger_on_a_full_disk_is_refused_before_training(tmp_path: Path) -> None:
    run = run_warm(
        """
        import resource, sys
        from timing_logger import TimingLogger
        from timing_logger.errors import LogPathError
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
        try:
            TimingLogger(0, sys.argv[1])
        except LogPathError as error:
            print(error)
        """,
        tmp_path,
    )
    assert "no file can be made in it: [Errno 27] File too large" in run.stdout

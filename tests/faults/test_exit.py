"""P11: every way out of the interpreter, and what is in the file afterwards."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from limits import LIMIT_S
from misbehaving_sinks import StalledSink
from mpi_runner import run_on_ranks
from processes import rows, run_python
from slow import slow

from timing_logger import TimingLogger
from timing_logger.recording import flusher
from timing_logger.schema.record import RawRecord
from timing_logger.sinks.csv import CsvSink
from timing_logger.sinks.memory import MemorySink

RECORD_1000 = """
import os, signal, sys, threading
from timing_logger import init_timing_logger
logger = init_timing_logger(0, sys.argv[1], flush_interval=3600)
for i in range(1000):
    logger.record_timing("A", 1.0, iteration=i)
"""

FLUSH = "assert logger.flush()\n"

HEALTHY = {
    "falling off the end": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "an uncaught exception": ("raise RuntimeError", 1),
    # A shell starts background jobs with SIGINT ignored, and Python then leaves it so.
    "SIGINT": (
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.raise_signal(signal.SIGINT)", -signal.SIGINT,
    ),
    "SIGTERM with a handler that exits": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(4)); signal.raise_signal(signal.SIGTERM)", 4,
    ),
    "SIGTERM with a handler that closes": (
        "signal.signal(signal.SIGTERM, lambda *_: (logger.close(), os._exit(5)))\n"
        "signal.raise_signal(signal.SIGTERM)", 5,
    ),
    "a thread that goes on": ("threading.Thread(target=threading.Event().wait, daemon=True).start()", 0),
}  # fmt: skip

INTERRUPTED = """
import signal, sys, time
from timing_logger import init_timing_logger
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))
logger = init_timing_logger(0, sys.argv[1], flush_interval=3600)
for i in range(20_000):
    logger.record_timing("A", 1.0, iteration=i)
print("ready", flush=True)
while True:
    time.sleep(1)
"""

BURSTS_MS = {
    "twice within 2 ms": [2],
    "four times": [10, 10, 10],
    "ten times": [3] * 9,
    "in one moment": [0] * 8,
}


CODES = {signal.SIGINT: -signal.SIGINT, signal.SIGTERM: 4}
INTERRUPTS = [
    ("twice within 2 ms", "SIGINT"),
    slow(("ten times", "SIGTERM"), "at other instants"),
    slow(("twice within 2 ms", "SIGTERM"), "at other instants"),
    slow(("four times", "SIGINT"), "at other instants"),
    slow(("four times", "SIGTERM"), "at other instants"),
    slow(("ten times", "SIGINT"), "at other instants"),
    slow(("in one moment", "SIGINT"), "at other instants"),
    slow(("in one moment", "SIGTERM"), "at other instants"),
]


@pytest.mark.parametrize("interrupt", INTERRUPTS, ids=" ".join)
@pytest.mark.both_cores
def test_whoever_is_interrupted_again_while_it_ends_loses_nothing(
    interrupt: tuple[str, str], tmp_path: Path
) -> None:
    burst, number = interrupt[0], signal.Signals[interrupt[1]]
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    for pause_ms in BURSTS_MS[burst]:
        time.sleep(pause_ms / 1e3)
        process.send_signal(number)
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode in (CODES[number], -number), (
        said
    )  # the latter: one came when no handler was left
    sidecar = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    assert sidecar["closed"], said
    assert sidecar["counters"] == {"accepted": 20_000, "written": 20_000, "dropped": 0, "pending": 0}
    assert len(rows(tmp_path / "timing-rank0.csv")) == 20_000


def test_an_interrupt_at_exit_reaches_the_programs_own_handler() -> None:
    run = run_python(
        """
        import signal
        from timing_logger.recording.lifecycle import interrupts_held_back
        came = []
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: came.append(number))
        before = signal.getsignal(signal.SIGINT)
        with interrupts_held_back():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            assert not came
        assert sorted(came) == [signal.SIGINT, signal.SIGTERM]
        assert signal.getsignal(signal.SIGINT) is before
        """
    )
    assert run.returncode == 0, run.stderr


ABRUPT = {
    "os._exit": ("os._exit(6)", 6),
    "SIGTERM without a handler": ("signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
}


@pytest.mark.parametrize(
    "way",
    [
        "an uncaught exception",
        "SIGTERM with a handler that exits",
        slow("SIGTERM with a handler that closes", "a handler that exits, and so closes, is tried"),
        slow("a thread that goes on", "a rarer end; it changes nothing about an uncaught exception"),
        slow("falling off the end", "an uncaught exception is tried"),
        slow("sys.exit", "a handler of SIGTERM that calls it is tried"),
        slow("SIGINT", "it is an uncaught exception, which is tried"),
    ],
)
@pytest.mark.both_cores
def test_a_healthy_exit_loses_nothing_and_keeps_the_exit_code(way: str, tmp_path: Path) -> None:
    last_act, code = HEALTHY[way]
    run = run_python(RECORD_1000 + last_act, tmp_path)
    assert run.returncode == code, run.stderr
    assert len(rows(tmp_path / "timing-rank0.csv")) == 1000
    sidecar = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    assert sidecar["closed"] is True
    assert sidecar["counters"] == {"accepted": 1000, "written": 1000, "dropped": 0, "pending": 0}


@pytest.mark.parametrize(
    "way",
    [
        "SIGKILL",
        slow("SIGTERM without a handler", "nothing of the process runs any more, as after SIGKILL"),
        slow("os._exit", "nothing of ours runs any more, as after SIGKILL"),
    ],
)
@pytest.mark.both_cores
def test_an_abrupt_end_keeps_what_was_flushed(way: str, tmp_path: Path) -> None:
    last_act, code = ABRUPT[way]
    run = run_python(RECORD_1000 + FLUSH + "logger.record_timing('LATE', 1.0)\n" + last_act, tmp_path)
    assert run.returncode == code, run.stderr
    assert len(rows(tmp_path / "timing-rank0.csv")) == 1000
    assert json.loads((tmp_path / "timing-rank0.meta.json").read_text())["closed"] is False


@pytest.mark.slow("what was flushed outlives SIGKILL, which is tried, and so any other abrupt end")
def test_mpi_abort_keeps_what_was_flushed_and_its_code(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py", reason="needs the extra mpi")
    run = run_python(
        RECORD_1000 + FLUSH + "from mpi4py import MPI; MPI.COMM_WORLD.Abort(9)",
        tmp_path,
        environment={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
    )
    assert run.returncode == 9, run.stderr
    assert len(rows(tmp_path / "timing-rank0.csv")) == 1000


CRASH_OF_ONE_RANK = (
    RECORD_1000.replace("init_timing_logger(0,", "init_timing_logger(MPI.COMM_WORLD.rank,")
    + "if MPI.COMM_WORLD.rank == 1: raise RuntimeError('training broke')\nMPI.COMM_WORLD.Barrier()\n"
)


def test_a_rank_that_crashes_and_takes_the_job_with_it_has_written_all_its_rows(tmp_path: Path) -> None:
    program = tmp_path / "crash.py"
    program.write_text("from mpi4py import MPI\n" + CRASH_OF_ONE_RANK)
    run = run_on_ranks(2, program, str(tmp_path / "logs"))
    assert run.returncode != 0
    assert "training broke" in run.stderr
    assert len(rows(tmp_path / "logs" / "timing-rank1.csv")) == 1000


@pytest.mark.serial
@pytest.mark.both_cores
def test_exit_does_not_wait_for_a_stalled_disk(tmp_path: Path) -> None:
    run = run_python(
        """
        import os, sys, time
        from timing_logger import TimingLogger
        from timing_logger.sinks.memory import MemorySink
        class Stalled(MemorySink):
            def write(self, batch, wall_offset_ns):
                os.read(gate, 1)  # nobody ever writes
        gate, key = os.pipe()
        logger = TimingLogger(0, log_dir=None, sinks=[Stalled()], flush_interval=0.001)
        logger.record_timing("A", 1.0)
        print(time.monotonic())
        """,
    )
    ended_s = time.monotonic()
    assert run.returncode == 0, run.stderr
    assert "gave up closing; 1 records were not written" in run.stderr
    assert ended_s - float(run.stdout) <= 2.5  # 2 s as promised, and the interpreter's own end


@pytest.mark.both_cores
def test_a_logger_gives_up_a_stalled_disk_once_however_often_it_is_closed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flusher, "CLOSE_GRACE_S", 0.2)
    sink = StalledSink()
    logger = TimingLogger(0, log_dir=None, sinks=[sink], flush_interval=0.001)
    logger.record_timing("A", 1.0)
    sink.stalled.wait()
    for _ in range(3):
        logger.close()
    assert caplog.text.count("gave up closing") == 1
    sink.resume()
    logger.close()


@pytest.mark.serial
@pytest.mark.both_cores
def test_close_takes_at_most_two_seconds_on_a_stalled_disk() -> None:
    sink = StalledSink()
    logger = TimingLogger(0, log_dir=None, sinks=[sink], flush_interval=0.001)
    logger.record_timing("A", 1.0)
    assert sink.stalled.wait(LIMIT_S)
    before_s = time.monotonic()
    logger.close()
    assert time.monotonic() - before_s <= 2.0
    assert logger.stats == (1, 0, 0, 1)
    sink.resume()


@pytest.mark.both_cores
def test_a_logger_that_gives_up_a_stalled_disk_says_in_its_sidecar_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalled, goes_on = threading.Event(), threading.Event()

    def stall(*_: object) -> None:
        stalled.set()
        goes_on.wait(LIMIT_S)

    monkeypatch.setattr(flusher, "CLOSE_GRACE_S", 0.2)
    monkeypatch.setattr(CsvSink, "write", stall)
    logger = TimingLogger(0, tmp_path, flush_interval=0.001)
    logger.record_timing("A", 1.0)
    assert stalled.wait(LIMIT_S)
    logger.record_timing("A", 1.0)
    logger.close()
    told = json.loads((tmp_path / "timing-rank0.meta.json").read_text())
    goes_on.set()
    assert told["counters"] == {"accepted": 2, "written": 0, "dropped": 0, "pending": 2}
    assert told["last_error"] == "gave up closing: 2 records were not written"
    assert told["closed"] is False


@pytest.mark.both_cores
def test_close_in_a_signal_handler_that_interrupts_close_does_not_deadlock() -> None:
    handled: list[int] = []
    closing = threading.get_ident()

    def close_again(number: int, _: object) -> None:
        logger.close()
        handled.append(number)

    class Slow(MemorySink):
        def write(self, batch: Sequence[RawRecord], wall_offset_ns: int) -> None:
            if not handled:
                signal.pthread_kill(closing, signal.SIGUSR1)
            time.sleep(0.05)
            super().write(batch, wall_offset_ns)

    logger = TimingLogger(0, log_dir=None, sinks=[Slow()], flush_interval=3600)
    for _ in range(2000):
        logger.record_timing("A", 1.0)
    before = signal.signal(signal.SIGUSR1, close_again)
    try:
        logger.close()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert signal.SIGUSR1 in handled
    assert logger.stats == (2000, 2000, 0, 0)

"""Faults in the recording process itself, such as signals and clock steps. (P1, P2, P10, P16, P17)"""

from __future__ import annotations

import builtins
import functools
import json
import threading
import time
from unittest import mock

from fault_programs import RECORDING_FINALIZERS, RECORDING_HANDLER
from processes import rows, run_python

from campaign.trial import Trial

_HOUR_NS = 3600 * 10**9


def _repeated(trial: Trial, program: str, arguments: tuple[object, ...] = ()) -> str:
    for number in range(trial.times(20, 1)):
        with trial.one(f"process {number}"):
            run = run_python(program, *arguments, timeout_s=120)
            assert run.returncode == 0, run.stderr
    return ""


handlers = functools.partial(_repeated, program=RECORDING_HANDLER, arguments=(500,))
finalizers = functools.partial(_repeated, program=RECORDING_FINALIZERS)


def threads(trial: Trial) -> str:
    """Record from sixteen threads into a queue of a thousand: all records are accounted for."""
    from timing_logger import TimingLogger
    from timing_logger.schema.timing_files import sidecar_path

    each = trial.times(100_000, 20_000)
    for number in range(trial.times(10, 1)):
        with trial.new_folder() as folder, trial.one(f"run {number}"):
            logger = TimingLogger(0, folder, maxsize=1000, flush_interval=0.001)

            def record(logger: TimingLogger = logger) -> None:
                for i in range(each):
                    logger.record_interval("A", i, i + 1)

            running = [threading.Thread(target=record) for _ in range(16)]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()
            logger.close()
            stats = logger.stats
            assert stats.accepted == 16 * each == stats.written + stats.dropped, stats
            assert stats.pending == 0
            assert logger.path is not None
            assert stats.written == len(rows(logger.path))
            assert json.loads(sidecar_path(logger.path).read_text())["counters"] == stats._asdict()
    return f"{each:,} records each"


def wall_clock(trial: Trial) -> str:
    """The wall clock is set, forth and back, within blocks and between them."""
    from timing_logger import TimingLogger
    from timing_logger.recording import clock

    for number in range(trial.times(200, 20)):
        step_ns = int(trial.chance(number).uniform(-24, 24) * _HOUR_NS)
        with trial.new_folder() as folder, trial.one(f"a step of {step_ns} ns"):
            with TimingLogger(0, folder, flush_interval=3600) as logger:
                before_ns = time.perf_counter_ns()
                stepped = mock.patch.object(clock, "unix_ns", lambda step=step_ns: time.time_ns() + step)
                with logger.record_mpi_operation("DURING"), stepped:
                    assert logger.flush()
                after_ns = time.perf_counter_ns()
            (row,) = rows(folder / "timing-rank0.csv")
            assert 0 <= float(row[7]) <= (after_ns - before_ns) / 1e6
            assert before_ns / 1e9 - 1e-3 <= float(row[8]) <= float(row[9]) <= after_ns / 1e9 + 1e-3
    return "what the logger reads is shifted; the machine's own clock is not changed"


def flushes(trial: Trial) -> str:
    """Check that after ``flush`` all records are in the file, even if the flush thread has died."""
    from test_flush import kill_flush_thread

    from timing_logger import TimingLogger

    for number in range(trial.times(50, 4)):
        with trial.new_folder() as folder, TimingLogger(0, folder, flush_interval=0.01) as logger:
            if number % 2:
                with mock.patch.object(threading, "excepthook"):
                    kill_flush_thread(logger)
            for n_rows in range(1, 21):
                with trial.one(f"flush {n_rows} of logger {number}"):
                    logger.record_timing("A", 1.0)
                    assert logger.flush()
                    assert logger.path is not None
                    assert len(rows(logger.path)) == n_rows
    return "every second one with a dead flush thread"


def exceptions(trial: Trial) -> str:
    """Raise every exception that Python has in a timed block: it passes unchanged, and the row names it."""
    from timing_logger import TimingLogger

    kinds = [
        kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, BaseException)
    ]
    with trial.new_folder() as folder, TimingLogger(0, folder) as logger:
        raised = []
        for kind in kinds:
            try:
                error = kind()
            except TypeError:  # Unicode errors and exception groups need arguments
                arguments = ("", [ValueError()]) if "Group" in kind.__name__ else ()
                error = kind.__new__(kind, *arguments)
            with trial.one(kind.__name__):
                caught = None
                try:
                    with logger.record_mpi_operation("A"):
                        raise error
                except BaseException as passed_on:
                    caught = passed_on
                assert caught is error
                raised.append(type(error).__name__)
        logger.flush()
        with trial.one("the rows"):
            assert logger.path is not None
            statuses = [row[16] for row in rows(logger.path)]
            assert statuses == [f"error:{name}" for name in raised], f"{statuses} for {raised}"
    return ""

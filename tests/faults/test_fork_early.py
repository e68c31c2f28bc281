"""P9: what a forked child does before this package's fork hook runs, or where no hook of Python ever runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S
from processes import rows, run_python

from timing_logger.reading.recovery import recover
from timing_logger.recording.cores import chosen as core

pytestmark = pytest.mark.both_cores
needs_native = pytest.mark.skipif(core.NAME != "native", reason="the Python core has no ring")

IN_A_CHILD = """
import os, signal, sys, time
def in_a_child(fork, do):
    pid = fork()
    if pid == 0:
        status = 1
        try:
            do()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
"""A program's beginning: ``in_a_child`` calls ``do`` in a child, which must end without an error."""

BEFORE_OUR_HOOK = (
    IN_A_CHILD
    + """
in_child = []
os.register_at_fork(after_in_child=lambda: [call() for call in in_child])  # before the package's own
from timing_logger import TimingLogger
logger = TimingLogger(0, sys.argv[1], flush_interval=3600)
def fork(child=lambda: None):
    in_a_child(os.fork, child)
def finish(expected):
    assert logger.flush()
    assert logger.stats == (expected, expected, 0, 0), logger.stats
    logger.close()
    assert logger.stats == (expected, expected, 0, 0), logger.stats
"""
)
"""A program's beginning: ``in_child`` is called in each child before any hook of the package."""

FORKED_IN_C = (
    IN_A_CHILD
    + """
import ctypes
from timing_logger import TimingLogger
def fork():
    sys.setswitchinterval(100)  # else the child might wait for ever for a thread that it does not have
    time.sleep(0.02)
    pid = ctypes.PyDLL(None).fork()  # as a library would: no hook of Python runs in the child
    if pid:
        sys.setswitchinterval(0.005)
    return pid
"""
)
"""A program's beginning, with a fork that Python does not know of."""


def run(program: str, folder: Path) -> None:
    done = run_python(program, folder)
    assert done.returncode == 0, done.stderr


def operations(folder: Path) -> list[str]:
    assert sorted(path.name for path in folder.iterdir()) == ["timing-rank0.csv", "timing-rank0.meta.json"]
    return [row[4] for row in rows(folder / "timing-rank0.csv")]


@pytest.mark.slow("a hook that records, flushes and closes is quick")
def test_a_record_of_an_earlier_fork_hook_leaves_the_parents_records_alone(tmp_path: Path) -> None:
    run(
        BEFORE_OUR_HOOK
        + """
in_child.append(lambda: [logger.record_timing("CHILD", 1.0) for _ in range(7)])
for n in range(20):
    for _ in range(20):
        logger.record_timing("PARENT", 1.0)
    fork()
finish(400)
""",
        tmp_path,
    )
    assert operations(tmp_path) == ["PARENT"] * 400


@pytest.mark.slow("records of fork hooks that come before ours; forks of programs are quick in test_fork.py")
def test_a_record_with_metadata_of_an_earlier_fork_hook_does_not_stop_the_parents_flush_thread(
    tmp_path: Path,
) -> None:
    run(
        BEFORE_OUR_HOOK
        + """
in_child.append(lambda: logger.record_interval("CHILD", 1, 2, metadata={"a": 1}))
for n in range(10):
    logger.record_timing("PARENT", 1.0)
    fork()
    logger.record_timing("PARENT", 1.0)
finish(20)
""",
        tmp_path,
    )
    assert operations(tmp_path) == ["PARENT"] * 20


@pytest.mark.slow("records of fork hooks that come before ours; forks of programs are quick in test_fork.py")
def test_finalizers_that_record_in_thirty_children_leave_the_parents_records_alone(
    tmp_path: Path,
) -> None:
    run(
        BEFORE_OUR_HOOK
        + """
import gc
class Recorded:
    def __init__(self): self.itself = self
    def __del__(self): logger.record_timing("FINALIZED", 1.0)
gc.freeze()  # in each child the collector looks at what is new
def collect():
    Recorded()
    gc.collect()
in_child.append(collect)
for n in range(30):
    logger.record_timing("PARENT", 1.0)
    fork()
finish(30)
""",
        tmp_path,
    )
    assert operations(tmp_path) == ["PARENT"] * 30


@pytest.mark.slow("records of fork hooks that come before ours; forks of programs are quick in test_fork.py")
def test_an_operation_of_the_parent_that_ends_in_an_earlier_fork_hook_stays_open_in_the_parent(
    tmp_path: Path,
) -> None:
    run(
        BEFORE_OUR_HOOK
        + """
from timing_logger.recording.cores.chosen import BackgroundSpan
from timing_logger.recording.cores.python.calls import CollectiveCount
class Group(CollectiveCount):
    name, size = "world", 2
span, _ = logger.issue_call(BackgroundSpan, "ISEND", 8, None, None, Group(), True, True, lambda: None, ())
in_child.append(lambda: span.end(None))
fork()
span.end(None)
finish(1)
""",
        tmp_path,
    )
    assert operations(tmp_path) == ["ISEND"]


def test_flush_and_close_in_an_earlier_fork_hook_neither_hang_nor_write(tmp_path: Path) -> None:
    run(
        BEFORE_OUR_HOOK
        + """
import threading, time
def use():
    logger.record_timing("CHILD", 1.0)
    began_s = time.monotonic()
    assert logger.flush(60)
    logger.flush_soon()
    logger.close()
    assert time.monotonic() - began_s < 30
in_child.append(use)
def child():
    assert [thread.name for thread in threading.enumerate()] == ["MainThread"], threading.enumerate()
    assert logger.flush(60) and logger.stats.written == logger.stats.pending == 0
for n in range(4):
    logger.record_timing("PARENT", 1.0)
    fork(child)
finish(4)
""",
        tmp_path,
    )
    assert operations(tmp_path) == ["PARENT"] * 4


@pytest.mark.slow("that what such a child records is in no file is quick")
@needs_native
def test_what_a_child_records_before_the_hook_counts_as_dropped_there(tmp_path: Path) -> None:
    run(
        BEFORE_OUR_HOOK
        + """
in_child.append(lambda: [logger.record_timing("CHILD", 1.0) for _ in range(3)])
def child():
    logger.record_timing("CHILD", 1.0)
    assert logger.stats == (4, 0, 4, 0), logger.stats
for n in range(5):
    logger.record_timing("PARENT", 1.0)
fork(child)
finish(5)
""",
        tmp_path,
    )


@pytest.mark.slow("records of fork hooks that come before ours; forks of programs are quick in test_fork.py")
def test_a_child_forked_in_c_that_goes_on_in_python_writes_nothing_and_ends(tmp_path: Path) -> None:
    run(
        FORKED_IN_C
        + """
logger = TimingLogger(0, sys.argv[1], flush_interval=3600)
def go_on():
    for _ in range(5):
        logger.record_timing("CHILD", 1.0)
        logger.record_interval("CHILD", 1, 2, metadata={"a": 1})
    assert logger.flush(60)
    logger.close()
    assert logger.stats.written == logger.stats.pending == 0, logger.stats
for n in range(20):
    logger.record_timing("PARENT", 1.0)
    in_a_child(fork, go_on)
logger.close()
assert logger.stats == (20, 20, 0, 0), logger.stats
""",
        tmp_path,
    )
    assert operations(tmp_path) == ["PARENT"] * 20


@needs_native
def test_a_killed_process_can_be_recovered_while_its_child_forked_in_c_lives(tmp_path: Path) -> None:
    program = (
        FORKED_IN_C
        + """
logger = TimingLogger(0, sys.argv[1], flush_interval=3600)
for _ in range(500):
    logger.record_timing("PARENT", 1.0)
pid = fork()
if pid == 0:
    signal.pause()
print(pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert parent.wait(LIMIT_S) == -signal.SIGKILL
            recover(tmp_path)
            assert operations(tmp_path) == ["PARENT"] * 500
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.slow("records of fork hooks that come before ours; forks of programs are quick in test_fork.py")
def test_sigterm_to_a_child_forked_in_c_does_not_end_the_parent(tmp_path: Path) -> None:
    run(
        FORKED_IN_C
        + """
logger = TimingLogger(0, sys.argv[1], flush_interval=3600, handle_sigterm=True)
pid = fork()
if pid == 0:
    os.kill(os.getpid(), signal.SIGTERM)  # nobody in this process listens
    os._exit(0)
os.waitpid(pid, 0)
logger.record_timing("PARENT", 1.0)
time.sleep(0.5)  # for a signal that must not come
logger.close()
""",
        tmp_path,
    )
    assert operations(tmp_path) == ["PARENT"]

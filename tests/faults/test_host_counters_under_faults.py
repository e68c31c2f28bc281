"""The file of counters under real causes and real faults: contention, reads, kills, forks, full disks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from conditions import wait_for
from limits import LIMIT_S
from processes import run_python, run_warm

from timing_logger import read_host_counters, read_timings
from timing_logger.schema.host_counters import HEADER

RECORDING = """
import os, sys, time
from functools import partial
from timing_logger import TimingLogger
from timing_logger.recording.watchers import host_sampler as start
interval_s = float(os.environ.get("INTERVAL_S", 0.05))
start.HostSampler = partial(start.HostSampler, interval_s=interval_s)
logger = TimingLogger(0, sys.argv[1], host_counters=True)
def lines():
    return logger._samplers[0].info().lines
def until(n_lines):
    while lines() < n_lines:
        time.sleep(0.005)
"""


@contextmanager
def recording(program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", RECORDING + program, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def n_lines(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


def sound(folder: Path) -> pd.DataFrame:
    """Return the counters; all lines must be whole."""
    data = (folder / "host-rank0.csv").read_bytes()
    assert data.startswith(HEADER.encode())
    assert data.endswith(b"\n")
    table = read_host_counters(folder)
    assert len(table) == data.count(b"\n") - 1
    return table


# -- real causes ------------------------------------------------------------------------------------------

TWO_ON_A_CORE = """
os.sched_setaffinity(os.getpid(), {int(sys.argv[2])})
until(1)
while lines() < 12:
    pass
logger.close()
"""


BURNING = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print("ready", flush=True)
while True:
    pass
"""


@pytest.mark.slow("test_process_counters.py of tests/recording/watchers has how waits for a processor add up")
@pytest.mark.serial  # it needs a core of which it knows who shares it
def test_two_busy_processes_on_one_core_each_wait_for_it_half_of_the_time(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    burn = [sys.executable, "-c", BURNING, str(core)]
    with subprocess.Popen(burn, stdout=subprocess.PIPE, text=True) as burner:
        assert burner.stdout is not None
        burner.stdout.readline()
        try:
            with recording(TWO_ON_A_CORE, tmp_path, core) as process:
                assert process.wait(LIMIT_S) == 0
        finally:
            burner.kill()
    table = sound(tmp_path)
    spans_us = 1e6 * (table["end_counter"] - table["start_counter"]).sum()
    waited_us = table["main_run_queue_wait_us"].sum()
    assert 0.25 < waited_us / spans_us < 0.9
    assert table["run_queue_wait_us"].sum() >= waited_us
    assert table["involuntary_switches"].sum() > 0
    assert set(table["usable_cores"].dropna()) <= {1.0, float(len(os.sched_getaffinity(0)))}


READING_A_FILE = """
until(1)
with open(sys.argv[2], "rb", buffering=0) as file:
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    while file.read(2**20):
        pass
until(lines() + 2)
logger.close()
"""


MEGABYTES = 16


@pytest.mark.slow("one more fault of counters; a kill and a forked child are quick")
def test_what_a_process_reads_from_a_disk_is_in_its_lines(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        for _ in range(MEGABYTES):
            file.write(os.urandom(2**20))
        os.fsync(file.fileno())
    with recording(READING_A_FILE, tmp_path / "logs", large) as process:
        assert process.wait(LIMIT_S) == 0
    read_kb = sound(tmp_path / "logs")["process_read_kb"].sum()
    if read_kb == 0:
        pytest.skip("the file was not read from a disk: its file system is in memory, or keeps it there")
    assert read_kb >= MEGABYTES * 2**20 // 1000 - 1


# -- faults -----------------------------------------------------------------------------------------------


def test_a_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    with recording("until(10**9)", tmp_path) as process:
        wait_for(lambda: n_lines(tmp_path / "host-rank0.csv") > 5)
        process.send_signal(signal.SIGKILL)
        assert process.wait(LIMIT_S) == -signal.SIGKILL
    assert len(sound(tmp_path)) >= 5


@pytest.mark.slow("that a line continues where the last one ended is quick, also after a time without one")
def test_a_stop_makes_one_line_of_the_time_in_which_the_process_stood_still(tmp_path: Path) -> None:
    file = tmp_path / "host-rank0.csv"
    with recording("sys.stdin.readline()\nlogger.close()", tmp_path) as process:
        wait_for(lambda: n_lines(file) > 2)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        before, stopped_s = n_lines(file), time.perf_counter()
        wait_for(lambda: time.perf_counter() - stopped_s >= 0.6)
        assert n_lines(file) == before
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: n_lines(file) > before + 2)
        process.communicate("\n", timeout=LIMIT_S)
    table = sound(tmp_path)
    spans_s = table["end_counter"] - table["start_counter"]
    assert spans_s.max() >= 0.5
    assert (spans_s > 0.5).sum() == 1
    assert table["start_counter"].tolist()[1:] == table["end_counter"].tolist()[:-1]


FORKING = """
until(2)
child = os.fork()
if not child:
    import threading
    assert not logger._samplers, logger._samplers
    logger.close()
    os._exit(len([one for one in threading.enumerate() if "timing-logger" in one.name]))
_, status = os.waitpid(child, 0)
until(lines() + 2)
logger.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_forked_child_writes_no_line_and_its_parent_goes_on(tmp_path: Path) -> None:
    done = run_python(RECORDING + FORKING, tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.glob("host-*")] == ["host-rank0.csv"]
    table = sound(tmp_path)
    assert table["start_counter"].tolist()[1:] == table["end_counter"].tolist()[:-1]


FULL = """
import resource
until(2)
size = os.stat(sys.argv[1] + "/host-rank0.csv").st_size
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, most))
while logger._samplers[0].info().failed < 3:
    time.sleep(0.005)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
until(lines() + 2)
logger.close()
"""


@pytest.mark.slow(
    "test_host_sampler.py of tests/recording/watchers has a file that cannot be written for a while"
)
def test_what_does_not_fit_onto_a_disk_is_part_of_the_first_line_that_fits_again(tmp_path: Path) -> None:
    done = run_warm(RECORDING + FULL, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("host counters could not be written") == 1
    table = sound(tmp_path)
    assert table["start_counter"].tolist()[1:] == table["end_counter"].tolist()[:-1]
    assert (table["end_counter"] - table["start_counter"]).max() > 0.15


REMOVED = """
import shutil
until(2)
shutil.rmtree(sys.argv[1])
while not os.path.exists(sys.argv[1] + "/host-rank0.part2.csv"):
    time.sleep(0.005)
logger.close()
"""


@pytest.mark.slow("tests/recording/test_file_beside.py removes the folder of such a file")
def test_a_removed_folder_costs_the_lines_that_were_in_it_and_no_others(tmp_path: Path) -> None:
    done = run_warm(RECORDING + REMOVED, tmp_path / "logs")
    assert done.returncode == 0, done.stderr
    assert "host-rank0.csv was deleted" in done.stderr
    assert done.stderr.count("the file of host counters") == 1
    assert (tmp_path / "logs" / "host-rank0.part2.csv").read_text().startswith(HEADER)


@pytest.mark.slow("one more fault of counters; a kill and a forked child are quick")
def test_a_second_process_of_a_rank_writes_beside_the_files_of_the_first(tmp_path: Path) -> None:
    for _ in range(2):
        assert run_warm(RECORDING + "until(2)\nlogger.close()", tmp_path).returncode == 0
    assert sorted(path.name for path in tmp_path.glob("host-*")) == [
        "host-rank0.csv",
        "host-rank0.run2.csv",
    ]
    assert set(read_host_counters(tmp_path, incarnations="all")["incarnation"]) == {1, 2}


@pytest.mark.slow("one more fault of counters; a kill and a forked child are quick")
def test_lines_take_at_most_200_bytes_each_on_this_host(tmp_path: Path) -> None:
    assert run_warm(RECORDING + "until(20)\nlogger.close()", tmp_path).returncode == 0
    text = (tmp_path / "host-rank0.csv").read_text()
    lines = text.removeprefix(HEADER).splitlines(keepends=True)
    assert sum(map(len, lines)) / len(lines) <= 200


SWITCHED_OFF = """
import sys, threading
from timing_logger import TimingLogger
for options in ({}, {"enabled": False, "host_counters": True}, {"ranks": [1], "host_counters": True}):
    with TimingLogger(0, sys.argv[1], **options):
        assert "timing-logger-host" not in [one.name for one in threading.enumerate()]
"""


@pytest.mark.slow("test_host_sampler.py of tests/recording/watchers has loggers for which it is off")
def test_where_it_is_off_there_is_neither_a_thread_nor_a_file(tmp_path: Path) -> None:
    done = run_warm(SWITCHED_OFF, tmp_path / "logs")
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("host-*"))
    assert len(read_timings(tmp_path / "logs")) == 0

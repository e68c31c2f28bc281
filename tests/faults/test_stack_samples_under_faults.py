"""The file of stack samples under real faults: kills, full disks, removed folders, and two at once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from limits import LIMIT_S
from processes import run_python

from timing_logger import read_stack_samples
from timing_logger.schema.timing_files import HEADER

SAMPLING = """
import os, signal, sys, time
from functools import partial
from timing_logger import TimingLogger
from timing_logger.recording.watchers import stack_sampler as sampler
sampler.StackSampler = partial(sampler.StackSampler, interval_s=0.01)
logger = TimingLogger(0, sys.argv[1], stack_samples=True)
def info():
    return logger._samplers[0].info()
def until(is_so):
    while not is_so():
        time.sleep(0.002)
until(lambda: info().lines >= 10)
"""

FULL = """
import resource
size = os.stat(sys.argv[1] + "/stacks-rank0.csv").st_size
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, most))
until(lambda: logger._samplers[0]._thread.failed >= 3)
"""


def samples(folder: Path) -> pd.DataFrame:
    """Return the samples, whose file has nothing but whole lines up to the last."""
    table = read_stack_samples(folder)
    assert [file["bad_lines"] for file in table.attrs["files"]] == [0] * len(table.attrs["files"])
    assert table["counter"].is_monotonic_increasing
    return table


def test_a_kill_leaves_what_was_written_and_whole_lines(tmp_path: Path) -> None:
    done = run_python(SAMPLING + "os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    assert done.returncode == -signal.SIGKILL
    assert len(samples(tmp_path)) >= 10


@pytest.mark.slow("one more fault of samples; a kill is quick")
def test_what_does_not_fit_onto_a_disk_is_written_when_it_fits_again(tmp_path: Path) -> None:
    again = """
before = info().lines
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
until(lambda: info().lines > before)
logger.close()
print(info().lines, info().lost)
"""
    done = run_python(SAMPLING + FULL + again, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("stack samples could not be written") == 1
    lines, lost = map(int, done.stdout.split())
    assert (len(samples(tmp_path)), lost) == (lines, 0)


@pytest.mark.slow("one more fault of samples; a kill is quick")
def test_a_kill_while_the_disk_is_full_leaves_what_had_fitted(tmp_path: Path) -> None:
    done = run_python(SAMPLING + FULL + "os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    assert done.returncode == -signal.SIGKILL
    assert len(samples(tmp_path)) >= 10


@pytest.mark.slow("one more fault of samples; a kill is quick")
def test_after_its_folder_was_removed_it_goes_on_in_a_new_one(tmp_path: Path) -> None:
    removed = """
import shutil
shutil.rmtree(sys.argv[1])
until(lambda: os.path.exists(sys.argv[1] + "/stacks-rank0.part2.csv"))
logger.close()
"""
    done = run_python(SAMPLING + removed, tmp_path / "logs")
    assert done.returncode == 0, done.stderr
    assert "stacks-rank0.csv was deleted" in done.stderr
    assert (tmp_path / "logs" / "stacks-rank0.part2.csv").read_text().startswith(HEADER)


@pytest.mark.slow("one more fault of samples; a kill is quick")
def test_c_code_that_keeps_the_lock_delays_a_sample_and_nothing_else(tmp_path: Path) -> None:
    locked = """
before = info().lines
def keep():
    return 7 ** 700_000 % 11
keep()
until(lambda: info().lines > before)
logger.close()
"""
    done = run_python(SAMPLING + locked, tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(samples(tmp_path)["function"]) <= {"<module>", "until", "info", "<lambda>", "keep"}


@pytest.mark.slow("one more fault of samples; a kill is quick")
def test_a_program_that_fails_ends_as_it_would(tmp_path: Path) -> None:
    plain = subprocess.run([sys.executable, "-c", "1 / 0"], capture_output=True, timeout=LIMIT_S, text=True)
    done = run_python(SAMPLING + "1 / 0", tmp_path)
    assert done.returncode == plain.returncode
    assert done.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
    assert len(samples(tmp_path)) >= 10

"""Disks that are full, read-only or gone, and errors of every kind. (P2, P6, P12)"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path

from fault_programs import FILE_SIZE_LIMIT
from processes import rows, run_job, run_python

from campaign.injected import ERRORS, in_writes, windows_of_errors
from campaign.trial import Trial, Untried

_EXIT_CODE = 3
_LIMIT_S = 60.0

_FULL = """
import os, subprocess, sys
from timing_logger import TimingLogger
folder, ballast_bytes = sys.argv[1], int(sys.argv[2])
logger = TimingLogger(0, folder, flush_interval=0.05)
with open(folder + "/ballast", "wb") as file:
    file.write(bytes(ballast_bytes))
for i in range(3000):
    logger.record_timing("A", 1.0, iteration=i)
assert not logger.flush(1.0), "P10: flush said that a full disk took everything"
subprocess.run(["mount", "-o", "remount,size=16m", folder], check=True)
for i in range(3000, 6000):
    logger.record_timing("A", 1.0, iteration=i)
assert logger.flush(20), "there is room again"
sys.exit(3)
"""

_READ_ONLY = """
import subprocess, sys
from timing_logger import TimingLogger
from timing_logger.errors import LogPathError
subprocess.run(["mount", "-o", "remount,ro", sys.argv[1]], check=True)
try:
    TimingLogger(0, sys.argv[1])
except LogPathError as error:
    print(error)
    sys.exit(3)
"""

_GONE = """
import os, shutil, subprocess, sys, time
from timing_logger import TimingLogger
folder, way = sys.argv[1:]
logger = TimingLogger(0, folder + "/logs", flush_interval=0.05)
def record(first):
    for i in range(first, first + 1000):
        logger.record_timing("A", 1.0, iteration=i)
record(0)
assert logger.flush(10)
if way == "unmounted":
    subprocess.run(["umount", "-l", folder], check=True)
else:
    for attempt in range(100):  # a sidecar may be written meanwhile
        try:
            shutil.rmtree(folder + "/logs")
            break
        except OSError:
            time.sleep(0.001)
    else:
        raise AssertionError("the folder cannot be removed")
record(1000)
logger.flush(2)
logger.close()
print("STATS", *logger.stats)
sys.exit(3)
"""

_ERRORS = """
import sys, time
from timing_logger import TimingLogger
logger = TimingLogger(0, sys.argv[1], flush_interval=0.01)
for i in range(3000):
    logger.record_timing("A", 1.0, iteration=i)
    if i % 100 == 0:
        time.sleep(0.01)
sys.exit(3)
"""


def full_disk(trial: Trial) -> str:
    """Record on a tmpfs of 64 KiB that is filled, and then made larger."""
    for number in range(trial.times(20, 2)):
        ballast_bytes = trial.chance(number).randrange(
            40_000
        )  # the logger's own files need some pages to begin with
        with trial.new_folder() as folder, trial.one(f"{ballast_bytes} bytes were there before"):
            run = _on_tmpfs(folder, _FULL, ballast_bytes, size="64k")
            assert run.returncode == _EXIT_CODE, run.stderr
            found = rows(folder / "kept" / "timing-rank0.csv")
            assert [int(row[1]) for row in found] == list(range(6000))
            _check_sums(folder / "kept", 6000, len(found))
    return ""


def size_limit(trial: Trial) -> str:
    """Record under a limit on the file's size (``ulimit -f``), which is lifted before the end or not."""
    for number in range(trial.times(20, 2)):
        way = ("freed", "full")[number % 2]
        with trial.new_folder() as folder, trial.one(way):
            run = run_python(FILE_SIZE_LIMIT, folder, way)
            assert run.returncode == _EXIT_CODE, run.stderr
            found = [int(row[1]) for row in rows(folder / "timing-rank0.csv")]
            assert found == list(range(3000 if way == "freed" else len(found)))
            _check_sums(folder, 3000, len(found))
    return ""


def read_only(trial: Trial) -> str:
    """Check that a read-only file system is refused at construction; for a later one see EROFS."""
    for number in range(trial.times(20, 1)):
        with trial.new_folder() as folder, trial.one(f"mount {number}"):
            run = _on_tmpfs(folder, _READ_ONLY)
            assert run.returncode == _EXIT_CODE, run.stderr
            assert "Read-only file system" in run.stdout
    return "a file system with a file open for writing cannot be made read-only; for that case see EROFS"


def gone(trial: Trial, way: str) -> str:
    """Check that every row that the logger counts as written is found after its folder has gone.

    Args:
        trial: the campaign under way.
        way: ``unmounted`` or ``removed``.
    """
    for number in range(trial.times(20, 1)):
        with trial.new_folder() as folder, trial.one(f"{way} {number}"):
            run = _on_tmpfs(folder, _GONE, way)
            assert run.returncode == _EXIT_CODE, run.stderr
            accepted, written, dropped, pending = map(int, run.stdout.split("STATS ")[1].split())
            assert accepted == written + dropped + pending == 2000
            files = sorted((folder / "kept").rglob("*.csv"))
            n_found = sum(len(rows(path)) for path in files)
            assert n_found == written, f"{written} rows are said to be written, {n_found} are there"
    return ""


unmounted = functools.partial(gone, way="unmounted")
removed = functools.partial(gone, way="removed")


def errors(trial: Trial) -> str:
    """Have some writes of the file, or all from one on, end with an error."""
    for error, window in windows_of_errors(trial, trial.times(20, 1), first_before=12, most=8):
        with trial.new_folder() as folder, trial.one(f"{error} in writes {window}"):
            file = folder / "timing-rank0.csv"
            failing = in_writes(file, f"error={error}:when={window}")
            command = [*failing, sys.executable, "-c", _ERRORS, folder]
            run = run_job(command, environment={}, limit_s=_LIMIT_S, name=error)
            assert run.returncode == _EXIT_CODE, run.stderr
            found = [int(row[1]) for row in rows(file)]
            assert found == list(range(3000 if window[-1] != "+" else len(found)))
            _check_sums(folder, 3000, len(found))
    return ", ".join(ERRORS)


def _check_sums(folder: Path, recorded: int, n_rows: int) -> None:
    sidecar = json.loads((folder / "timing-rank0.meta.json").read_text())
    counters = {"accepted": recorded, "written": n_rows, "dropped": recorded - n_rows, "pending": 0}
    assert sidecar["counters"] == counters, f"{sidecar['counters']} and not {counters}"


def _on_tmpfs(
    folder: Path, program: str, *arguments: object, size: str = "16m"
) -> subprocess.CompletedProcess[str]:
    """Run ``program`` with a tmpfs of its own; at its end the content is copied to ``kept``."""
    mounted, kept = folder / "mounted", folder / "kept"
    mounted.mkdir()
    script = (
        f'mount -t tmpfs -o size={size} none "$1" || exit 99; '
        '"$0" -c "$3" "$1" $4; status=$?; cp -r "$1" "$2"; exit $status'
    )
    command = [*_own_mounts(), "sh", "-c", script, sys.executable, mounted, kept, program,
               " ".join(map(str, arguments))]  # fmt: skip
    run = run_job(command, environment={}, limit_s=_LIMIT_S, name="a program on a tmpfs")
    if run.returncode == 99:
        raise Untried(f"no tmpfs can be mounted here: {run.stderr.strip()}")
    return run


@functools.cache
def _own_mounts() -> list[str]:
    """Return the command prefix that runs a command with mounts of its own, which end with it."""
    for command in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        if shutil.which("unshare") and not subprocess.run([*command, "true"], capture_output=True).returncode:
            return command
    raise Untried("no mount of its own is permitted here")

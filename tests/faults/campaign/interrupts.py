"""Presses Ctrl-C, once and several times, at any instant of a run and of its end. (P11)"""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from array import array
from pathlib import Path

from conditions import wait_for
from kill_campaign import ALLOWED_S
from limits import LIMIT_S
from processes import rows

from campaign.trial import Trial, Untried

PAUSES_MS = {"once": [], "twice": [2.0], "four times": [3.0, 3.0, 3.0]}

_RUN_S = 0.3

_PROGRAM = """
import mmap, signal, sys, time
from timing_logger import init_timing_logger
signal.signal(signal.SIGINT, signal.default_int_handler)
with open(sys.argv[2], "r+b") as file:
    shared = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
logger = init_timing_logger(0, sys.argv[1], flush_interval=0.2)
until_s, i = time.monotonic() + float(sys.argv[3]), 0
print("ready", flush=True)
while time.monotonic() < until_s:
    logger.record_timing("A", 1.0, iteration=i)
    i += 1
    shared[0] = i
    time.sleep(0.0001)
shared[1] = 1
"""


def interrupts(trial: Trial, burst: str) -> str:
    """Check that an interrupt loses no row whose call had returned, and leaves the file closed.

    The exit code is that of the interrupt, or 0 if the run was over already.
    """
    for number in range(trial.times(60, 4)):
        chance = trial.chance(number)
        after_s = chance.uniform(0, 1.5 * _RUN_S)
        with trial.new_folder() as folder, trial.one(f"{after_s:.4f} s after the first row"):
            shared = folder / "shared"
            shared.write_bytes(bytes(16))
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, folder / "logs", shared, str(_RUN_S)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            was_over, said = _interrupted(process, shared, after_s, burst, chance)
            codes = (0, -signal.SIGINT) if was_over else (-signal.SIGINT,)
            assert process.returncode in codes, f"exit code {process.returncode}: {said}"
            acknowledged = array("q", shared.read_bytes())[0]
            found = [int(row[1]) for row in rows(folder / "logs" / "timing-rank0.csv")]
            assert found == list(range(len(found)))
            assert acknowledged <= len(found) <= acknowledged + 1, (
                f"{len(found)} of {acknowledged} rows: {said}"
            )
            sidecar = json.loads((folder / "logs" / "timing-rank0.meta.json").read_text())
            assert sidecar["closed"] is True, said
            assert sidecar["counters"]["written"] == len(found)
    return ""


def _interrupted(
    process: subprocess.Popen[str], shared: Path, after_s: float, burst: str, chance: random.Random
) -> tuple[bool, str]:
    """Interrupt the process; return whether its run was over at the first interrupt, and its stderr."""
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(after_s)
        was_over = array("q", shared.read_bytes())[1] == 1
        process.send_signal(signal.SIGINT)
        for pause_ms in PAUSES_MS[burst]:
            time.sleep(chance.uniform(0, pause_ms) / 1e3)
            process.send_signal(signal.SIGINT)
        return was_over, process.communicate(timeout=LIMIT_S)[1]
    finally:
        process.kill()
        process.wait()


once = functools.partial(interrupts, burst="once")
twice = functools.partial(interrupts, burst="twice")
four_times = functools.partial(interrupts, burst="four times")

_MPI_INTERVAL_S = 0.4

_MPI_PROGRAM = """
import mmap, sys, time
from mpi4py import MPI
from timing_logger import init_timing_logger
rank = MPI.COMM_WORLD.rank
with open(f"{sys.argv[2]}{rank}", "r+b") as file:
    returned_ns = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
logger = init_timing_logger(rank, sys.argv[1], flush_interval=float(sys.argv[3]))
for i in range(len(returned_ns)):
    logger.record_timing("A", 1.0, iteration=i)
    returned_ns[i] = time.perf_counter_ns()
    time.sleep(0.001)
"""


def mpiexec(trial: Trial) -> str:
    """Interrupt ``mpiexec``, which kills its ranks: as after SIGKILL only the latest rows may be missing."""
    from mpi_runner import OPEN_MPI

    launcher = Path(sys.executable).parent / "mpiexec"
    if not launcher.exists():
        raise Untried("no mpiexec next to this Python")
    for number in range(trial.times(10, 1)):
        after_s = trial.chance(number).uniform(1.0, 2.5)
        with trial.new_folder() as folder, trial.one(f"job {number}, {after_s:.3f} s after the first row"):
            for rank in range(2):
                (folder / f"shared{rank}").write_bytes(bytes(8 * 20_000))
            arguments = [folder / "logs", folder / "shared", _MPI_INTERVAL_S]
            command = [launcher, "-n", 2, sys.executable, "-m", "mpi4py", "-c", _MPI_PROGRAM, *arguments]
            first_ns = _interrupt_job(list(map(str, command)), OPEN_MPI, folder, after_s)
            for rank in range(2):
                _check_rank(folder, rank, first_ns)
    return "the files need not be closed, since mpiexec does not forward the interrupt"


def _interrupt_job(command: list[str], environment: dict[str, str], folder: Path, after_s: float) -> int:
    """Run and interrupt a job; return when the interrupt was sent, on the ``perf_counter`` axis in ns."""
    with (folder / "output.txt").open("wb") as output:
        job = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=output, stderr=output, start_new_session=True
        )
    try:
        wait_for(
            lambda: all(any((folder / f"shared{rank}").read_bytes()[:8]) for rank in range(2)),
            lambda: f"the begin of the job, which said {(folder / 'output.txt').read_text()}",
            by=job,
        )
        time.sleep(after_s)
        sent_ns = time.perf_counter_ns()
        job.send_signal(signal.SIGINT)
        job.wait(timeout=LIMIT_S)
        return sent_ns
    finally:
        job.kill()
        job.wait()


def _check_rank(folder: Path, rank: int, sent_ns: int) -> None:
    from timing_logger import read_timings

    returned_ns = array("q", (folder / f"shared{rank}").read_bytes())
    due_ns = sent_ns - int((_MPI_INTERVAL_S + ALLOWED_S) * 1e9)
    n_due = sum(1 for instant in returned_ns if 0 < instant < due_ns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = read_timings(folder / "logs" / f"timing-rank{rank}.csv")
    assert found["iteration"].tolist() == list(range(len(found)))
    assert len(found) >= n_due, f"rank {rank}: {len(found)} of {n_due} rows"

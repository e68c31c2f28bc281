"""Whole CI jobs, as ``docs/compare.md`` has them: both branches recorded in turn, and compared.

The pull request of a job either adds ``time.sleep(0.002)`` to each step of a training, or changes a comment.
What counts is the exit code of the job.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]
RANKS, RUNS = 2, 5
_COMMENT = "        # the mean of all ranks\n"
CHANGES = {
    "sleep": f"{_COMMENT}        time.sleep(0.002)\n",
    "comment": "        # summed over all ranks; the step below divides by their number\n",
}
"""What the line of the program becomes that a pull request changes."""

_SAID = {
    "sleep": "adds `time.sleep(0.002)` to each step",
    "comment": "changes a comment",
}
_WANTED = {"sleep": 1, "comment": 0}
_LIMIT_S = 120.0
_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_osc": "^ucx",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}  # fmt: skip


class Job(NamedTuple):
    """How a job ended.

    Attributes:
        change: what its pull request changes, one of ``CHANGES``.
        exit_code: that of ``timing-logger compare --fail-on regressed``: 1 is red.
        verdict, basis: what it said: the verdict, and whether the step or its parts show it.
        step_ms: how long a step of the branch before took.
        spread: how far equal runs lie apart, as a fraction.
        took_s: how long the job took.
        load: how many processes of the machine ran or waited for a processor, on average over the last
            minute of the job (``os.getloadavg``); its own are among them.
    """

    change: str
    exit_code: int
    verdict: str
    basis: str
    step_ms: float
    spread: float
    took_s: float
    load: float


def jobs(folder: Path, n_jobs: int) -> list[Job]:
    """Return so many jobs of each change, in turn; those that the folder keeps are not run again."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "jobs.jsonl"
    found = _kept(kept)
    for _ in range(n_jobs):
        for change in CHANGES:
            if sum(one.change == change for one in found) < n_jobs:
                found.append(_job(change))
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found[-1]._asdict()) + "\n")
    return found


def _kept(path: Path) -> list[Job]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [Job(**json.loads(line)) for line in lines]


def _job(change: str) -> Job:
    """Run a job: record each branch five times, in turn, and compare."""
    began_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_branches(folder, change)
        for run in range(1, RUNS + 1):
            for branch in ("before", "after"):
                _record(folder, branch, run)
        done = _compare(folder)
        shutil.rmtree(folder / "logs")
    told = json.loads(done.stdout) if done.returncode in (0, 1) else {}
    step = told.get("step", {})
    return Job(
        change, done.returncode, told.get("verdict", done.stderr[-200:]), told.get("basis", ""),
        step.get("against_ms", 0.0), step.get("spread") or 0.0, time.perf_counter() - began_s,
        os.getloadavg()[0],
    )  # fmt: skip


def write_branches(folder: Path, change: str) -> None:
    """Write the program of both branches: ``before/train.py``, and ``after/train.py`` with the change."""
    text = (ROOT / "benchmarks/compare_runs/branch.py").read_text(encoding="utf-8")
    if text.count(_COMMENT) != 1:
        raise ValueError(f"branch.py has no line of its own that is {_COMMENT.strip()!r}")
    for branch, its in (("before", text), ("after", text.replace(_COMMENT, CHANGES[change]))):
        (folder / branch).mkdir()
        (folder / branch / "train.py").write_text(its, encoding="utf-8")


def _record(folder: Path, branch: str, run: int) -> None:
    job = ["mpiexec", "-n", str(RANKS), sys.executable, "-m", "mpi4py", "train.py"]
    arguments = ["run", "--quiet", "--log-dir", f"../logs/{branch}/run{run}", "--", *job]
    _timing_logger(arguments, folder / branch).check_returncode()


def _compare(folder: Path) -> subprocess.CompletedProcess[str]:
    sides = ["logs/after", "--against", "logs/before"]
    return _timing_logger(
        ["compare", *sides, "--max-regression", "3%", "--fail-on", "regressed", "--json"], folder
    )


def _timing_logger(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ, **_MPI, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "timing_logger", *arguments], cwd=folder, env=environment, timeout=_LIMIT_S,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


# -- lines -------------------------------------------------------------------------------------------


def lines(found: Sequence[Job]) -> Iterator[str]:
    """Yield how many jobs of each kind of pull request turned red, those that go wrong most often first."""
    yield "| the pull request | jobs | red | by the step | by its parts | green | failed | as wanted |"
    yield "|---|---|---|---|---|---|---|---|"
    for change in sorted(CHANGES, key=lambda one: _as_wanted(found, one)):
        yield _line(change, [one for one in found if one.change == change], _as_wanted(found, change))
    yield ""
    yield _circumstances(found)


def _as_wanted(found: Sequence[Job], change: str) -> float:
    its = [one.exit_code == _WANTED[change] for one in found if one.change == change]
    return float(np.mean(its)) if its else 0.0


def _line(change: str, its: Sequence[Job], as_wanted: float) -> str:
    red = [one for one in its if one.exit_code == 1]
    by_step, green = (
        sum(one.basis == "step" for one in red),
        sum(one.exit_code == 0 for one in its),
    )
    counts = [len(its), len(red), by_step, len(red) - by_step, green, len(its) - len(red) - green]
    return f"| {_SAID[change]} | {' | '.join(map(str, counts))} | {as_wanted:.0%} |"


def _circumstances(found: Sequence[Job]) -> str:
    took_s, load, step_ms, spread = (
        np.quantile([getattr(one, name) for one in found], [0.1, 0.5, 0.9])
        for name in ("took_s", "load", "step_ms", "spread")
    )
    return (
        f"A job took {took_s[1]:.0f} s at the median ({took_s[0]:.0f} to {took_s[2]:.0f} s in 8 of 10), a "
        f"step {step_ms[1]:.0f} ms ({step_ms[0]:.0f} to {step_ms[2]:.0f}); equal runs lie {spread[1]:.0%} "
        f"apart ({spread[0]:.0%} to {spread[2]:.0%}). {os.cpu_count()} cores, load {load[1]:.1f} "
        f"({load[0]:.1f} to {load[2]:.1f})."
    )

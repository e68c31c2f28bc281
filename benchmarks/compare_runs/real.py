"""Real runs of a small training, with one change to it or none: recorded in turn, and compared."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from compare_runs.program import CHANGES
from timing_logger.analysis.comparison.compare import compare_runs
from timing_logger.engine.run_summaries import summaries_of
from timing_logger.results.comparison import Comparison
from timing_logger.results.run_summary import RunSummary

Pool = Mapping[str, Sequence[RunSummary]]

ROOT = Path(__file__).parents[2]
RANKS, N_STEPS = 2, 300
_LIMIT_S = 240.0
_SIDE = 5
_NAMED = {"garbage": ("pauses", "GC"), "bytes": ("bytes", "IALLREDUCE"), "rank": ("rank", "")}
"""What is to be named of each change: the kind of cause, and the operation."""


def recorded(folder: Path, n_runs: Mapping[str, int]) -> Pool:
    """Return so many runs of each change, of which those are recorded that the folder lacks, in turn."""
    for turn in range(max(n_runs.values())):
        for change in CHANGES:
            if turn < n_runs.get(change, 0):
                _record(folder / change / f"run{turn:02d}", change)
    return {change: _summaries(folder / change)[:n] for change, n in n_runs.items()}


def _summaries(folder: Path) -> list[RunSummary]:
    return [one.summary for one in summaries_of(sorted(folder.iterdir()))]


def _record(folder: Path, change: str) -> None:
    if folder.exists():
        return
    program = str(ROOT / "benchmarks/compare_runs/program.py")
    job = ["torchrun", "--standalone", "--nproc-per-node", str(RANKS), program, str(N_STEPS), change]
    command = [sys.executable, "-m", "timing_logger", "run", "--quiet", "--log-dir", str(folder), "--", *job]
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command, env=environment, timeout=_LIMIT_S, check=True, **quiet)  # type: ignore[call-overload]


# -- lines -------------------------------------------------------------------------------------------


def lines(pool: Pool, n_tries: int) -> Iterator[str]:
    """Yield how often a change is called one, of five real runs against five."""
    yield "| program | runs | comparisons | slower, by the step | by its parts | undecided | faster |"
    yield "|---|---|---|---|---|---|---|"
    for change, name in (("none", "the same"), ("sleep", "with `time.sleep(0.002)` in each step")):
        for how, found in (
            ("as recorded, in turn", list(in_turn(pool, change))),
            ("drawn from all", list(tries(pool, change, n_tries))),
        ):
            called = Counter(map(_called, found))
            kinds = "regressed by step", "regressed by account", "undecided", "improved"
            counts = " | ".join(str(called[kind]) for kind in kinds)
            yield f"| {name} | {how} | {len(found)} | {counts} |"
    yield ""
    step_ms = np.array([run.step_mean_ms for run in pool["none"]])
    yield (
        f"Of {len(pool['none'])} and {len(pool['sleep'])} runs of {RANKS} ranks, recorded in turn. A step "
        f"takes {np.median(step_ms):.0f} ms; equal runs lie {np.log(step_ms).std(ddof=1):.0%} apart."
    )


def in_turn(pool: Pool, change: str) -> Iterator[Comparison]:
    """Yield comparisons of five runs with the five that were recorded beside them, from each run on."""
    before, runs = pool["none"], pool[change]
    if change == "none":  # every other run is of the one side
        for first in range(len(before) - 2 * _SIDE + 1):
            both = before[first : first + 2 * _SIDE]
            yield compare_runs(both[1::2], both[::2])
        return
    for first in range(min(len(before), len(runs)) - _SIDE + 1):
        yield compare_runs(runs[first : first + _SIDE], before[first : first + _SIDE])


def _called(found: Comparison) -> str:
    if found.verdict == "regressed":
        return f"regressed by {found.basis}"
    return "improved" if found.verdict == "improved" else "undecided"


def tries(pool: Pool, change: str, n_tries: int) -> Iterator[Comparison]:
    """Yield comparisons of five runs with five others, none of which is drawn twice for one."""
    rng = random.Random(change)
    for _ in range(n_tries):
        before = rng.sample(list(pool["none"]), 2 * _SIDE if change == "none" else _SIDE)
        runs = before[_SIDE:] if change == "none" else rng.sample(list(pool[change]), _SIDE)
        yield compare_runs(runs, before[:_SIDE])


def lines_of_causes(pool: Pool, n_tries: int) -> Iterator[str]:
    """Yield how often the cause of a change is named, and how often first."""
    yield "| change | tries | slower | cause named | first |"
    yield "|---|---|---|---|---|"
    for change, expected in _NAMED.items():
        found = list(tries(pool, change, n_tries))
        named = [
            [(cause.kind, cause.operation if expected[1] else "") for cause in one.causes] for one in found
        ]
        slower = sum(one.verdict == "regressed" for one in found)
        of_all = sum(expected in causes for causes in named)
        first = sum(causes[:1] == [expected] for causes in named)
        yield f"| {_DESCRIBED[change]} | {n_tries} | {slower} | {of_all} | {first} |"


_DESCRIBED = {
    "garbage": "garbage is collected in each 5th step",
    "bytes": "the gradient is half as large again",
    "rank": "rank 1 sleeps 4 ms in each step",
}

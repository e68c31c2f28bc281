"""Checks that elastic restarts keep the rows of every generation. (P8)"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

from processes import run_job

from campaign.trial import Trial, Untried

_RANKS, _GENERATIONS, _ROWS = 2, 3, 50

_PROGRAM = """
import os, sys, time
from timing_logger import init_timing_logger
rank, generation = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
logger = init_timing_logger(rank, sys.argv[1])
for i in range(50):
    logger.record_timing("STEP", 1.0, iteration=i, epoch=generation)
assert logger.flush(10)
open(f"{sys.argv[1]}/done-{generation}-{rank}", "w").close()
if generation < 2:
    while not os.path.exists(f"{sys.argv[1]}/done-{generation}-{1 - rank}"):
        time.sleep(0.01)
    if rank == 1:
        raise RuntimeError("a rank fails")
    time.sleep(60)  # ended by the agent
"""


def elastic(trial: Trial) -> str:
    """Run ``torchrun --max-restarts`` with two ranks, of which one fails twice."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise Untried("no torch here") from None
    from timing_logger import read_timings

    for number in range(trial.times(3, 1)):
        with trial.new_folder() as folder, trial.one(f"job {number}"):
            program = folder / "program.py"
            program.write_text(_PROGRAM)
            command = [
                sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", _RANKS,
                "--max-restarts", _GENERATIONS - 1, "--monitor-interval", "0.1", program, folder / "logs",
            ]  # fmt: skip
            run = run_job(command, environment={}, limit_s=180, name="an elastic job")
            assert run.returncode == 0, run.stderr
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = read_timings(folder / "logs", incarnations="all")
            kept = found.groupby(["rank", "epoch"]).size().to_dict()
            wanted = {(rank, epoch): _ROWS for rank in range(_RANKS) for epoch in range(_GENERATIONS)}
            assert kept == wanted, f"{kept}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                last = read_timings(folder / "logs")
            assert set(last["epoch"]) == {_GENERATIONS - 1}
            _ask_of_runs(folder / "logs")
    return f"{_RANKS} ranks, {_GENERATIONS} generations"


def _ask_of_runs(folder: Path) -> None:
    """Check the row counts that ``--run last|all|N`` gives, if the command has this option."""
    command = [sys.executable, "-m", "timing_logger", "summary"]
    if "--run" not in _output([*command, "--help"]):
        return
    for run, n_generations in (("last", 1), ("all", _GENERATIONS), ("1", 1)):
        told = json.loads(_output([*command, str(folder), "--json", "--run", run]))
        counts = [row["count"] for row in told["operations"]]
        assert sum(counts) == n_generations * _RANKS * _ROWS, f"--run {run}: {counts}"


def _output(command: list[str]) -> str:
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout

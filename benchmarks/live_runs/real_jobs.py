"""Run a real job under ``timing-logger run --monitor``, and return what was told, and when it happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from live_runs.program import HAPPENED
from timing_logger.schema.defaults import HANG_AFTER_S

ROOT = Path(__file__).parents[2]
RANKS = 4
_START_S = 240.0  # until all ranks have imported torch, and at the end, on a busy machine


class Told(NamedTuple):
    """What was told of a job.

    Attributes:
        events: those of ``verdicts.jsonl``.
        happened: what the job noted of its last rank: when and in which step it ``began`` and ``ended``.
    """

    events: Sequence[Mapping[str, Any]]
    happened: Mapping[str, float]

    def seconds_until(self, event: Mapping[str, Any], what: str) -> float:
        """Return how long after something happened an event was seen."""
        return datetime.fromisoformat(event["at"]).timestamp() - self.happened[what]


def run(
    step_ms: float, length_s: float, fate: Sequence[object] = (), hang_after_s: float = HANG_AFTER_S
) -> Told:
    """Run a job to its end.

    Args:
        step_ms, length_s, fate: the arguments of ``program.py``.
        hang_after_s: after how many seconds a call counts as hanging.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = str(ROOT / "benchmarks/live_runs/program.py")
        arguments = [str(step_ms), str(length_s), *map(str, fate)]
        job = ["torchrun", "--standalone", "--nproc-per-node", str(RANKS), program, *arguments]
        watched = ["run", "--quiet", "--monitor", "--log-dir", folder, "--"]
        command = [sys.executable, "-m", "timing_logger", *watched]
        _wait_for([*command, *job], _environment(folder, hang_after_s), 4 * length_s + _START_S)
        return Told(_lines(Path(folder, "verdicts.jsonl")), _object(Path(folder, HAPPENED)))


def _wait_for(command: Sequence[str], environment: Mapping[str, str], limit_s: float) -> None:
    """Run a job to its end; end all of its processes if it takes longer."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment, start_new_session=True, **quiet) as job:
        try:
            status = job.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            raise
    if status:
        raise subprocess.CalledProcessError(status, command)


def _environment(folder: str, hang_after_s: float) -> dict[str, str]:
    return {
        **os.environ, "OMP_NUM_THREADS": "1", "LIVE_LOG_DIR": folder,
        "TIMING_LOGGER_HANG_AFTER": f"{hang_after_s:g}", "PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks'}",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _object(path: Path) -> dict[str, float]:
    return dict(json.loads(path.read_text())) if path.exists() else {}

"""Gains foretold for real runs on this machine, which are made again without the fault."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from timing_logger import read_timings
from timing_logger.analysis import WhatIf, what_if
from what_if_runs.prediction import Prediction
from what_if_runs.program import Fault

_LIMIT_S = 120.0


def predictions(faults: Mapping[str, tuple[Fault, tuple[str, ...]]], times: int) -> Iterator[Prediction]:
    """Run each fault so many times, each time with it and without it."""
    for seed in range(times):
        for fault, (_, fixes) in faults.items():
            with tempfile.TemporaryDirectory() as folder:
                with_ms = _run(Path(folder), f"with {fault}", seed)
                answer = what_if(read_timings(Path(folder, "rows")), *fixes)
            with tempfile.TemporaryDirectory() as folder:
                true_ms = with_ms - _run(Path(folder), f"without {fault}", seed)
            yield Prediction(fault, fixes, with_ms, answer.gain_ms, true_ms, _is_within(answer, true_ms))


def _run(folder: Path, fault: str, seed: int) -> float:
    command = [sys.executable, "-m", "what_if_runs.program", str(folder), fault, str(seed)]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, timeout=_LIMIT_S, cwd=Path(__file__).parents[1]
    )
    return float(done.stdout)


def _is_within(answer: WhatIf, true_ms: float) -> bool:
    return answer.gain_low_ms <= true_ms <= answer.gain_high_ms

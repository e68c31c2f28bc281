"""How long a recorded run took, as far as its steps tell."""

from __future__ import annotations

import numpy as np

from timing_logger.analysis._step_times import StepTimes


def run_ms(times: StepTimes) -> float:
    """The sum of the recorded steps: each takes as long as its slowest rank, and what even that one waits."""
    slowest = np.fmax.reduce(times.self_ms, axis=1, initial=np.nan)
    least_wait = np.fmin.reduce(times.waits.own_ms, axis=1, initial=np.nan)
    return float(np.nansum(slowest) + np.nansum(least_wait))


def part_of_run(times: StepTimes, cost_ms: float) -> float:
    """A cost as a part of the run, in [0, 1]."""
    length_ms = run_ms(times)
    return min(1.0, cost_ms / length_ms) if length_ms > 0 else 0.0

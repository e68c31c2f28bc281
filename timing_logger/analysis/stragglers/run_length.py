"""Compute the length of a recorded run from its steps."""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.stragglers.peers import row_medians
from timing_logger.analysis.stragglers.step_times import StepTimes


def run_ms(times: StepTimes) -> float:
    """Return the sum of the recorded steps in ms, each as long as on the typical rank.

    Where it is unknown when a step began, it counts as long as its slowest rank works, plus the least time
    that a rank waits in it.
    """
    slowest_ms = np.fmax.reduce(times.self_ms, axis=1, initial=np.nan)
    least_wait_ms = np.fmin.reduce(times.waits.own_ms, axis=1, initial=np.nan)
    estimated_ms = np.nan_to_num(slowest_ms) + np.nan_to_num(least_wait_ms)
    lasted_ms = row_medians(times.step_ms) if times.step_ms.size else estimated_ms
    return float(np.where(np.isnan(lasted_ms), estimated_ms, lasted_ms).sum())


def part_of_run(times: StepTimes, cost_ms: float) -> float:
    """Return a cost as a fraction of the run, in [0, 1]; 0 if the length of the run is unknown."""
    length_ms = run_ms(times)
    return min(1.0, cost_ms / length_ms) if length_ms > 0 else 0.0

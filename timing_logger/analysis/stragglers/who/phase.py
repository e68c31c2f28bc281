"""In which phase a rank loses its time, and between which rows if no row tells."""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.stragglers.slow.candidate import Candidate
from timing_logger.analysis.stragglers.slow.peers import peer_medians
from timing_logger.analysis.stragglers.times.step_times import StepTimes


def phase_of(times: StepTimes, candidate: Candidate) -> tuple[str, float]:
    """Return the phase with the most time beyond the peers, and its fraction of all time beyond them."""
    steps = candidate.slow.steps
    beyond_ms = []
    for phase_ms in times.phase_ms[:, :, candidate.columns]:
        beyond = phase_ms[steps, candidate.slow.column] - peer_medians(phase_ms)[steps, candidate.slow.column]
        beyond_ms.append(float(np.nansum(beyond)))
    most = int(np.argmax(beyond_ms))
    total = sum(max(0.0, ms) for ms in beyond_ms)
    return times.phases[most], beyond_ms[most] / total if total > 0 else float("nan")


def unlogged_between(times: StepTimes, candidate: Candidate) -> tuple[str, ...]:
    """Return the operations between which a candidate has most time without a row, beyond its peers."""
    own_ms = times.unlogged_ms[candidate.column]
    peers_ms = [times.unlogged_ms[column] for column in candidate.columns if column != candidate.column]
    beyond_ms = [
        (ms - float(np.median([peer_ms.get(pair, 0.0) for peer_ms in peers_ms])), pair)
        for pair, ms in own_ms.items()
    ]
    most_ms, pair = max(beyond_ms, default=(0.0, ()))
    return pair if most_ms > 0 else ()

"""Estimate how likely a candidate is the culprit, by resampling the steps of the run.

This is a block bootstrap (Kunsch, Annals of Statistics 17, 1989): stretches of steps are drawn with
replacement until they are as many as the run has, so that what lasts a few steps is drawn as a whole. If the
costliest candidate owes its place to a few steps, or costs hardly more than the next, it is not the costliest
in many of the resamplings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from timing_logger.analysis.stragglers.candidates import MIN_COST_SHARE
from timing_logger.analysis.stragglers.lockstep import Party
from timing_logger.analysis.stragglers.step_times import StepTimes
from timing_logger.analysis.tables import Floats

RESAMPLINGS = 200
_SEED = 16


def likelihoods(times: StepTimes, parties: Sequence[Party], n_culprits: int) -> dict[tuple[int, ...], float]:
    """Return the fraction of the resamplings in which each party is a culprit, by the party's columns.

    A party is a culprit if it costs at least ``MIN_COST_SHARE`` of the run, and is among the ``n_culprits``
    parties that cost most.
    """
    columns = list(dict.fromkeys(party.columns for party in parties))
    cost_ms = np.zeros((len(times.iterations), len(columns)))
    for party in parties:  # a rank may have been slow several times
        steps, at = party.first.slow.steps, columns.index(party.columns)
        cost_ms[steps, at] = np.fmax(cost_ms[steps, at], party.first.excess_ms)
    enough_ms = MIN_COST_SHARE * times.run_ms
    found = np.zeros(len(columns))
    for weights in _resampled(len(times.iterations)):
        costs = weights @ cost_ms
        least = np.sort(costs)[-min(n_culprits, len(costs))]
        found += (costs >= least) & (costs >= enough_ms)
    return dict(zip(columns, (found / RESAMPLINGS).tolist(), strict=True))


def _resampled(n_steps: int) -> Iterator[Floats]:
    """Yield for each resampling how often each step is drawn; always the same for a number of steps."""
    rng = np.random.default_rng(_SEED)
    length = max(1, round(n_steps**0.5))
    for _ in range(RESAMPLINGS):
        starts = rng.integers(0, n_steps, -(-n_steps // length))
        drawn = (starts[:, None] + np.arange(length)) % n_steps
        yield np.bincount(drawn.ravel()[:n_steps], minlength=n_steps).astype(np.float64)

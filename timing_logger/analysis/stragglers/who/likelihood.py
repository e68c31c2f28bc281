"""Estimate how likely a candidate is the culprit, by resampling the steps of the run.

This is a block bootstrap (Kunsch, Annals of Statistics 17, 1989): stretches of steps are drawn with
replacement until they are as many as the run has, so that what lasts a few steps is drawn as a whole. If the
costliest candidate owes its place to a few steps, or costs hardly more than the next, it is not the costliest
in many of the resamplings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.who.party import Party
from timing_logger.analysis.tables import Floats

_SEED = 16


def likelihoods(case: Case, parties: Sequence[Party], n_culprits: int) -> dict[tuple[int, ...], float]:
    """Return the fraction of the resamplings in which each party is a culprit, by the party's columns.

    A party is a culprit if it costs enough of the run, and is among the ``n_culprits`` that cost most.
    """
    times, n_resamplings = case.times, case.policy.resamplings
    columns = list(dict.fromkeys(party.columns for party in parties))
    cost_ms = np.zeros((len(times.iterations), len(columns)))
    for party in parties:  # a rank may have been slow several times
        steps, at = party.first.slow.steps, columns.index(party.columns)
        cost_ms[steps, at] = np.fmax(cost_ms[steps, at], party.first.excess_ms)
    enough_ms = case.policy.min_cost_share * times.run_ms
    found = np.zeros(len(columns))
    for weights in _resampled(len(times.iterations), n_resamplings):
        costs = weights @ cost_ms
        least = np.sort(costs)[-min(n_culprits, len(costs))]
        found += (costs >= least) & (costs >= enough_ms)
    return dict(zip(columns, (found / n_resamplings).tolist(), strict=True))


def _resampled(n_steps: int, n_resamplings: int) -> Iterator[Floats]:
    """Yield for each resampling how often each step is drawn; always the same for a number of steps."""
    rng = np.random.default_rng(_SEED)
    length = max(1, round(n_steps**0.5))
    for _ in range(n_resamplings):
        starts = rng.integers(0, n_steps, -(-n_steps // length))
        drawn = (starts[:, None] + np.arange(length)) % n_steps
        yield np.bincount(drawn.ravel()[:n_steps], minlength=n_steps).astype(np.float64)

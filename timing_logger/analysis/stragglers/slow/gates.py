"""The gates that slow ranks must pass to be named or suspected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from timing_logger.analysis.stragglers.gate import Gate
from timing_logger.analysis.stragglers.policy import Policy
from timing_logger.analysis.stragglers.slow.chance import z_of_chance
from timing_logger.analysis.stragglers.slow.noise import robust_sigma
from timing_logger.analysis.stragglers.slow.slow_steps import SlowSteps
from timing_logger.analysis.tables import Floats, known

WAITED = "share of its extra time that others waited"
LONGER = "share of the run that it adds"
STEPS = "slow steps"
GAP = "part of its time by which its peers are quicker"
PEERS = "z among the peers"
Z = "z over the steps"
COST = "share of the run that it costs"


def gates_of(
    slow: SlowSteps, levels: Floats, scores: Floats, cost_share: float, n_steps: int, policy: Policy
) -> tuple[Gate, ...]:
    """Return the conditions for naming one of several ranks, or of several hosts, that do the same.

    Args:
        slow: its slow steps; ``slow.column`` is its place in ``levels`` and ``scores``.
        levels: the median of log(time / peer median) of each in these steps.
        scores: the relative score of each in these steps.
        cost_share: which share of the run its time beyond its peers is.
        n_steps: the number of steps that are known.
        policy: the numbers that decide.
    """
    return (
        Gate.at_least(Z, slow.z, least_z(slow, policy)),
        *_spread_gate(levels, slow.column, policy),
        Gate.at_least(GAP, _gap(scores, slow.column), _least_gap(n_steps, policy)),
        Gate.at_least(COST, cost_share, policy.min_cost_share),
        *(() if slow.are_single else (_steps_gate(slow, n_steps, cost_share, policy),)),
    )


def _gap(scores: Floats, column: int) -> float:
    """Return by which fraction of its time a rank would be quicker at the median score of its peers."""
    peers = known(np.delete(scores, column))
    return float(1 - scores[column] / np.median(peers)) if len(peers) else float("nan")


def _spread_gate(levels: Floats, column: int, policy: Policy) -> Sequence[Gate]:
    """Compare the rank's level with the spread of its peers; no gate if too few peers are known."""
    peers = known(np.delete(levels, column))
    if len(peers) < policy.min_peers_for_spread:
        return ()
    z = (levels[column] - float(np.median(peers))) / max(policy.min_noise_sigma, robust_sigma(peers))
    return (Gate.at_least(PEERS, z, policy.min_z),)


def least_z(slow: SlowSteps, policy: Policy) -> float:
    """Return the least z of slow steps that are certain; single ones are gathered by chance as seldom."""
    return z_of_chance(policy.max_chance) if slow.are_single else policy.min_z


def _least_gap(n_steps: int, policy: Policy) -> float:
    return policy.min_score_gap if n_steps >= policy.few_steps else policy.min_score_gap_of_few


def _steps_gate(slow: SlowSteps, n_steps: int, cost_share: float, policy: Policy) -> Gate:
    """Require enough slow steps: fewer, the more of the run they cost, and no more than the run has."""
    most = policy.min_slow_steps
    needed = max(policy.min_costly_slow_steps, 1 / cost_share) if cost_share > 0 else most
    return Gate.at_least(STEPS, len(slow.steps), min(most, np.ceil(needed), n_steps))

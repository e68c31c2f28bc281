"""Find the ranks that are slow, and check the gates that each must pass to be named or suspected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.chance import z_of_chance
from timing_logger.analysis.stragglers.noise import robust_sigma
from timing_logger.analysis.stragglers.peers import (
    column_medians,
    log_ratios,
    n_known_steps,
    peer_medians,
    relative_scores,
)
from timing_logger.analysis.stragglers.policy import Policy
from timing_logger.analysis.stragglers.prices import Slowed
from timing_logger.analysis.stragglers.pricing import Pricing
from timing_logger.analysis.stragglers.result import Gate
from timing_logger.analysis.stragglers.slow_steps import SlowSteps, slow_steps
from timing_logger.analysis.tables import Floats, Ints, known

_WAITED = "share of its extra time that others waited"
_LONGER = "share of the run that it adds"
_STEPS = "slow steps"
_GAP = "part of its time by which its peers are quicker"
_PEERS = "z among the peers"
_COST = "share of the run that it costs"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A rank that is slow in some steps, and the times of its role.

    Attributes:
        slow: the slow steps; ``slow.column`` is the column of the rank within its role.
        role: the role of the rank.
        column: the column of the rank among all ranks.
        columns: the columns of all ranks of its role.
        ratios: log(time / peer median) of the role, steps x ranks.
        excess_ms: one entry per slow step: time beyond the peer median.
        score: relative score in the slow steps.
        gates: the conditions for naming the rank, except the lost time that it explains.
        policy: the numbers that decide.
    """

    slow: SlowSteps
    role: str
    column: int
    columns: Ints
    ratios: Floats
    excess_ms: Floats
    score: float
    gates: tuple[Gate, ...]
    policy: Policy

    @property
    def may_be_named(self) -> bool:
        """Whether the rank passes all gates."""
        return all(gate.passed for gate in self.gates)

    @property
    def may_be_named_beside_another(self) -> bool:
        """Whether the rank may be named once another rank is.

        It passes all gates, except that its score may be closer to that of its peers (``half_gap_share``).
        """
        failed, part = [gate for gate in self.gates if not gate.passed], self.policy.half_gap_share
        return all(gate.name == _GAP and gate.value >= part * gate.bound for gate in failed)

    @property
    def may_be_suspected(self) -> bool:
        """Whether the rank may be suspected.

        It may be slow in rather few steps, or by no more than its peers differ among themselves. A rank that
        costs the run visibly (``visible_cost_share``) may also be slow by little (``suspected_score_gap``).
        """
        policy = self.policy
        for_long = len(self.slow.steps) >= policy.min_costly_slow_steps
        visible = any(gate.name == _COST and gate.value >= policy.visible_cost_share for gate in self.gates)
        least_gap = policy.suspected_score_gap if for_long and visible else np.inf
        failed = [gate for gate in self.gates if not gate.passed and gate.name not in (_STEPS, _PEERS)]
        is_slow = all(gate.name == _GAP and gate.value >= least_gap for gate in failed)
        return is_slow and (for_long or self.lasted)

    @property
    def is_by_little(self) -> bool:
        """Whether the rank is slower than its peers by less than matters, unless it costs the run visibly."""
        return not self._passed(_GAP)

    @property
    def lasted(self) -> bool:
        """Whether the rank was slow in enough steps to be named."""
        return self._passed(_STEPS)

    @property
    def is_waited_for(self) -> bool:
        """Whether other ranks wait for this rank, or it is unknown whether they do."""
        return self._passed(_WAITED) and self._passed(_LONGER)

    @property
    def is_dear(self) -> bool:
        """Whether its time beyond its peers is enough of the run, if others wait for all of it."""
        return self._passed(_COST)

    def _passed(self, name: str) -> bool:
        return all(gate.passed for gate in self.gates if gate.name == name)

    @property
    def cost_ms(self) -> float:
        """The time in ms that the rank spent in its slow steps beyond the peer median."""
        return float(np.maximum(self.excess_ms, 0.0).sum())


def candidates(case: Case, pricing: Pricing) -> list[Candidate]:
    """Find every rank that is slow against its peers in some steps; the costliest first.

    Args:
        case: the run to be judged.
        pricing: what slow ranks cost.

    Returns:
        One candidate for each set of slow steps that belong together; a rank may have several.
    """
    policy = case.policy
    found = [
        _candidate(case, role, slow)
        for name, columns in case.by_role.items()
        if len(columns) > 1
        for role in [_Role.of(case, name, columns)]
        for slow in [*_slow_together(role, policy), *_alone(case, role)]
    ]
    return sorted(_with_waiting(case, found, pricing), key=lambda candidate: -candidate.cost_ms)


def _with_waiting(case: Case, found: list[Candidate], pricing: Pricing) -> list[Candidate]:
    """Add to the gates of candidates that are not too cheap that others wait for them.

    If nobody does, the time of a rank delays nobody, or its peers log less than it does.
    """
    dear = [one for one in found if one.is_dear]
    if not dear:
        return found
    harm_ms = pricing.harm_ms([Slowed(one.column, one.slow.steps) for one in dear]).tolist()
    of = {id(one): ms for one, ms in zip(dear, harm_ms, strict=True) if not np.isnan(ms)}
    gate = _adds if pricing.plays_again else _waited
    return [
        replace(one, gates=(*one.gates, gate(case, one, of[id(one)]))) if id(one) in of else one
        for one in found
    ]


def _adds(case: Case, one: Candidate, harm_ms: float) -> Gate:
    return Gate.at_least(_LONGER, case.times.share_of_run(harm_ms), case.policy.min_cost_share)


def _waited(case: Case, one: Candidate, harm_ms: float) -> Gate:
    return Gate.at_least(_WAITED, harm_ms / one.cost_ms, case.policy.min_waited_share)


def _slow_together(role: _Role, policy: Policy) -> list[SlowSteps]:
    """Return the slow steps of each rank of a role, and of one with several stretches all of them."""
    found = slow_steps(role.ratios, policy, gap_share=policy.half_gap_share)
    together = []
    for column in sorted({slow.column for slow in found}):
        its = [slow for slow in found if slow.column == column]
        if len(its) >= policy.min_bursts:
            steps = np.unique(np.concatenate([slow.steps for slow in its]))
            level = float(np.median([slow.level for slow in its]))
            together.append(SlowSteps(column, steps, "intermittent", level, max(slow.z for slow in its)))
    return found + together


def _alone(case: Case, role: _Role) -> list[SlowSteps]:
    """Return the steps in which a rank does what no other of its role ever does, such as saving.

    No test is needed to tell that it is no chance.
    """
    found = []
    for phase_ms in case.times.phase_ms[:, :, role.columns]:
        does = np.nan_to_num(phase_ms) > 0
        ranks, steps = np.flatnonzero(does.any(axis=0)), np.flatnonzero(does.any(axis=1))
        if len(ranks) == 1 and len(steps) >= case.policy.min_steps_alone:
            column = int(ranks[0])
            level = float(np.median(role.ratios[steps, column]))
            found.append(SlowSteps(column, steps, "intermittent", level, np.inf, are_single=True))
    return found


class _Role(NamedTuple):
    """The times of a role: what all its candidates are held against.

    Attributes:
        name: the role.
        columns: the columns of its ranks among all ranks.
        baseline: peer medians of the self times, steps x ranks.
        ratios: log(time / baseline), steps x ranks.
        n_steps: the number of steps that are known.
    """

    name: str
    columns: Ints
    baseline: Floats
    ratios: Floats
    n_steps: int

    @classmethod
    def of(cls, case: Case, name: str, columns: Ints) -> _Role:
        its_ms = case.times.self_ms[:, columns]
        baseline = peer_medians(its_ms)
        ratios = log_ratios(its_ms, baseline)
        return cls(name, columns, baseline, ratios, n_known_steps(ratios))


def _candidate(case: Case, role: _Role, slow: SlowSteps) -> Candidate:
    times, policy, column = case.times, case.policy, int(role.columns[slow.column])
    excess_ms = times.self_ms[slow.steps, column] - role.baseline[slow.steps, slow.column]
    scores = relative_scores(times.self_ms[np.ix_(slow.steps, role.columns)])
    cost_share = times.share_of_run(float(np.maximum(excess_ms, 0.0).sum()))
    gates = (
        Gate.at_least("z over the steps", slow.z, _least_z(slow, policy)),
        *_spread_gate(column_medians(role.ratios[slow.steps]), slow.column, policy),
        Gate.at_least(_GAP, _gap(scores, slow.column), _least_gap(role.n_steps, policy)),
        Gate.at_least(_COST, cost_share, policy.min_cost_share),
        *(() if slow.are_single else (_steps_gate(slow, role.n_steps, cost_share, policy),)),
    )
    score = float(scores[slow.column])
    return Candidate(slow, role.name, column, role.columns, role.ratios, excess_ms, score, gates, policy)


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
    return (Gate.at_least(_PEERS, z, policy.min_z),)


def _least_z(slow: SlowSteps, policy: Policy) -> float:
    return z_of_chance(policy.max_chance) if slow.are_single else policy.min_z


def _least_gap(n_steps: int, policy: Policy) -> float:
    return policy.min_score_gap if n_steps >= policy.few_steps else policy.min_score_gap_of_few


def _steps_gate(slow: SlowSteps, n_steps: int, cost_share: float, policy: Policy) -> Gate:
    """Require enough slow steps: fewer, the more of the run they cost, and no more than the run has."""
    most = policy.min_slow_steps
    needed = max(policy.min_costly_slow_steps, 1 / cost_share) if cost_share > 0 else most
    return Gate.at_least(_STEPS, len(slow.steps), min(most, np.ceil(needed), n_steps))

"""Find the ranks that are slow, and check the gates that each must pass to be named or suspected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.stragglers.noise import robust_sigma
from timing_logger.analysis.stragglers.peers import (
    column_medians,
    log_ratios,
    members,
    n_known_steps,
    peer_medians,
    relative_scores,
)
from timing_logger.analysis.stragglers.prices import Slowed
from timing_logger.analysis.stragglers.pricing import Pricing
from timing_logger.analysis.stragglers.result import Gate
from timing_logger.analysis.stragglers.slow_steps import MIN_GAP, MIN_SIGMA, MIN_Z, SlowSteps, slow_steps
from timing_logger.analysis.stragglers.step_times import StepTimes
from timing_logger.analysis.tables import Floats, Ints, known

MIN_STEPS = 20
"""The number of slow steps with which a rank may be named; all steps, if the run has fewer."""

MIN_COSTLY_STEPS = 10
"""The least number of slow steps with which a costly rank may be named.

Between this and ``MIN_STEPS``, 1 / (fraction of the run that they cost) steps are enough."""

MIN_COST_SHARE = 0.01
"""The least fraction of the run that a rank must cost to be named."""

VISIBLE_COST = 0.05
"""The fraction of the run from which on a cost is plainly visible in a timeline of the run."""

SUSPECTED_GAP = 0.075
"""The least difference to the score of its peers at which a visibly costly rank is suspected."""

FEW_STEPS = 10
"""The number of steps below which noise alone may look steady, so that a rank must be slower to be named."""

MIN_GAP_OF_FEW = 0.35
"""The least difference to the score of the peers that matters in a run of fewer than ``FEW_STEPS`` steps."""

MIN_WAITED = 0.5
"""The least fraction of a rank's time beyond its peers that others waited, where waits are recorded."""

_WAITED = "share of its extra time that others waited"
_STEPS = "slow steps"
_GAP = "score below that of its peers"
_PEERS = "z among the peers"
_COST = "share of the run that it costs"
_MIN_BURSTS = 3
_MIN_PEERS_FOR_SPREAD = 2


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
    """

    slow: SlowSteps
    role: str
    column: int
    columns: Ints
    ratios: Floats
    excess_ms: Floats
    score: float
    gates: tuple[Gate, ...]

    @property
    def may_be_named(self) -> bool:
        """Whether the rank passes all gates."""
        return all(gate.passed for gate in self.gates)

    @property
    def may_be_named_beside_another(self) -> bool:
        """Whether the rank may be named once another rank is.

        It passes all gates, except that its score may be closer to that of its peers: half the gap is enough.
        """
        failed = [gate for gate in self.gates if not gate.passed]
        return all(gate.name == _GAP and gate.value >= gate.bound / 2 for gate in failed)

    @property
    def may_be_suspected(self) -> bool:
        """Whether the rank may be suspected.

        It may be slow in rather few steps, or by no more than its peers differ among themselves. A rank that
        costs the run visibly (``VISIBLE_COST``) may also be slow by little (``SUSPECTED_GAP``).
        """
        has_ten = len(self.slow.steps) >= MIN_COSTLY_STEPS
        by_little = has_ten and any(gate.name == _COST and gate.value >= VISIBLE_COST for gate in self.gates)
        failed = [gate for gate in self.gates if not gate.passed and gate.name not in (_STEPS, _PEERS)]
        is_slow = all(by_little and gate.name == _GAP and gate.value >= SUSPECTED_GAP for gate in failed)
        return is_slow and (has_ten or self.lasted)

    @property
    def lasted(self) -> bool:
        """Whether the rank was slow in enough steps to be named."""
        return self._passed(_STEPS)

    @property
    def is_waited_for(self) -> bool:
        """Whether other ranks wait for this rank, or it is unknown whether they do."""
        return self._passed(_WAITED)

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


def candidates(times: StepTimes, roles: Mapping[int, str], pricing: Pricing) -> list[Candidate]:
    """Find every rank that is slow against its peers in some steps; the costliest first.

    Args:
        times: the times of the run.
        roles: the role of each rank.
        pricing: what slow ranks cost.

    Returns:
        One candidate for each set of slow steps that belong together; a rank may have several.
    """
    found = [
        _candidate(times, role, slow)
        for name, columns in members(times.ranks, roles).items()
        if len(columns) > 1
        for role in [_Role.of(times, name, columns)]
        for slow in _with_bursts(slow_steps(role.ratios, min_gap=MIN_GAP / 2))
    ]
    return sorted(_with_waiting(found, pricing), key=lambda candidate: -candidate.cost_ms)


def _with_waiting(found: list[Candidate], pricing: Pricing) -> list[Candidate]:
    """Add to the gates of candidates that are not too cheap that others wait for them.

    If nobody does, the time of a rank delays nobody, or its peers log less than it does.
    """
    dear = [one for one in found if one.is_dear]
    if not dear:
        return found
    harm_ms = pricing.harm_ms([Slowed(one.column, one.slow.steps) for one in dear]).tolist()
    shares = {id(one): ms / one.cost_ms for one, ms in zip(dear, harm_ms, strict=True) if not np.isnan(ms)}
    return [
        replace(one, gates=(*one.gates, Gate.at_least(_WAITED, shares[id(one)], MIN_WAITED)))
        if id(one) in shares
        else one
        for one in found
    ]


def _with_bursts(found: list[SlowSteps]) -> list[SlowSteps]:
    """Add, for each rank with several stretches of slow steps, all of them together."""
    together = []
    for column in sorted({slow.column for slow in found}):
        its = [slow for slow in found if slow.column == column]
        if len(its) >= _MIN_BURSTS:
            steps = np.unique(np.concatenate([slow.steps for slow in its]))
            level = float(np.median([slow.level for slow in its]))
            together.append(SlowSteps(column, steps, "intermittent", level, min(slow.z for slow in its)))
    return found + together


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
    def of(cls, times: StepTimes, name: str, columns: Ints) -> _Role:
        baseline = peer_medians(times.self_ms[:, columns])
        ratios = log_ratios(times.self_ms[:, columns], baseline)
        return cls(name, columns, baseline, ratios, n_known_steps(ratios))


def _candidate(times: StepTimes, role: _Role, slow: SlowSteps) -> Candidate:
    column = int(role.columns[slow.column])
    excess_ms = times.self_ms[slow.steps, column] - role.baseline[slow.steps, slow.column]
    scores = relative_scores(times.self_ms[np.ix_(slow.steps, role.columns)])
    cost_share = times.share_of_run(float(np.maximum(excess_ms, 0.0).sum()))
    gates = (
        Gate.at_least("z over the steps", slow.z, MIN_Z),
        *_spread_gate(column_medians(role.ratios[slow.steps]), slow.column),
        Gate.at_least(_GAP, _gap(scores, slow.column), _least_gap(role.n_steps)),
        Gate.at_least(_COST, cost_share, MIN_COST_SHARE),
        _steps_gate(slow, role.n_steps, cost_share),
    )
    return Candidate(
        slow, role.name, column, role.columns, role.ratios, excess_ms, float(scores[slow.column]), gates
    )


def _gap(scores: Floats, column: int) -> float:
    peers = known(np.delete(scores, column))
    return float(np.median(peers) - scores[column]) if len(peers) else float("nan")


def _spread_gate(levels: Floats, column: int) -> Sequence[Gate]:
    """Compare the rank's level with the spread of its peers; no gate if fewer than two peers are known."""
    peers = known(np.delete(levels, column))
    if len(peers) < _MIN_PEERS_FOR_SPREAD:
        return ()
    z = (levels[column] - float(np.median(peers))) / max(MIN_SIGMA, robust_sigma(peers))
    return (Gate.at_least(_PEERS, z, MIN_Z),)


def _least_gap(n_steps: int) -> float:
    return MIN_GAP if n_steps >= FEW_STEPS else MIN_GAP_OF_FEW


def _steps_gate(slow: SlowSteps, n_steps: int, cost_share: float) -> Gate:
    """Require enough slow steps: fewer, the more of the run they cost, and no more than the run has."""
    needed = max(MIN_COSTLY_STEPS, 1 / cost_share) if cost_share > 0 else MIN_STEPS
    return Gate.at_least(_STEPS, len(slow.steps), min(MIN_STEPS, np.ceil(needed), n_steps))

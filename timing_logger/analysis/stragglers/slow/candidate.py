"""A rank that is slow in some steps, with the conditions that it must meet to be named or suspected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from timing_logger.analysis.stragglers.gate import Gate
from timing_logger.analysis.stragglers.policy import Policy
from timing_logger.analysis.stragglers.slow.gates import COST, GAP, LONGER, PEERS, STEPS, WAITED, Z
from timing_logger.analysis.stragglers.slow.slow_steps import SlowSteps
from timing_logger.analysis.tables import Floats, Ints


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
        waited_share: the share of the run that others waited for the rank, at least; 0 if that is unknown.
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
    waited_share: float = 0.0

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
        return all(gate.name == GAP and gate.value >= part * gate.bound for gate in failed)

    @property
    def may_be_suspected(self) -> bool:
        """Whether the rank may be suspected.

        It may be slow in rather few steps, or by no more than its peers differ among themselves. A rank that
        costs the run visibly (``visible_cost_share``) may also be slow by little (``suspected_score_gap``),
        and others may wait for a smaller part of its delay, if that is visible.
        """
        policy = self.policy
        for_long = len(self.slow.steps) >= policy.min_costly_slow_steps
        visible = any(gate.name == COST and gate.value >= policy.visible_cost_share for gate in self.gates)
        least_gap = policy.suspected_score_gap if for_long and visible else np.inf
        minor = (
            STEPS,
            PEERS,
            *((Z,) if self.slow.are_single else ()),
            *((WAITED,) if self.is_waited_for else ()),
        )
        failed = [gate for gate in self.gates if not gate.passed and gate.name not in minor]
        is_slow = all(gate.name == GAP and gate.value >= least_gap for gate in failed)
        return is_slow and (for_long or self.lasted or self.slow.are_single)

    @property
    def is_by_little(self) -> bool:
        """Whether the rank is slower than its peers by less than matters, unless it costs the run visibly."""
        return not self._passed(GAP)

    @property
    def lasted(self) -> bool:
        """Whether the rank was slow in enough steps to be named."""
        return self._passed(Z) if self.slow.are_single else self._passed(STEPS)

    @property
    def is_waited_for(self) -> bool:
        """Whether other ranks wait for this rank, or it is unknown whether they do."""
        is_visibly = self.waited_share >= self.policy.visible_cost_share
        return is_visibly or (self._passed(WAITED) and self._passed(LONGER))

    @property
    def is_dear(self) -> bool:
        """Whether its time beyond its peers is enough of the run, if others wait for all of it."""
        return self._passed(COST)

    def _passed(self, name: str) -> bool:
        return all(gate.passed for gate in self.gates if gate.name == name)

    @property
    def cost_ms(self) -> float:
        """The time in ms that the rank spent in its slow steps beyond the peer median."""
        return float(np.maximum(self.excess_ms, 0.0).sum())

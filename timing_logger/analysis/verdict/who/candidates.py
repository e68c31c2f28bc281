"""Find the ranks that are slow in some steps, and check the gates that each must pass to be named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import Bools, Floats, Ints, known
from timing_logger.analysis.step_times.noise import robust_sigma
from timing_logger.analysis.step_times.peers import (
    column_medians,
    log_ratios,
    n_known_steps,
    peer_medians,
    relative_scores,
)
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.slow_steps import SlowSteps, least_z, slow_together
from timing_logger.results import criteria
from timing_logger.results.facts import Gate
from timing_logger.results.policy import Policy

WAITED = "share of its extra time that others waited"
LONGER = "longer steps, as a share of the run"
STEPS = "slow steps"
GAP = "part of its time by which its peers are quicker"
PEERS = "z among the peers"
Z = "z over the steps"
COST = "delay, as a share of the run"


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


def candidates(case: Case) -> list[Candidate]:
    """Find every rank that is slow against its peers in some steps; the costliest first.

    There is one for each set of slow steps that belong together; a rank may have several.
    """
    found = [
        _candidate(case, role, slow)
        for name, columns in case.by_role.items()
        if len(columns) > 1
        for role in [_Role.of(case, name, columns)]
        for slow in [*slow_together(role.ratios, case.policy), *_alone(case, role)]
    ]
    return sorted(found, key=lambda candidate: -candidate.cost_ms)


def _alone(case: Case, role: _Role) -> list[SlowSteps]:
    """Return the steps in which a rank does what no other of its role ever does, such as saving.

    No test is needed to tell that it is no chance.
    """
    found = []
    for operation_ms in case.times.operation_ms[:, :, role.columns]:
        does = np.nan_to_num(operation_ms) > 0
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
        ratios[_take_hardly_any_time(its_ms, case.policy)] = np.nan
        return cls(name, columns, baseline, ratios, n_known_steps(ratios))


def _take_hardly_any_time(its_ms: Floats, policy: Policy) -> Bools:
    """Tell of which steps ratios are noise: those in which every rank takes a small part of other steps."""
    longest_ms = np.fmax.reduce(its_ms, axis=1, initial=np.nan)
    of_steps_ms = known(longest_ms)
    long_ms = np.quantile(of_steps_ms, criteria.LONG_STEP_QUANTILE) if len(of_steps_ms) else 0.0
    hardly_any: Bools = longest_ms < policy.min_step_share * long_ms
    return hardly_any


def _candidate(case: Case, role: _Role, slow: SlowSteps) -> Candidate:
    times, policy, column = case.times, case.policy, int(role.columns[slow.column])
    excess_ms = times.self_ms[slow.steps, column] - role.baseline[slow.steps, slow.column]
    scores = relative_scores(times.self_ms[np.ix_(slow.steps, role.columns)])
    cost_share = times.share_of_run(float(np.maximum(excess_ms, 0.0).sum()))
    levels = column_medians(role.ratios[slow.steps])
    gates = gates_of(slow, levels, scores, cost_share, role.n_steps, policy)
    score = float(scores[slow.column])
    return Candidate(slow, role.name, column, role.columns, role.ratios, excess_ms, score, gates, policy)


# -- gates ----------------------------------------------------------------------------------------------


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
    least_gap = policy.min_score_gap if n_steps >= policy.few_steps else policy.min_score_gap_of_few
    needed = n_steps_needed(cost_share, policy.min_costly_slow_steps, policy.min_slow_steps, n_steps)
    return (
        Gate.at_least(Z, slow.z, least_z(slow, policy)),
        *_spread_gate(levels, slow.column, policy),
        Gate.at_least(GAP, _gap(scores, slow.column), least_gap),
        Gate.at_least(COST, cost_share, policy.min_cost_share),
        *(() if slow.are_single else (Gate.at_least(STEPS, len(slow.steps), needed),)),
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


def n_steps_needed(cost_share: float, least: int, most: int, n_steps: int) -> int:
    """Return how many slow steps are enough: fewer, the more of the run they cost.

    Args:
        cost_share: which share of the run they cost.
        least: what is needed however much they cost.
        most: what is enough however little they cost.
        n_steps: the number of steps that are known: no more are needed.
    """
    needed = max(least, 1 / cost_share) if cost_share > 0 else most
    return math.ceil(min(most, needed, n_steps))


# -- in which operation it loses its time ---------------------------------------------------------------


def operation_of(times: StepTimes, candidate: Candidate) -> tuple[str, float]:
    """Return the operation with the most time beyond the peers, and its fraction of all time beyond them."""
    steps = candidate.slow.steps
    beyond_ms = []
    for its_ms in times.operation_ms[:, :, candidate.columns]:
        beyond = its_ms[steps, candidate.slow.column] - peer_medians(its_ms)[steps, candidate.slow.column]
        beyond_ms.append(float(np.nansum(beyond)))
    most = int(np.argmax(beyond_ms))
    total = sum(max(0.0, ms) for ms in beyond_ms)
    return times.operations[most], beyond_ms[most] / total if total > 0 else float("nan")


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

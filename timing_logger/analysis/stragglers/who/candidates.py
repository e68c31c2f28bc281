"""Find the ranks that are slow, and check the gates that each must pass to be named or suspected."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.series.peers import (
    column_medians,
    log_ratios,
    n_known_steps,
    peer_medians,
    relative_scores,
)
from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.cost.prices import Slowed
from timing_logger.analysis.stragglers.cost.pricing import Pricing
from timing_logger.analysis.stragglers.facts.of_ranks import Gate
from timing_logger.analysis.stragglers.policy import Policy
from timing_logger.analysis.stragglers.slow.candidate import (
    LONGER,
    WAITED,
    Candidate,
    gates_of,
    least_z,
)
from timing_logger.analysis.stragglers.slow.slow_steps import SlowSteps, slow_steps
from timing_logger.analysis.tables import Bools, Floats, Ints, known


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
        for slow in [*slow_together(role.ratios, policy), *_alone(case, role)]
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
    gated = _adding if pricing.plays_again else _waited_for
    return [gated(case, one, of[id(one)]) if id(one) in of else one for one in found]


def _adding(case: Case, one: Candidate, harm_ms: float) -> Candidate:
    gate = Gate.at_least(LONGER, case.times.share_of_run(harm_ms), case.policy.min_cost_share)
    return replace(one, gates=(*one.gates, gate))


def _waited_for(case: Case, one: Candidate, harm_ms: float) -> Candidate:
    gate = Gate.at_least(WAITED, harm_ms / one.cost_ms, case.policy.min_waited_share)
    return replace(one, gates=(*one.gates, gate), waited_share=case.times.share_of_run(harm_ms))


def slow_together(ratios: Floats, policy: Policy) -> list[SlowSteps]:
    """Return the slow steps of each rank of a role, and of one with several stretches all of them.

    Args:
        ratios: log(time / peer median), steps x ranks.
        policy: the numbers that decide.
    """
    found = slow_steps(ratios, policy, gap_share=policy.half_gap_share, suspected=True)
    together, certain = [], [slow for slow in found if slow.z >= least_z(slow, policy)]
    for column in sorted({slow.column for slow in certain}):
        its = [slow for slow in certain if slow.column == column]
        steps = np.unique(np.concatenate([slow.steps for slow in its]))
        longest = max(len(slow.steps) for slow in its)
        if len(its) >= policy.min_bursts and longest < (1 - policy.edge_steps_share) * len(steps):
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
        ratios[_take_hardly_any_time(its_ms, case.policy)] = np.nan
        return cls(name, columns, baseline, ratios, n_known_steps(ratios))


def _take_hardly_any_time(its_ms: Floats, policy: Policy) -> Bools:
    """Tell of which steps ratios are noise: those in which every rank takes a small part of other steps."""
    longest_ms = np.fmax.reduce(its_ms, axis=1, initial=np.nan)
    of_steps_ms = known(longest_ms)
    long_ms = np.quantile(of_steps_ms, 0.75) if len(of_steps_ms) else 0.0
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

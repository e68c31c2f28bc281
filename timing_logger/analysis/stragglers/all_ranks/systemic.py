"""Find verdicts that name no single rank: a slow role, diffuse losses, or a healthy run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from timing_logger.analysis.series.peers import (
    column_medians,
    log_ratios,
    peer_medians,
    relative_scores,
    row_medians,
)
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.stragglers.all_ranks.coverage import most_of
from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.facts.of_all_ranks import LostToSlowest, SlowRole
from timing_logger.analysis.stragglers.facts.of_ranks import Gate
from timing_logger.analysis.stragglers.result import Verdict
from timing_logger.analysis.stragglers.slow.slow_steps import SlowSteps, slow_steps
from timing_logger.analysis.tables import Floats, Ints


def whole_role(case: Case) -> Verdict | None:
    """Return the verdict that all ranks of a role are slower than the typical other role, over enough steps.

    The roles are compared by all their own work, and else by those operations in which a role is slower, if
    these are most of its work: an operation that hides waiting, such as gradient clipping that reduces
    inside, is long on all ranks except those of a slow role.

    Returns:
        The costliest such verdict; None if there is none.
    """
    times, by_role = case.times, case.by_role
    if len(by_role) < 2 or _may_be_passed_on(times):
        return None
    self_ms = np.stack([row_medians(times.self_ms[:, columns]) for columns in by_role.values()], axis=1)
    found = _slow_roles(case, self_ms) or _slow_in_most(case, self_ms)
    return max(found, key=lambda verdict: verdict.cost_ms, default=None)


def _slow_in_most(case: Case, self_ms: Floats) -> list[Verdict]:
    times, by_role = case.times, case.by_role
    if not times.phases:
        return []
    typical = [[row_medians(own_ms[:, columns]) for columns in by_role.values()] for own_ms in times.phase_ms]
    phase_ms = np.moveaxis(np.array(typical), 1, 2)  # phases x steps x roles
    found = []
    for role in range(len(by_role)):
        slower_ms = phase_ms[_slower_in(phase_ms, role)].sum(axis=0)
        if np.nansum(slower_ms[:, role]) >= case.policy.min_role_work_share * np.nansum(self_ms[:, role]):
            found += _slow_roles(case, slower_ms, only=role)
    return found


def _slower_in(phase_ms: Floats, role: int) -> Ints:
    """Return the phases that all roles have and in which this role typically is slower."""
    typical = np.stack([column_medians(own_ms) for own_ms in phase_ms])
    others = column_medians(np.delete(typical, role, axis=1).T)
    return np.flatnonzero((typical > 0).all(axis=1) & (typical[:, role] > others))


def _slow_roles(case: Case, role_ms: Floats, only: int | None = None) -> list[Verdict]:
    """Return the verdicts on slow roles, by times in ms (steps x roles); ``only`` selects one role."""
    slow_of_all = slow_steps(log_ratios(role_ms, peer_medians(role_ms)), case.policy)
    found = [_role_verdict(case, role_ms, slow) for slow in slow_of_all if only in (None, slow.column)]
    return [verdict for verdict in found if verdict is not None]


def _may_be_passed_on(times: StepTimes) -> bool:
    """Tell whether rows of own work exist but cover little: the rest may be waiting that is not logged."""
    return times.from_gaps and len(times.phases) > 1


def _role_verdict(case: Case, role_ms: Floats, slow: SlowSteps) -> Verdict | None:
    times, policy = case.times, case.policy
    role, columns = list(case.by_role.items())[slow.column]
    score = float(relative_scores(role_ms[slow.steps])[slow.column])
    needed = min(policy.min_slow_steps, int((~np.isnan(role_ms[:, slow.column])).sum()))
    covered, least = _covered(times, columns, role_ms[:, slow.column]), policy.min_role_work_share
    gates = (
        Gate.below("score of the role", score, policy.flagged_score),
        Gate.at_least("slow steps", len(slow.steps), needed),
        Gate("share of its time that these rows cover", covered, least, not covered < least),
    )
    if not all(gate.passed for gate in gates):
        return None
    ranks = tuple(times.ranks[column] for column in columns)
    beyond_ms = role_ms[slow.steps, slow.column] - peer_medians(role_ms)[slow.steps, slow.column]
    return Verdict(
        verdict="role", ranks=ranks, labels=role, phase=_longest_phase(times, slow.steps, columns),
        window=slow.kind, **times.step_range(slow.steps)._asdict(), slow_steps=len(slow.steps),
        score=score, cost_ms=float(np.maximum(beyond_ms, 0).sum()), gates=gates,
        evidence=(SlowRole(role, ranks, float(np.exp(slow.level))),),
    )  # fmt: skip


def _covered(times: StepTimes, columns: Ints, role_ms: Floats) -> float:
    """Return the fraction of a role's time between communication that its rows cover; NaN if unknown."""
    between_ms = row_medians(times.gap_ms[:, columns])
    known = ~np.isnan(between_ms) & ~np.isnan(role_ms)
    spent_ms = float(between_ms[known].sum())
    return float(role_ms[known].sum()) / spent_ms if spent_ms > 0 else float("nan")


def _longest_phase(times: StepTimes, steps: Ints, columns: Ints) -> str:
    """Return the phase in which the ranks spend most beyond what all ranks typically spend; "" if none."""
    beyond = [
        float(np.nansum(row_medians(phase_ms[np.ix_(steps, columns)]) - row_medians(phase_ms[steps])))
        for phase_ms in times.phase_ms
    ]
    return times.phases[int(np.argmax(beyond))] if beyond else ""


def diffuse(case: Case, without_owner: bool) -> Verdict:
    """Return the verdict that much time is lost to late ranks, but to none in particular; or ``healthy``.

    Args:
        case: the run to be judged.
        without_owner: whether there are slow ranks that may not be named together: they are too many, or
            explain too little.
    """
    times, most = case.times, case.policy.max_lost_share
    lost = _lost_share(times, case.by_role)
    too_much = lost > most
    gate = Gate("share of the time lost to the slowest of each step", lost, most, too_much)
    late_ms = _late_ms(times, case.by_role)
    matters = times.share_of_run(float(late_ms.sum())) >= case.policy.visible_cost_share
    if not matters or (not too_much and not without_owner):
        return Verdict(verdict="healthy", gates=(gate,))
    whom = most_of(times.ranks, late_ms)
    return Verdict(
        verdict="diffuse", cost_ms=float(late_ms.sum()), gates=(gate,), waited_for=whom,
        evidence=(LostToSlowest(lost, whom),),
    )  # fmt: skip


def _lost_share(times: StepTimes, by_role: Mapping[str, Ints]) -> float:
    total_ms = float(np.nansum(np.fmax.reduce(times.self_ms, axis=1, initial=np.nan)))
    return float(_late_ms(times, by_role).sum()) / total_ms if total_ms > 0 else float("nan")


def _late_ms(times: StepTimes, by_role: Mapping[str, Ints]) -> Floats:
    """Return for each rank how much longer it took than the typical rank where it was the slowest."""
    lost_ms = np.zeros(len(times.ranks))
    known = np.flatnonzero(~np.isnan(times.self_ms).all(axis=1))
    if not by_role or not len(known):
        return lost_ms
    typical_ms = np.fmax.reduce([row_medians(times.self_ms[:, columns]) for columns in by_role.values()])
    slowest = np.nanargmax(times.self_ms[known], axis=1)
    beyond_ms = np.nan_to_num(times.self_ms[known, slowest] - typical_ms[known])
    np.add.at(lost_ms, slowest, beyond_ms)
    return lost_ms

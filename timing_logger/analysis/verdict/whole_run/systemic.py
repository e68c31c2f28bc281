"""Find what no single rank explains: a slow role, time that ranks lose in turn, and waiting that is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.analysis.step_times import peers
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case, Judgement
from timing_logger.analysis.verdict.who import equal_work
from timing_logger.analysis.verdict.who.candidates import STEPS
from timing_logger.analysis.verdict.who.pricing import Pricing
from timing_logger.analysis.verdict.who.slow_steps import SlowSteps, slow_steps
from timing_logger.results.rank_facts import Gate, LostToSlowest, Pauses, SlowRole, UnevenWork
from timing_logger.results.verdict import Owner, Verdict

_MOST_NAMED = 3


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
    self_ms = np.stack([peers.row_medians(times.self_ms[:, columns]) for columns in by_role.values()], axis=1)
    found = _slow_roles(case, self_ms) or _slow_in_most(case, self_ms)
    return max(found, key=lambda verdict: verdict.cost_ms, default=None)


def _slow_in_most(case: Case, self_ms: Floats) -> list[Verdict]:
    times, by_role = case.times, case.by_role
    if not times.operations:
        return []
    columns_of = by_role.values()
    typical = [
        [peers.row_medians(its_ms[:, columns]) for columns in columns_of] for its_ms in times.operation_ms
    ]
    operation_ms = np.moveaxis(np.array(typical), 1, 2)  # operations x steps x roles
    found = []
    for role in range(len(by_role)):
        slower_ms = operation_ms[_slower_in(operation_ms, role)].sum(axis=0)
        if np.nansum(slower_ms[:, role]) >= case.policy.min_role_work_share * np.nansum(self_ms[:, role]):
            found += _slow_roles(case, slower_ms, only=role)
    return found


def _slower_in(operation_ms: Floats, role: int) -> Ints:
    """Return the operations that all roles have and in which this role typically is slower."""
    typical = np.stack([peers.column_medians(own_ms) for own_ms in operation_ms])
    others = peers.column_medians(np.delete(typical, role, axis=1).T)
    return np.flatnonzero((typical > 0).all(axis=1) & (typical[:, role] > others))


def _slow_roles(case: Case, role_ms: Floats, only: int | None = None) -> list[Verdict]:
    """Return the verdicts on slow roles, by times in ms (steps x roles); ``only`` selects one role."""
    slow_of_all = slow_steps(peers.peer_ratios(role_ms), case.policy)
    found = [_role_verdict(case, role_ms, slow) for slow in slow_of_all if only in (None, slow.column)]
    return [verdict for verdict in found if verdict is not None]


def _may_be_passed_on(times: StepTimes) -> bool:
    """Tell whether rows of own work exist but cover little: the rest may be waiting that is not logged."""
    return times.from_gaps and len(times.operations) > 1


def _role_verdict(case: Case, role_ms: Floats, slow: SlowSteps) -> Verdict | None:
    times, policy = case.times, case.policy
    role, columns = list(case.by_role.items())[slow.column]
    score = float(peers.relative_scores(role_ms[slow.steps])[slow.column])
    needed = min(policy.min_slow_steps, int((~np.isnan(role_ms[:, slow.column])).sum()))
    covered, least = _covered(times, columns, role_ms[:, slow.column]), policy.min_role_work_share
    gates = (
        Gate.below("score of the role", score, policy.flagged_score),
        Gate.at_least(STEPS, len(slow.steps), needed),
        Gate("share of its time that these rows cover", covered, least, not covered < least),
    )
    if not all(gate.passed for gate in gates):
        return None
    ranks = times.ranks_of(columns)
    beyond_ms = role_ms[slow.steps, slow.column] - peers.peer_medians(role_ms)[slow.steps, slow.column]
    return Verdict(
        verdict="role", ranks=ranks, labels=role, operation=_longest_operation(times, slow.steps, columns),
        window=slow.kind, **times.step_range(slow.steps)._asdict(), slow_steps=len(slow.steps),
        score=score, cost_ms=float(np.maximum(beyond_ms, 0).sum()), gates=gates,
        evidence=(SlowRole(role, ranks, float(np.exp(slow.level))),),
    )  # fmt: skip


def _covered(times: StepTimes, columns: Ints, role_ms: Floats) -> float:
    """Return the fraction of a role's time between communication that its rows cover; NaN if unknown."""
    between_ms = peers.row_medians(times.gap_ms[:, columns])
    known = ~np.isnan(between_ms) & ~np.isnan(role_ms)
    spent_ms = float(between_ms[known].sum())
    return float(role_ms[known].sum()) / spent_ms if spent_ms > 0 else float("nan")


def _longest_operation(times: StepTimes, steps: Ints, columns: Ints) -> str:
    """Return the operation in which the ranks spend most beyond what all ranks typically do; "" if none."""
    beyond = [
        float(np.nansum(peers.row_medians(its_ms[np.ix_(steps, columns)]) - peers.row_medians(its_ms[steps])))
        for its_ms in times.operation_ms
    ]
    return times.operations[int(np.argmax(beyond))] if beyond else ""


def diffuse(case: Case, without_owner: bool) -> Verdict:
    """Return the verdict that much time is lost to late ranks, but to none in particular; or ``healthy``.

    Args:
        case: the run to be judged.
        without_owner: whether there are slow ranks that may not be named together: they are too many, or
            explain too little.
    """
    times, most = case.times, case.policy.max_lost_share
    lost_ms, slowest_ms = late_ms(case), times.slowest_ms
    lost = float(lost_ms.sum()) / slowest_ms if slowest_ms > 0 else float("nan")
    too_much = lost > most
    gate = Gate("share of the time lost to the slowest of each step", lost, most, too_much)
    matters = times.share_of_run(float(lost_ms.sum())) >= case.policy.visible_cost_share
    if not matters or (not too_much and not without_owner):
        return Verdict(verdict="healthy", gates=(gate,))
    whom = most_of(times.ranks, lost_ms)
    return Verdict(
        verdict="diffuse", cost_ms=float(lost_ms.sum()), gates=(gate,), waited_for=whom,
        evidence=(LostToSlowest(lost, whom),),
    )  # fmt: skip


def late_ms(case: Case) -> Floats:
    """Return for each rank how much longer it took than the typical rank where it was the slowest."""
    times, by_role = case.times, case.by_role
    lost_ms = np.zeros(len(times.ranks))
    known = np.flatnonzero(~np.isnan(times.self_ms).all(axis=1))
    if not by_role or not len(known):
        return lost_ms
    typical_ms = np.fmax.reduce(
        [peers.row_medians(times.self_ms[:, columns]) for columns in by_role.values()]
    )
    slowest = np.nanargmax(times.self_ms[known], axis=1)
    beyond_ms = np.nan_to_num(times.self_ms[known, slowest] - typical_ms[known])
    np.add.at(lost_ms, slowest, beyond_ms)
    return lost_ms


# -- for whom ranks waited ------------------------------------------------------------------------------


def with_unexplained_waits(verdict: Verdict, times: StepTimes) -> Verdict:
    """Return a verdict that found nothing, with how much ranks waited all the same, and for whom."""
    waits = times.waits
    return replace(
        verdict,
        not_explained=_part(times, waits.varying_ms),
        waited_for=most_of(times.ranks, waits.varying_ms),
        recurring=_part(times, waits.recurring_ms),
        recurring_for=most_of(times.ranks, waits.recurring_ms),
        unmatched=_part(times, waits.unmatched_ms),
    )


def _part(times: StepTimes, waited_ms: Floats) -> float:
    return times.share_of_run(float(waited_ms.sum()) / len(times.ranks))


def most_of(ranks: Sequence[int], lost_ms: Floats) -> tuple[int, ...]:
    """Return the fewest ranks to which most of a time goes, the most first.

    None if it takes more than three, or than a third of the ranks: then it goes to no rank in particular.

    Args:
        ranks: the rank of each entry of ``lost_ms``, which may have one more, for what is of no rank.
        lost_ms: what goes to each.
    """
    most = min(_MOST_NAMED, max(1, len(ranks) // 3))
    order = np.argsort(-lost_ms, kind="stable")[:most]
    enough = np.cumsum(lost_ms[order]) > lost_ms.sum() / 2
    if not enough.any():
        return ()
    fewest = order[: int(np.argmax(enough)) + 1].tolist()
    return tuple(ranks[column] for column in fewest) if max(fewest) < len(ranks) else ()


def explained(found: Judgement, case: Case, pricing: Pricing) -> Judgement:
    """Return a judgement that names nobody, with what the run would be shorter without.

    If ranks are late in turn and what costs most explains that, it is the reason that much time is lost.
    """
    told: list[_Explanation] = []
    if case.times.workload.of_step is not None:
        equal = equal_work.at_equal_work(case, equal_work.equal_shares, assumed="nothing")
        told.append(_explanation(found, case, pricing, UnevenWork, "work", equal))
    for operation in case.times.pauses:
        without = case.times.without_pauses(operation)
        told.append(_explanation(found, case, pricing, partial(Pauses, operation), "", without))
    told = sorted((one for one in told if one.is_visible), key=lambda one: -one.cost_ms)
    if not told:
        return found
    first, verdict = told[0], found.verdict
    facts = (*(one.fact for one in told), *verdict.evidence)
    if first.explained < case.policy.min_explained_by_work or verdict.verdict == "group-wide":
        shared = first.owner == "work" and verdict.verdict == "diffuse"
        owner = equal_work.owner_by_part(first.explained, case.policy, otherwise="") if shared else ""
        return found._replace(verdict=replace(verdict, owner=owner, evidence=facts))
    lost = replace(
        verdict, verdict="diffuse", owner=first.owner, cost_ms=first.cost_ms, cost_share=first.fact.run_share,
        waited_for=most_of(case.times.ranks, late_ms(found.case)), evidence=facts,
    )  # fmt: skip
    return found._replace(verdict=lost)


class _Explanation(NamedTuple):
    """What time may be lost to.

    Attributes:
        fact: what it is.
        owner: the owner of the delay, if it explains it.
        cost_ms: by how much the run would be shorter without it, in ms.
        explained: which part of the time that ranks are late it explains.
        is_visible: whether it costs enough of the run to be told.
    """

    fact: UnevenWork | Pauses
    owner: Owner
    cost_ms: float
    explained: float
    is_visible: bool


def _explanation(
    found: Judgement, case: Case, pricing: Pricing, kind: Callable[[float], UnevenWork | Pauses],
    owner: Owner, without: StepTimes,
) -> _Explanation:  # fmt: skip
    """Price what makes the times of a case differ from those ``without`` it."""
    cost_ms = pricing.saved_if_quicker_ms(equal_work.times_as_long(case.times, without))
    share = case.times.share_of_run(cost_ms)
    late = float(late_ms(found.case).sum())
    left = float(late_ms(case.with_times(without.by_gaps() if found.case.times.from_gaps else without)).sum())
    explained = 1 - left / late if late > 0 else 0.0
    return _Explanation(kind(share), owner, cost_ms, explained, share >= case.policy.visible_cost_share)

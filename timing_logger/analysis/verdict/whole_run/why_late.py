"""Find why time is lost where no rank is slow: uneven work, or pauses, such as of the garbage collector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case, Judgement
from timing_logger.analysis.verdict.who import equal_work
from timing_logger.analysis.verdict.who.pricing import Pricing
from timing_logger.analysis.verdict.whole_run.systemic import late_ms, most_of
from timing_logger.results.rank_facts import Pauses, UnevenWork
from timing_logger.results.verdict import Owner


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

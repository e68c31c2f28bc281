"""Judge ranks by their own times: by rows of own work, and by the time between communication."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from timing_logger.analysis.step_times.step_times import UNLOGGED, StepTimes
from timing_logger.analysis.stragglers.all_ranks.all_slower import all_slower
from timing_logger.analysis.stragglers.all_ranks.systemic import diffuse, whole_role
from timing_logger.analysis.stragglers.case import Case, Judgement
from timing_logger.analysis.stragglers.cost.pricing import Pricing, waited_for_ms
from timing_logger.analysis.stragglers.evidence import (
    as_one,
    few_steps,
    how_slow_together,
    passed_on,
    waited_for,
    what_it_rests_on,
    why_not,
)
from timing_logger.analysis.stragglers.facts.of_ranks import Costliest, Gate, HostOrWork, SlowPhase
from timing_logger.analysis.stragglers.result import Verdict, VerdictKind
from timing_logger.analysis.stragglers.slow.candidate import Candidate, phase_of, unlogged_between
from timing_logger.analysis.stragglers.who.culprits import EXPLAINED, Culprits, culprits
from timing_logger.analysis.stragglers.who.hosts import may_be_its_work
from timing_logger.analysis.stragglers.who.lockstep import Party


def by_own_times(case: Case, pricing: Pricing) -> Judgement:
    """Judge by the rows of own work and, unless they show all, also by the time between communication.

    What the rows show remains true where they do not cover all time. So if the time between communication, in
    which waiting may hide, shows no slow rank, the verdict by the rows is kept, unless they cover too little
    to call the run healthy.
    """
    by_rows, they_suffice = _Found.on(case, pricing), case.times.rows_cover(case.policy.min_work_share)
    is_healthy = by_rows.verdict.verdict == "healthy"
    if they_suffice and not is_healthy:
        return by_rows.judgement()
    times = case.times.by_gaps()
    by_gaps = _Found.on(case.with_times(times), pricing.on(times))
    if by_rows.verdict.verdict == "rank" and not _outdone(by_rows, by_gaps):
        return by_rows.judgement()
    if by_gaps.verdict.verdict in ("rank", "suspect") or (is_healthy and not they_suffice):
        return by_gaps.judgement()
    return by_rows.judgement()


class _Found(NamedTuple):
    """A verdict, with the times and the slow ranks that it is based on."""

    case: Case
    verdict: Verdict
    culprits: Culprits

    @classmethod
    def on(cls, case: Case, pricing: Pricing) -> _Found:
        found = culprits(case, pricing)
        return cls(case, _verdict(case, found), found)

    def judgement(self) -> Judgement:
        of_ranks = self.verdict.verdict in ("rank", "suspect")
        slow = self.culprits.slow_steps(self.case.times) if of_ranks else {}
        return Judgement(self.case, self.verdict, slow=slow)


def _outdone(by_rows: _Found, by_gaps: _Found) -> bool:
    """Tell whether unlogged time costs more than what the rows of the named ranks show.

    Unlogged time of another rank may be waiting for the named ranks, but then it costs no more than their
    delay. The unlogged time of a named rank contains its logged excess, so it must cost more than that.
    """
    named, times_as_much = by_rows.verdict.ranks, by_rows.case.policy.min_outdoing_times
    ranks = by_rows.case.times.ranks
    named_ms = sum(c.cost_ms for c in by_rows.culprits.found if ranks[c.column] in named)
    return any(
        found.may_be_named
        and found.cost_ms > (times_as_much if ranks[found.column] in named else 1) * named_ms
        for found in by_gaps.culprits.found
    )


def _verdict(case: Case, found: Culprits) -> Verdict:
    verdict = _of_whom(case, found)
    few = few_steps(case, nobody_is_slow=True) if verdict.verdict == "healthy" else ()
    return replace(
        verdict,
        suspects=found.suspects,
        cost_share=case.times.share_of_run(verdict.cost_ms),
        evidence=(*verdict.evidence, *few, *what_it_rests_on(case)),
    )


def _of_whom(case: Case, found: Culprits) -> Verdict:
    """Return the first verdict that holds, in the order that ``stragglers`` states."""
    times = case.times
    if found.named:
        return _of_ranks(case, found)
    refused = tuple(why_not(times, candidate, found.last_gate) for candidate in found.found[:3])
    of_many = whole_role(case) or all_slower(case)
    if of_many is None and found.probable is not None:
        return _probably(case, found, found.probable)
    without_owner = any(candidate.may_be_named for candidate in found.found)
    minded = replace(times, self_ms=waited_for_ms(times, found.found))
    verdict = of_many or diffuse(case.with_times(minded), without_owner)
    return replace(verdict, evidence=(*verdict.evidence, *refused))


def _of_ranks(case: Case, found: Culprits) -> Verdict:
    times = case.times
    party, first, gate = found.named[0], found.named[0].first, found.last_gate
    columns = tuple(dict.fromkeys(one.column for each in found.named for one in each.candidates))
    ranks = tuple(times.ranks[column] for column in columns)
    is_role = may_be_its_work(case, party)
    others = [candidate for candidate in found.found if times.ranks[candidate.column] not in ranks]
    return replace(
        _about(times, first, "role" if is_role else "rank", found),
        ranks=ranks,
        bond=party.bond.kind if set(columns) == set(party.columns) else "",
        gates=(*first.gates, *((gate,) if gate else ())),
        evidence=(
            *(fact for each in found.named for fact in how_slow_together(times, each)),
            *((HostOrWork(),) if is_role else ()),
            _slow_phase(times, first),
            *waited_for(times, first),
            *passed_on(times, first, columns),
            *(why_not(times, candidate, gate) for candidate in others[:3]),
            *few_steps(case, nobody_is_slow=False),
        ),
    )


def _slow_phase(times: StepTimes, candidate: Candidate) -> SlowPhase:
    phase, share = phase_of(times, candidate)
    return SlowPhase(phase, times.ranks[candidate.column], share)


def _probably(case: Case, found: Culprits, party: Party) -> Verdict:
    times, policy = case.times, case.policy
    first, suspect = party.first, found.suspects[0]
    share = Gate.at_least(EXPLAINED, suspect.share, policy.min_explained_share)
    others = [candidate for candidate in found.found if candidate.column not in party.columns]
    return replace(
        _about(times, first, "suspect", found),
        bond=party.bond.kind,
        gates=(*first.gates, share),
        evidence=(
            why_not(times, first, share if not share.passed else None),
            *as_one(times, party),
            Costliest(suspect.likelihood),
            *(why_not(times, candidate, None) for candidate in others[:3]),
            *few_steps(case, nobody_is_slow=False),
        ),
    )


def _about(times: StepTimes, first: Candidate, kind: VerdictKind, found: Culprits) -> Verdict:
    """Make the verdict on a slow rank, named or suspected."""
    phase = phase_of(times, first)[0]
    return Verdict(
        verdict=kind,
        phase=phase,
        between=unlogged_between(times, first) if phase == UNLOGGED else (),
        labels=first.role,
        window=first.slow.kind,
        **times.step_range(first.slow.steps)._asdict(),
        slow_steps=len(first.slow.steps),
        score=first.score,
        cost_ms=found.cost_ms,
    )

"""Judge ranks by their own times: by rows of own work, and by the time between communication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.step_times.peers import column_medians, n_known_steps, peer_medians
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case, Judgement
from timing_logger.analysis.verdict.owner import (
    OF_RANKS,
    at_equal_work,
    equal_shares,
    explained,
    owned,
    times_as_long,
)
from timing_logger.analysis.verdict.who.candidates import Candidate, operation_of, unlogged_between
from timing_logger.analysis.verdict.who.culprits import EXPLAINED, Culprits, culprits
from timing_logger.analysis.verdict.who.lockstep import Party, may_be_its_work
from timing_logger.analysis.verdict.who.pricing import Pricing, waited_for_ms
from timing_logger.analysis.verdict.whole_run.systemic import all_slower, diffuse, whole_role
from timing_logger.results import criteria, facts
from timing_logger.results.facts import Fact, OneRank
from timing_logger.results.plain import UNLOGGED
from timing_logger.results.verdict import Verdict, VerdictKind

_MOST_OTHERS = 3  # are said why they are not named


def with_owner(case: Case, pricing: Pricing) -> Judgement:
    """Judge ranks by their own times, as recorded and as if all had the same to do.

    A rank that is slow only at equal work is hidden by how much the work of all varies. Its cost then is what
    it takes beyond the time that is due to its work.
    """
    found, times = by_own_times(case, pricing), case.times
    equal = at_equal_work(case, equal_shares) if times.workload.is_known else None
    if equal is not None and times.workload.of_step is not None:
        beside_peers = times_as_long(times, at_equal_work(case, peer_medians))
        at_equal = by_own_times(case.with_times(equal), pricing.at_equal_work(equal, beside_peers))
        if _outdoes(at_equal, found):
            recorded = times.by_gaps() if at_equal.case.times.from_gaps else times
            return owned(at_equal, recorded, at_equal.case.times)
    if found.verdict.verdict in ("healthy", "diffuse", "group-wide"):
        return explained(found, case, pricing)
    if equal is not None and found.case.times.from_gaps:
        equal = equal.by_gaps()
    return owned(found, found.case.times, equal)


def _outdoes(at_equal: Judgement, found: Judgement) -> bool:
    """Tell whether ranks are found at equal work only, or are certain only there."""
    kinds = found.verdict.verdict, at_equal.verdict.verdict
    return kinds[1] in OF_RANKS and (kinds[0] not in OF_RANKS or kinds == ("suspect", "rank"))


def by_own_times(case: Case, pricing: Pricing) -> Judgement:
    """Judge by the rows of own work and, unless they show all, also by the time between communication.

    What the rows show remains true where they do not cover all time. So if the time between communication, in
    which waiting may hide, shows no slow rank, the verdict by the rows is kept, unless they cover too little
    to call the run healthy.
    """
    by_rows, they_suffice = _Judged.on(case, pricing), case.times.rows_cover(case.policy.min_work_share)
    is_healthy = by_rows.verdict.verdict == "healthy"
    if they_suffice and not is_healthy:
        return by_rows.judgement()
    times = case.times.by_gaps()
    by_gaps = _Judged.on(case.with_times(times), pricing.on(times))
    if by_rows.verdict.verdict == "rank" and not _outdone(by_rows, by_gaps):
        return by_rows.judgement()
    if by_gaps.verdict.verdict in OF_RANKS or (is_healthy and not they_suffice):
        return by_gaps.judgement()
    return by_rows.judgement()


class _Judged(NamedTuple):
    """A verdict, with the times and the slow ranks that it is based on."""

    case: Case
    verdict: Verdict
    culprits: Culprits

    @classmethod
    def on(cls, case: Case, pricing: Pricing) -> _Judged:
        found = culprits(case, pricing)
        return cls(case, _verdict(case, found), found)

    def judgement(self) -> Judgement:
        of_ranks = self.verdict.verdict in OF_RANKS
        slow = self.culprits.slow_steps(self.case.times) if of_ranks else {}
        return Judgement(self.case, self.verdict, slow=slow)


def _outdone(by_rows: _Judged, by_gaps: _Judged) -> bool:
    """Tell whether unlogged time costs more than what the rows of the named ranks show.

    Unlogged time of another rank may be waiting for the named ranks, but then it costs no more than their
    delay. The unlogged time of a named rank contains its logged excess, so it must cost more than that.
    """
    named, times_as_much = by_rows.verdict.ranks, by_rows.case.policy.min_outdoing_times
    ranks = by_rows.case.times.ranks
    named_ms = sum(c.cost_ms for c in by_rows.culprits.candidates if ranks[c.column] in named)
    return any(
        found.may_be_named
        and found.cost_ms > (times_as_much if ranks[found.column] in named else 1) * named_ms
        for found in by_gaps.culprits.candidates
    )


def _verdict(case: Case, found: Culprits) -> Verdict:
    verdict = _of_whom(case, found)
    few = _few_steps(case, nobody_is_slow=True) if verdict.verdict == "healthy" else ()
    return replace(
        verdict,
        suspects=found.suspects,
        cost_share=case.times.share_of_run(verdict.cost_ms),
        evidence=(*verdict.evidence, *few, *_what_it_rests_on(case)),
    )


def _of_whom(case: Case, found: Culprits) -> Verdict:
    """Return the first verdict that holds, in the order that ``stragglers`` states."""
    times = case.times
    if found.named:
        return _of_ranks(case, found)
    refused = _why_not_others(times, found.candidates, found.last_gate)
    of_many = whole_role(case) or all_slower(case)
    if of_many is None and found.probable is not None:
        return _probably(case, found, found.probable)
    without_owner = any(candidate.may_be_named for candidate in found.candidates)
    minded = replace(times, self_ms=waited_for_ms(times, found.candidates))
    verdict = of_many or diffuse(case.with_times(minded), without_owner)
    return replace(verdict, evidence=(*verdict.evidence, *refused))


def _of_ranks(case: Case, found: Culprits) -> Verdict:
    times = case.times
    party, first, gate = found.named[0], found.named[0].first, found.last_gate
    columns = tuple(dict.fromkeys(one.column for each in found.named for one in each.candidates))
    ranks = times.ranks_of(columns)
    is_role = may_be_its_work(case, party)
    others = [candidate for candidate in found.candidates if times.ranks[candidate.column] not in ranks]
    return replace(
        _about(times, first, "role" if is_role else "rank", found),
        ranks=ranks,
        bond=party.bond.kind if set(columns) == set(party.columns) else "",
        gates=(*first.gates, *((gate,) if gate else ())),
        evidence=(
            *(fact for each in found.named for fact in _how_slow_together(times, each)),
            *((facts.HostOrWork(),) if is_role else ()),
            _slow_operation(times, first),
            *_waited_for(times, first),
            *_passed_on(times, first, columns),
            *_why_not_others(times, others, gate),
            *_few_steps(case, nobody_is_slow=False),
        ),
    )


def _slow_operation(times: StepTimes, candidate: Candidate) -> facts.SlowOperation:
    operation, share = operation_of(times, candidate)
    return facts.SlowOperation(operation, times.ranks[candidate.column], share)


def _probably(case: Case, found: Culprits, party: Party) -> Verdict:
    times, policy = case.times, case.policy
    first, suspect = party.first, found.suspects[0]
    share = facts.Gate.at_least(EXPLAINED, suspect.share, policy.min_explained_share)
    others = [candidate for candidate in found.candidates if candidate.column not in party.columns]
    return replace(
        _about(times, first, "suspect", found),
        bond=party.bond.kind,
        gates=(*first.gates, share),
        evidence=(
            _why_not(times, first, share if not share.passed else None),
            *_as_one(times, party),
            facts.Costliest(suspect.likelihood),
            *_why_not_others(times, others, None),
            *_few_steps(case, nobody_is_slow=False),
        ),
    )


def _about(times: StepTimes, first: Candidate, kind: VerdictKind, found: Culprits) -> Verdict:
    """Make the verdict on a slow rank, named or suspected."""
    operation = operation_of(times, first)[0]
    return Verdict(
        verdict=kind,
        operation=operation,
        between=unlogged_between(times, first) if operation == UNLOGGED else (),
        labels=first.role,
        window=first.slow.kind,
        **times.step_range(first.slow.steps)._asdict(),
        slow_steps=len(first.slow.steps),
        score=first.score,
        cost_ms=found.cost_ms,
    )


# -- what it rests on -----------------------------------------------------------------------------------


def _waited_for(times: StepTimes, candidate: Candidate) -> tuple[Fact, ...]:
    """Return how much of the waiting in its slow steps was for a candidate; nothing if others had more."""
    for_it_ms = np.nansum(times.waits.for_it_ms[candidate.slow.steps], axis=0)
    most_ms, total_ms = for_it_ms.max(initial=0.0), for_it_ms.sum()
    if not most_ms > 0 or for_it_ms[candidate.column] < most_ms:
        return ()
    return (facts.MostWaitedFor(times.ranks[candidate.column], float(most_ms / total_ms)),)


def _passed_on(times: StepTimes, candidate: Candidate, named: Sequence[int]) -> tuple[Fact, ...]:
    """Return the ranks that are waited for without being slow: they pass on the delay of another rank.

    The ranks in the columns ``named`` are slow themselves.

    A wait leads through them to the rank that is slow, unless rows do not tell what they waited for.
    """
    steps = candidate.slow.steps
    for_it_ms = np.nansum(times.waits.for_it_ms[steps], axis=0)
    levels = column_medians(times.self_ms[steps])
    is_waited_for = (for_it_ms > 0) & (for_it_ms >= criteria.WORTH_NAMING_SHARE * for_it_ms.sum())
    longest_ms = np.nansum(times.waits.longest_ms[steps], axis=0)
    may_have_waited = times.waits.unmatched_ms[steps].sum(axis=0) > longest_ms
    late = np.flatnonzero(is_waited_for & may_have_waited & (levels < levels[candidate.column]))
    late = np.setdiff1d(late, named)
    return (facts.PassingOn(times.ranks_of(late)),) if len(late) else ()


def _how_slow_together(times: StepTimes, party: Party) -> tuple[Fact, ...]:
    """Return how slow a party is, when, and what makes its ranks slow as one."""
    slowness = _slowness(times, party.first)
    if party.bond.kind == "host":
        return (facts.SlowHost(party.bond.host, slowness), *_as_one(times, party))
    return (facts.SlowRank(times.ranks[party.first.column], slowness), *_as_one(times, party))


def _slowness(times: StepTimes, candidate: Candidate) -> facts.Slowness:
    slow = candidate.slow
    return facts.Slowness(float(np.exp(slow.level)), slow.kind, times.step_range(slow.steps), len(slow.steps))


def _why_not(times: StepTimes, candidate: Candidate, last_gate: facts.Gate | None) -> Fact:
    """Return how slow a candidate is, and the gates at which it failed.

    Args:
        times: the times of the run.
        candidate: the candidate.
        last_gate: the gate that was checked after those of the candidate, if any.
    """
    rank, slowness = times.ranks[candidate.column], _slowness(times, candidate)
    failed = tuple(gate for gate in candidate.gates if not gate.passed)
    if failed:
        return facts.NotNamed(rank, slowness, failed)
    if last_gate is None:
        return facts.SlowRank(rank, slowness)
    if last_gate.passed:
        return facts.ExplainedWithout(rank, slowness, last_gate.value)
    return facts.NotNamed(rank, slowness, (last_gate,))


def _why_not_others(
    times: StepTimes, candidates: Sequence[Candidate], last_gate: facts.Gate | None
) -> tuple[Fact, ...]:
    """Return the same of the first few candidates."""
    return tuple(_why_not(times, candidate, last_gate) for candidate in candidates[:_MOST_OTHERS])


def _as_one(times: StepTimes, party: Party) -> tuple[Fact, ...]:
    """Return what makes the ranks of a party slow as one, and what was looked at; nothing for one rank."""
    if party.is_alone:
        return ()
    bond, ranks = party.bond, times.ranks_of(party.columns)
    alike = facts.ActAsOne(ranks, bond.kind, bond.n_hosts, bond.host, bond.host_ranks, bond.together)
    if bond.together is not False:
        return (alike,)
    return (alike, facts.VaryAlone(operation_of(times, party.first)[0]))


def _few_steps(case: Case, *, nobody_is_slow: bool) -> tuple[Fact, ...]:
    """Return that the run has few steps; nothing if it has enough to name any rank."""
    recorded = n_known_steps(case.times.self_ms)
    return (facts.FewSteps(recorded, nobody_is_slow),) if 0 < recorded < case.policy.min_slow_steps else ()


def _what_it_rests_on(case: Case) -> tuple[Fact, ...]:
    """Return the source of self times, and what limits the comparison of ranks."""
    times = case.times
    alone = tuple(role for role, columns in case.by_role.items() if len(columns) == 1)
    # One of which nothing is known is not a healthy one.
    unknown = tuple(rank for i, rank in enumerate(times.ranks) if np.isnan(times.self_ms[:, i]).all())
    return (
        facts.SelfTimeBetween() if times.from_gaps else facts.SelfTimeOfRows(tuple(times.operations)),
        *((facts.SelfTimeUnknown(unknown),) if unknown else ()),
        *((facts.AloneInRole(alone),) if len(times.ranks) > 1 and alone else ()),
        *((OneRank(),) if len(times.ranks) == 1 else ()),
        *((facts.TwoRanks(),) if len(times.ranks) == 2 and not alone else ()),
        *(() if times.has_iterations else (facts.StepsCounted(),)),
        *((facts.EpochsCounted(),) if times.numbering.counted else ()),
    )

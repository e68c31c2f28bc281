"""Find the rank that is slow, in which phase, since when, and at what cost; or find that none is.

The time that each rank spends on its own account, without waiting for others, is compared with that of its
peers in the same step. So no clocks are compared, and a delay that is passed on from stage to stage stays
with the rank that caused it. Which rank arrives last is looked at only afterwards, as a check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.files import File, hosts_of
from timing_logger.analysis.hangs.diagnosis import run_end_of
from timing_logger.analysis.hangs.last_rows import last_rows
from timing_logger.analysis.hangs.result import RunEnd
from timing_logger.analysis.roles import roles_of
from timing_logger.analysis.runs import different_runs
from timing_logger.analysis.stragglers.all_slower import all_slower
from timing_logger.analysis.stragglers.candidates import Candidate
from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.communication import mostly_transfers, slow_communication
from timing_logger.analysis.stragglers.coverage import (
    inconclusive_ranks,
    not_explained,
    why_inconclusive,
    why_untimed,
)
from timing_logger.analysis.stragglers.culprits import EXPLAINED, Culprits, culprits
from timing_logger.analysis.stragglers.evidence import (
    HOST_OR_WORK,
    as_one,
    explained_phase,
    few_steps,
    few_steps_in_all,
    how_slow_together,
    passed_on,
    phase_of,
    unlogged_between,
    waited_for,
    what_it_rests_on,
    why_not,
)
from timing_logger.analysis.stragglers.hosts import may_be_its_work
from timing_logger.analysis.stragglers.lost_time import waited_for_ms
from timing_logger.analysis.stragglers.party import Party
from timing_logger.analysis.stragglers.policy import STANDARD, Policy
from timing_logger.analysis.stragglers.pricing import Pricing, pricing_of
from timing_logger.analysis.stragglers.result import Gate, Verdict, VerdictKind
from timing_logger.analysis.stragglers.step_times import (
    UNLOGGED,
    StepTimes,
    StepTimesPart,
    map_step_times,
    reduce_step_times,
)
from timing_logger.analysis.stragglers.systemic import diffuse, whole_role
from timing_logger.analysis.stragglers.unlike_links import why_unlike
from timing_logger.analysis.tables import Ints, of_pandas
from timing_logger.reading.lacking import Lack, lacking, lacking_in_words, stated_world_size
from timing_logger.reading.named_ranks import capital

if TYPE_CHECKING:
    import pandas as pd


def stragglers(
    timings: IntoDataFrameT, *, roles: Mapping[int, object] | None = None, policy: Policy = STANDARD
) -> Verdict:
    """Judge which ranks of a run are slow, if any.

    Args:
        timings: as ``read_timings`` returns.
        roles: the role of each rank, such as its pipeline stage: ranks of equal roles do equal work
            and are compared. By default roles are taken from a column ``role``, or from the labels that the
            loggers were given (``timings.attrs["files"]``); else all ranks have one role.
        policy: the numbers that decide.

    Returns:
        The first verdict of these that holds: a minority of one role's ranks passes every gate (``rank``);
        a role is slower than the others (``role``); all ranks are slower than in their own past
        (``group-wide``); one rank, or one of several that act as one, probably is slow (``suspect``); much
        time is lost to late ranks, but to no one in particular (``diffuse``); or ``healthy``. Slow transfers
        (``communication``) replace a verdict that costs less, and a run that hung is a ``hang`` rather than
        healthy or diffuse. The attribute ``judged`` tells whether ``healthy`` is known: it is not if no rank
        had a peer in enough steps, the files look like those of different runs, others waited visibly for a
        rank that nothing shows to be slow, or ranks may have waited for each other in calls that were counted
        and not timed; ``why`` then has the reason. The attribute ``end`` tells of any
        run whether it came to its end.
    """
    return judgement_of(timings, roles, policy=policy).verdict


class Judgement(NamedTuple):
    """A verdict, and what it is based on.

    Attributes:
        case: the times by step and rank, the role of each rank, and the policy.
        verdict: the verdict on these times.
        are_comparable: whether the ranks are of one run, as far as can be seen.
        slow: the positions of the slow steps of each rank that is named, or suspected, against its peers.
    """

    case: Case
    verdict: Verdict
    are_comparable: bool = True
    slow: Mapping[int, Ints] = MappingProxyType({})

    def ending_in(self, end: RunEnd) -> Judgement:
        """Return the judgement with the end of the run, and the policy.

        The verdict on a run that hung becomes ``hang``, unless it tells of slow ranks that cost time.
        """
        warned = (end.warning, *self.verdict.evidence) if end.warning else self.verdict.evidence
        verdict = replace(self.verdict, end=end, evidence=warned, policy=self.case.policy)
        says_little = verdict.verdict in ("healthy", "diffuse") or not verdict.cost_ms > 0
        if end.hangs and self.are_comparable and (says_little or not verdict.judged):
            verdict = replace(verdict, verdict="hang", judged=True, why="", ranks=end.culprits, phase="")
        return self._replace(verdict=verdict)


def judgement_of(
    timings: IntoDataFrameT,
    roles: Mapping[int, object] | None,
    end: RunEnd | None = None,
    *,
    policy: Policy = STANDARD,
) -> Judgement:
    """Judge a run, for ``stragglers``, ``windows`` and ``scores``.

    Args:
        timings, roles, policy: as those of ``stragglers``.
        end: the end of the run where it is known already; None to find it.
    """
    return reduce_judgement([map_judgement(timings)], roles, end, policy=policy)


def judgement_on(case: Case, files: Sequence[File]) -> Judgement:
    """Judge a run by its times, without looking at its end.

    Args:
        case: the run to be judged.
        files: ``attrs["files"]`` of ``read_timings``.
    """
    if mixed := different_runs(files):
        why = f"the files look like those of different runs: {mixed}"
        verdict = Verdict(verdict="healthy", judged=False, why=why, unjudged_ranks=tuple(case.times.ranks))
        return Judgement(case, verdict, are_comparable=False)
    pricing, hosts, untimed = pricing_of(case), hosts_of(files), why_untimed(files)
    found = _by_rows_or_gaps(case, pricing)
    pricing = pricing.on(found.case.times)
    verdict = _rather_communication(found.verdict, case.times, slow_communication(case, hosts, pricing))
    verdict = _as_far_as_known(verdict, found.case, lacking(files), pricing, untimed)
    if verdict.verdict == "healthy" and verdict.judged and (why := why_unlike(case, hosts, pricing)):
        verdict = replace(verdict, judged=False, why=why, unjudged_ranks=tuple(case.times.ranks))
    if verdict.verdict == "healthy" and verdict.judged:
        verdict = _rather_communication(verdict, case.times, mostly_transfers(case))
    if verdict.verdict == "healthy" and verdict.judged:
        verdict = replace(verdict, **not_explained(case.times)._asdict())
    every = case.times.recorded_every
    verdict = replace(verdict, recorded_every=every, cost_ms=every * verdict.cost_ms)
    return found._replace(verdict=replace(verdict, hosts=_hosts_of(verdict, hosts)))


def _hosts_of(verdict: Verdict, hosts: Mapping[int, str]) -> tuple[str, ...]:
    """Return the hosts of the ranks to look at; nothing where all ranks run on one host."""
    if len(set(hosts.values())) < 2:
        return ()
    return tuple(dict.fromkeys(hosts[rank] for rank in verdict.ranks_to_look_at if hosts.get(rank)))


def _rather_communication(verdict: Verdict, times: StepTimes, slow: Verdict | None) -> Verdict:
    """Return the verdict that communication is slow, if there is one and it costs more than the other."""
    if slow is None or (verdict.verdict != "healthy" and slow.cost_ms <= verdict.cost_ms):
        return verdict
    return replace(
        slow,
        suspects=verdict.suspects,
        cost_share=times.share_of_run(slow.cost_ms),
        unjudged_ranks=verdict.unjudged_ranks,
        evidence=(*slow.evidence, *verdict.evidence),
    )


_OF_ALL_RANKS = frozenset({"healthy", "diffuse", "communication"})
"""Verdicts that say in one way or another that no rank is slow."""


def _as_far_as_known(
    verdict: Verdict, case: Case, lacks: Sequence[Lack], pricing: Pricing, untimed: str
) -> Verdict:
    """Add to a verdict the inconclusive ranks, and why it is not known, if it is not.

    What a rank without rows did is not known, so nothing can be said of all ranks. A rank that is known to be
    slow remains so.
    """
    absent = lacking_in_words(lacks)
    if absent:
        verdict = replace(verdict, evidence=(f"{capital(absent)}.", *verdict.evidence))
    why = absent if verdict.verdict in _OF_ALL_RANKS else ""
    if verdict.verdict == "healthy":
        why = why or why_inconclusive(case, pricing) or untimed
    unjudged = {*(case.times.ranks if why else inconclusive_ranks(case)), *(lack.rank for lack in lacks)}
    if why:
        verdict = replace(verdict, verdict="healthy", judged=False, why=why, cost_ms=0.0, cost_share=0.0)
    return replace(verdict, unjudged_ranks=tuple(sorted(unjudged)))


def _by_rows_or_gaps(case: Case, pricing: Pricing) -> Judgement:
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
    few = few_steps_in_all(case) if verdict.verdict == "healthy" else ()
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
    phase, phase_share = phase_of(times, first)
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
            *(sentence for each in found.named for sentence in how_slow_together(times, each)),
            *((HOST_OR_WORK,) if is_role else ()),
            f"{explained_phase(phase)} holds {phase_share:.0%} of what rank {ranks[0]} spent "
            "beyond its peers.",
            *waited_for(times, first),
            *passed_on(times, first, columns),
            *(why_not(times, candidate, gate) for candidate in others[:3]),
            *few_steps(case),
        ),
    )


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
            f"The costliest in {suspect.likelihood:.0%} of {policy.resamplings} runs drawn from the steps of "
            "this.",
            *(why_not(times, candidate, None) for candidate in others[:3]),
            *few_steps(case),
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


# -- from parts --------------------------------------------------------------------------------------


class JudgementPart(NamedTuple):
    """What a judgement needs of some processes: a few numbers for each step, and for each collective.

    Attributes:
        times: the times by step, and the rows to match.
        roles: the role of each rank.
        files: ``attrs["files"]`` of the timings.
        last: the last rows of each process.
    """

    times: StepTimesPart
    roles: dict[int, str]
    files: list[File]
    last: pd.DataFrame


def map_judgement(timings: IntoDataFrameT) -> JudgementPart:
    """Reduce the rows of whole processes, such as those of one file, to what a judgement needs."""
    times = map_step_times(timings)
    roles = roles_of(timings, [process.rank for process in times.processes], None)
    return JudgementPart(times, roles, getattr(timings, "attrs", {}).get("files", []), last_rows(timings))


def reduce_judgement(
    parts: Sequence[JudgementPart],
    roles: Mapping[int, object] | None = None,
    end: RunEnd | None = None,
    *,
    policy: Policy = STANDARD,
) -> Judgement:
    """Judge a run by the parts of all its processes, with the same result as by all rows at once.

    Args:
        parts: as ``map_judgement`` returned them, in ascending order of their processes.
        roles: the role of each rank; None to take those of the parts.
        end: the end of the run where it is known already; None to find it.
        policy: the numbers that decide.
    """
    files = [file for part in parts for file in part.files]
    times = reduce_step_times([part.times for part in parts], stated_world_size(files))
    known = roles or {rank: role for part in parts for rank, role in part.roles.items()}
    case = Case(times, roles_of(of_pandas(), times.ranks, known), policy, hosts_of(files))
    found = judgement_on(case, files)
    return found.ending_in(end or run_end_of([part.last for part in parts], files))

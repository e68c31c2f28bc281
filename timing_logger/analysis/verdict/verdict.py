"""Find the rank that is slow, in which operation, since when, and at what cost; or find that none is.

The time that each rank spends on its own account, without waiting for others, is compared with that of its
peers in the same step. So no clocks are compared, and a delay that is passed on from stage to stage stays
with the rank that caused it. Which rank arrives last is looked at only afterwards, as a check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import starmap
from typing import NamedTuple

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.hangs.diagnosis import run_end_of
from timing_logger.analysis.hangs.last_rows import last_rows
from timing_logger.analysis.rows.arrays import known
from timing_logger.analysis.rows.files import (
    File,
    different_runs,
    hosts_of,
    not_told,
    roles_of,
    run_python,
    sidecar_of,
)
from timing_logger.analysis.rows.tables import of_pandas
from timing_logger.analysis.step_times.peers import peer_medians
from timing_logger.analysis.step_times.process_steps import StepTimesPart, map_step_times
from timing_logger.analysis.step_times.step_times import StepTimes, reduce_step_times
from timing_logger.analysis.verdict.case import Case, Judgement
from timing_logger.analysis.verdict.causes.search import HostCounters, given, with_cause
from timing_logger.analysis.verdict.own_times import with_owner
from timing_logger.analysis.verdict.typical_step import shown_in_table, typical_step
from timing_logger.analysis.verdict.who.pricing import Pricing, pricing_of
from timing_logger.analysis.verdict.whole_run.communication import (
    mostly_transfers,
    slow_communication,
    why_unlike,
)
from timing_logger.analysis.verdict.whole_run.systemic import late_ms, with_unexplained_waits
from timing_logger.reading.named_ranks import Lack, lacking, lacking_in_words, stated_world_size
from timing_logger.results import facts
from timing_logger.results.policy import STANDARD, Policy
from timing_logger.results.run_end import RunEnd
from timing_logger.results.verdict import Verdict


def stragglers(
    timings: IntoDataFrameT,
    *,
    roles: Mapping[int, object] | None = None,
    policy: Policy = STANDARD,
    host: pd.DataFrame | None = None,
) -> Verdict:
    """Judge which ranks of a run are slow, if any.

    Args:
        timings: as ``read_timings`` returns.
        roles: the role of each rank, such as its pipeline stage: ranks of equal roles do equal work
            and are compared. By default roles are taken from a column ``role``, or from the labels that the
            loggers were given (``timings.attrs["files"]``); else all ranks have one role.
        policy: the numbers that decide.
        host: the host counters of the run, as ``read_host_counters`` returns them. They change neither the
            verdict nor who is named; ``cause`` then has what coincides with the time that is lost.

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
    part = map_judgement(timings)
    judgement = reduce_judgement([part], roles, policy=policy, host=given(host), with_blocked=True)
    verdict, step = judgement.verdict, typical_step(judgement)
    return replace(verdict, step=step and shown_in_table(step, verdict.ranks_to_look_at, timings))


def judgement_on(case: Case, files: Sequence[File]) -> Judgement:
    """Judge a run by its times, without looking at its end.

    Args:
        case: the run to be judged.
        files: ``attrs["files"]`` of ``read_timings``.
    """
    if mixed := different_runs(files):
        verdict = _unjudged(Verdict(verdict="healthy"), facts.DifferentRuns(mixed), case.times)
        return Judgement(case, verdict, are_comparable=False)
    pricing, untimed = pricing_of(case), why_untimed(files)
    found = with_owner(case, pricing)
    pricing = pricing.on(found.case.times)
    verdict = _rather_communication(found.verdict, case.times, slow_communication(case, pricing))
    verdict = _as_far_as_known(verdict, found.case, lacking(files), pricing, untimed)
    if verdict.verdict == "healthy" and verdict.judged:
        verdict = _if_nobody_is_slow(verdict, case, pricing)
        if verdict.verdict == "healthy" and verdict.judged:
            lost = found.case.times.share_of_run(float(late_ms(found.case).sum()))
            verdict = replace(verdict, lost_in_turn=lost)
    elif isinstance(verdict.why, facts.LeavesLate | facts.OneWaitedFor):
        verdict = _unless_it_mostly_transfers(verdict, case, verdict.why)
    every = case.times.recorded_every
    verdict = replace(verdict, recorded_every=every, cost_ms=every * verdict.cost_ms)
    hosts = _hosts_of(verdict, case.hosts)
    return found._replace(verdict=replace(verdict, hosts=hosts, in_python=run_python(files)))


def _unjudged(verdict: Verdict, why: facts.Reason, times: StepTimes) -> Verdict:
    return replace(verdict, judged=False, why=why, unjudged_ranks=tuple(times.ranks))


def _if_nobody_is_slow(verdict: Verdict, case: Case, pricing: Pricing) -> Verdict:
    """Return what is said of a healthy run whose links differ, or that mostly transfers, or waits."""
    if why := why_unlike(case, pricing):
        return _unjudged(verdict, why, case.times)
    if mostly := mostly_transfers(case):
        return _rather_communication(verdict, case.times, mostly)
    return with_unexplained_waits(verdict, case.times)


def _unless_it_mostly_transfers(
    verdict: Verdict, case: Case, why: facts.LeavesLate | facts.OneWaitedFor
) -> Verdict:
    """Return that communication takes most of the run, if it does: a rank explains less of it than that."""
    mostly = mostly_transfers(case)
    known = replace(verdict, unjudged_ranks=inconclusive_ranks(case), evidence=(why, *verdict.evidence))
    return _rather_communication(known, case.times, mostly) if mostly else verdict


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
    verdict: Verdict,
    case: Case,
    lacks: Sequence[Lack],
    pricing: Pricing,
    untimed: facts.UntimedCalls | facts.CommunicationNotTold | None,
) -> Verdict:
    """Add to a verdict the inconclusive ranks, and why it is not known, if it is not.

    What a rank without rows did is not known, so nothing can be said of all ranks. A rank that is known to be
    slow remains so.
    """
    absent = _absent(lacks)
    if absent:
        verdict = replace(verdict, evidence=(absent, *verdict.evidence))
    why: facts.Reason | None = absent if verdict.verdict in _OF_ALL_RANKS else None
    if verdict.verdict == "healthy":
        why = why or why_inconclusive(case, pricing) or untimed
    unjudged = {*(case.times.ranks if why else inconclusive_ranks(case)), *(lack.rank for lack in lacks)}
    if why:
        verdict = replace(verdict, verdict="healthy", judged=False, why=why, cost_ms=0.0, cost_share=0.0)
    return replace(verdict, unjudged_ranks=tuple(sorted(unjudged)))


def _absent(lacks: Sequence[Lack]) -> facts.RanksLacking | None:
    """Return that rows of ranks are missing, other than of those that were to record nothing."""
    ranks = sorted({lack.rank for lack in lacks if not lack.by_choice})
    return facts.RanksLacking(tuple(ranks), lacking_in_words(lacks)) if ranks else None


# -- of which ranks enough is known: one of which nothing is known is not a healthy one -----------------


def inconclusive_ranks(case: Case) -> tuple[int, ...]:
    """Return the ranks that had no peer to be compared with in as many steps as a level takes."""
    times, least = case.times, case.policy.min_level_steps
    compared = np.zeros(len(times.ranks), np.int64)
    for columns in case.by_role.values():
        is_known = ~np.isnan(times.self_ms[:, columns])
        has_peer = is_known.sum(axis=1, keepdims=True) > 1
        compared[columns] = (is_known & has_peer).sum(axis=0)
    return tuple(rank for rank, n in zip(times.ranks, compared, strict=True) if n < least)


def why_inconclusive(case: Case, pricing: Pricing) -> facts.Reason | None:
    """Return why a run in which no rank is known to be slow is not called healthy; None if it is healthy."""
    if len(inconclusive_ranks(case)) == len(case.times.ranks):
        return _why_nobody(case)
    one_waited_for = _why_one_is_waited_for(case, pricing) or _why_late_to_leave(case)
    return _why_hidden(case) or _why_roles_look_alike(case) or one_waited_for


def why_untimed(files: Sequence[File]) -> facts.UntimedCalls | facts.CommunicationNotTold | None:
    """Return what has no rows, though ranks may have waited for each other in it; None if there is nothing.

    In rows that were imported without communication, a rank that waits for a slow one takes as long as that.
    """
    for kind, names in not_told(files).items():
        if "communication" in names:
            return facts.CommunicationNotTold(kind)
    counts: Counter[str] = Counter()
    for file in files:
        counts.update(sidecar_of(file).get("untimed") or {})
    return (
        facts.UntimedCalls(tuple(starmap(facts.CallCount, counts.most_common()))) if counts.total() else None
    )


def _why_nobody(case: Case) -> facts.Reason:
    """Return why no rank could be compared with another."""
    times = case.times
    if not times.ranks:
        return facts.NoRows()
    if len(times.ranks) == 1:
        return facts.OneRank()
    if all(len(columns) == 1 for columns in case.by_role.values()):
        return facts.EachAlone()
    if np.isnan(times.self_ms).all():
        return facts.NoSelfTime()
    return facts.FewCompared(case.policy.min_level_steps)


def _why_hidden(case: Case) -> facts.DeviceClockHides | None:
    """Return why a slow rank would look like its peers; None if it would not.

    A stream that waits for communication stands still inside the rows around it, and no other row says for
    how long. So where one rank is late, the others' own work on the device takes as long as that rank's.
    """
    times = case.times
    if not times.on_device:
        return None
    waits_ms = np.fmax(times.waits.own_ms, times.waits.pending_ms)
    met = ~np.isnan(waits_ms).all(axis=1) & ~np.isnan(times.self_ms).all(axis=1)
    if not met.any():
        return None
    waited_ms = float(np.median(np.nanmax(waits_ms[met], axis=1)))
    if waited_ms < case.policy.min_score_gap * float(np.median(np.nanmax(times.self_ms[met], axis=1))):
        return None
    return facts.DeviceClockHides(waited_ms)


def _why_roles_look_alike(case: Case) -> facts.RolesMayWait | None:
    """Return why a slow role would look like the others; None if it would not.

    Ranks of several roles may hold each other up in messages that are not logged. The time between logged
    rows is then the same for all of them, whichever role causes it.
    """
    times = case.times
    if not times.from_gaps or len(case.by_role) < 2:
        return None
    worked_ms, spent_ms = np.nansum(times.operation_ms[:-1]), np.nansum(times.gap_ms)
    enough = worked_ms >= case.policy.min_role_work_share * spent_ms
    return None if enough else facts.RolesMayWait()


def _why_one_is_waited_for(case: Case, pricing: Pricing) -> facts.OneWaitedFor | None:
    """Return the rank for which the others waited visibly, though it is slow by too little to be named.

    Such a run is not called healthy.
    """
    times, policy = case.times, case.policy
    for_it_ms = np.nansum(times.waits.for_it_ms, axis=0)
    if not for_it_ms.any():
        return None
    column = int(np.argmax(for_it_ms))
    of_all = float(for_it_ms[column] / for_it_ms.sum())
    if not of_all > policy.most_waiting_share:
        return None
    part = times.share_of_run(pricing.price_of_all_ms(column))
    return None if part < policy.visible_cost_share else facts.OneWaitedFor(times.ranks[column], of_all, part)


def _why_late_to_leave(case: Case) -> facts.LeavesLate | None:
    """Return the rank for which the others waited visibly because it leaves communication late."""
    times, policy = case.times, case.policy
    waited_ms = np.nansum(times.waits.longest_ms, axis=0)
    column = int(np.argmax(waited_ms)) if waited_ms.any() else 0
    part = times.share_of_run(float(waited_ms[column])) if len(waited_ms) else 0.0
    if part < policy.visible_cost_share:
        return None
    of_role = next(its for its in case.by_role.values() if column in its)
    transfer_ms, clock_ms = (values[:, of_role] for values in (times.waits.transfer_ms, times.waits.clock_ms))
    at_least_ms = transfer_ms - clock_ms - peer_medians(transfer_ms + clock_ms)
    late_ms = known(at_least_ms[:, int(np.searchsorted(of_role, column))])
    if not late_ms.sum() >= policy.min_late_to_leave_share * waited_ms[column]:
        return None
    return facts.LeavesLate(times.ranks[column], float(np.mean(late_ms)), part)


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


def map_judgement(
    timings: IntoDataFrameT, *, with_account: bool = False, with_gaps: bool = False
) -> JudgementPart:
    """Reduce the rows of whole processes, such as those of one file, to what a judgement needs.

    Args:
        timings: the rows.
        with_account: whether the account of the run is asked for, too.
        with_gaps: whether ``StepTimes.in_gaps_ms`` is asked for of all own work.
    """
    times = map_step_times(timings, with_account=with_account, with_gaps=with_gaps)
    roles = roles_of(timings, times.steps.ranks.tolist(), None)
    return JudgementPart(times, roles, getattr(timings, "attrs", {}).get("files", []), last_rows(timings))


def reduce_judgement(
    parts: Sequence[JudgementPart],
    roles: Mapping[int, object] | None = None,
    end: RunEnd | None = None,
    *,
    policy: Policy = STANDARD,
    host: HostCounters | None = None,
    with_blocked: bool = False,
) -> Judgement:
    """Judge a run by the parts of all its processes, with the same result as by all rows at once.

    Args:
        parts: as ``map_judgement`` returned them, in ascending order of their processes.
        roles: the role of each rank; None to take those of the parts.
        end: the end of the run where it is known already; None to find it.
        policy: the numbers that decide.
        host: reads the host counters; None if there are none.
        with_blocked: whether ``case.times.blocked`` is asked for, too.
    """
    files = [file for part in parts for file in part.files]
    world_size = stated_world_size(files)
    times = reduce_step_times([part.times for part in parts], world_size, with_blocked=with_blocked)
    known = roles or {rank: role for part in parts for rank, role in part.roles.items()}
    case = Case(times, roles_of(of_pandas(), times.ranks, known), policy, hosts_of(files))
    found = with_cause(judgement_on(case, files), host)
    return found.ending_in(end or run_end_of([part.last for part in parts], files))

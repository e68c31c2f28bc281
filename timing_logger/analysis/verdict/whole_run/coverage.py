"""Tell of which ranks enough is known: a rank of which nothing is known is not a healthy rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import starmap

import numpy as np

from timing_logger.analysis.rows.arrays import known
from timing_logger.analysis.rows.files import File, not_told, sidecar_of
from timing_logger.analysis.step_times.peers import peer_medians
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.pricing import Pricing
from timing_logger.results import facts


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

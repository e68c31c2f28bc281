"""Find slow communication: transfers that grew, recur, or take longer than others of their kind.

A transfer, without waiting, is compared with the same transfer earlier in the run, with what it usually
takes, and with those that other groups or pairs of ranks make at the same time. A transfer that is hidden
behind a rank's own work costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.analysis.step_times.peers import column_medians
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.step_times.transfers import MESSAGE, Link
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.candidates import n_steps_needed
from timing_logger.analysis.verdict.who.pricing import Pricing
from timing_logger.analysis.verdict.whole_run.slow_links import (
    SlowLink,
    blocked_at_most,
    excess_ms,
    families,
    family_of,
    lost_ms,
    saved_ms,
    slow_links,
)
from timing_logger.results import criteria, facts
from timing_logger.results.facts import Gate
from timing_logger.results.policy import Policy
from timing_logger.results.verdict import Verdict


def slow_communication(case: Case, pricing: Pricing) -> Verdict | None:
    """Return the verdict that transfers are slow; None where they are not, or cost too little.

    Args:
        case: the run to be judged.
        pricing: what slow transfers cost.
    """
    found = [slow for slow in slow_links(case) if _is_enough(case, slow)]
    if not found:
        return None
    cost_ms = saved_ms(case.times, found, pricing)
    return _verdict(case, found, cost_ms) if _cost_enough(case, cost_ms) else None


def _is_enough(case: Case, slow: SlowLink) -> bool:
    """Tell whether a link is slow in enough steps, and transfers: fewer, the more of the run they cost.

    It is never more steps than those in which the link is recorded; but one transfer shows nothing.
    """
    times, policy = case.times, case.policy
    most, least = policy.min_transfer_steps, policy.min_costly_transfer_steps
    cost_share = times.share_of_run(float(lost_ms(times, [slow]).sum()))
    needed = n_steps_needed(cost_share, least, most, _recorded(times, slow))
    n_transfers = int(times.transfers.n[slow.steps, slow.link].sum())
    return len(slow.steps) >= needed and n_transfers >= least


def _recorded(times: StepTimes, slow: SlowLink) -> int:
    """Return in how many steps the time of a link is known."""
    return int((~np.isnan(times.transfers.mean_ms[:, slow.link])).sum())


def _cost_gates(case: Case, cost_ms: float) -> tuple[Gate, Gate]:
    policy = case.policy
    cost_share = case.times.share_of_run(cost_ms)
    return (
        Gate.at_least(
            "share of the run that slow transfers cost", cost_share, policy.min_transfer_cost_share
        ),
        Gate.at_least("ms that slow transfers cost", cost_ms, policy.min_transfer_cost_ms),
    )


def _verdict(case: Case, found: Sequence[SlowLink], cost_ms: float) -> Verdict:
    times = case.times
    cost_of_link = np.nansum(excess_ms(times, found) * times.transfers.n, axis=0)
    worst = max(found, key=lambda slow: cost_of_link[slow.link])
    steps = np.flatnonzero(lost_ms(times, found) > 0)
    took, usual = _typical_ms(times, worst)
    slow = np.flatnonzero(cost_of_link >= criteria.MIN_LINK_COST_SHARE * cost_of_link.max()).tolist()
    link = times.transfers.links[worst.link]
    return Verdict(
        verdict="communication", operation=link.operation, labels=link.group,
        window="intermittent" if worst.than == "usual" else _window(case, steps),
        **times.step_range(steps)._asdict(), slow_steps=len(steps),
        score=usual / took,
        cost_ms=cost_ms,
        gates=(
            Gate.at_least("times as long", took / usual, case.policy.min_transfer_times),
            *_cost_gates(case, cost_ms),
        ),
        evidence=(
            facts.SlowTransfers(
                transfer_of(times, link), took, usual, worst.than, len(worst.steps), _recorded(times, worst)
            ),
            *_in_common(case, slow),
        ),
    )  # fmt: skip


def mostly_transfers(case: Case) -> Verdict | None:
    """Return the verdict that most of the run is spent in transfers; None if it is not.

    It is for transfers that cannot be compared with others of the run.
    """
    times, most = case.times, case.policy.mostly_transfers_share
    n = times.transfers.n
    if not len(times.transfers.links):
        return None
    blocked_ms = blocked_at_most(times, np.nan_to_num(times.transfers.mean_ms) * n)
    cost_ms = float(blocked_ms.sum())
    gate = Gate.at_least("share of the run in transfers", times.share_of_run(cost_ms), most)
    if not gate.passed or cost_ms < case.policy.min_transfer_cost_ms:
        return None
    total_ms = np.nansum(times.transfers.mean_ms * n, axis=0)
    link = times.transfers.links[int(total_ms.argmax())]
    return Verdict(
        verdict="communication", operation=link.operation, labels=link.group, gates=(gate,),
        evidence=(facts.MostlyTransfers(gate.value, transfer_of(times, link)),),
    )  # fmt: skip


# -- facts ---------------------------------------------------------------------------------------------


def _typical_ms(times: StepTimes, slow: SlowLink) -> tuple[float, float]:
    mean_ms = times.transfers.mean_ms[slow.steps, slow.link]
    return float(np.nanmedian(mean_ms)), float(np.nanmedian(slow.usual_ms))


def _window(case: Case, steps: Ints) -> str:
    n_steps = len(case.times.iterations)
    edge = case.policy.edge_steps_share * n_steps
    if steps[-1] < n_steps - 1 - edge:
        return "bounded"
    return "persistent" if steps[0] <= edge else "ongoing"


def transfer_of(times: StepTimes, link: Link) -> facts.Transfer:
    """Return the transfer of a link, as a fact names it."""
    size = link.size_class_bytes if link.size_class_bytes >= 0 else None
    if link.operation != MESSAGE:
        return facts.Transfer(link.operation, link.group, None, None, size)
    sender, receiver = times.ranks_of(link.columns)
    return facts.Transfer(link.operation, link.group, sender, receiver, size)


def _in_common(case: Case, slow: Sequence[int]) -> Iterator[facts.Fact]:
    """Yield facts on the ranks that all slow links share, and whether others of their kind do too."""
    times = case.times
    takes_part = times.transfers.takes_part(len(times.ranks))
    alike = _same_family(case, slow)
    everywhere = takes_part[slow].all(axis=0)
    ranks = times.ranks_of(np.flatnonzero(everywhere & ~takes_part[alike].any(axis=0)))
    if 0 < len(ranks) < len(times.ranks):
        yield facts.OnlyInAllSlow(ranks)
        its_hosts = {case.hosts.get(rank, "") for rank in ranks}
        if len(its_hosts) == 1 and (host := its_hosts.pop()):
            yield facts.OnHost(host)
    elif takes_part[slow].any(axis=0).all():
        yield facts.EveryRankInSlow()
    elif everywhere.any():
        yield facts.OthersInAllSlow(times.ranks_of(np.flatnonzero(everywhere)))
    else:
        yield facts.NobodyInAllSlow()


def _same_family(case: Case, slow: Sequence[int]) -> list[int]:
    family = [family_of(case, link) for link in case.times.transfers.links]
    families = {family[i] for i in slow}
    return [i for i in range(len(family)) if family[i] in families and i not in set(slow)]


# -- of which nothing is usual ---------------------------------------------------------------------------


class _Unlike(NamedTuple):
    """Links of one family that are slow, and the others, by their numbers."""

    slow: Ints
    quick: Ints


def why_unlike(case: Case, pricing: Pricing) -> facts.UnlikeLinks | None:
    """Return the costliest links that do the same and differ, without anything to say which is usual.

    Half of them are slower than the rest, and they have no rank in common: groups of the same ranks may be of
    another kind, and meant to be slower. None if there are no such links, or they cost too little.

    Args:
        case: the run to be judged.
        pricing: what slow transfers cost.
    """
    found = [
        (cost_ms, unlike)
        for members in families(case)
        for unlike in _unlike(case, members)
        if _cost_enough(case, cost_ms := _cost_ms(case.times, unlike, pricing))
    ]
    return _as_fact(case.times, *max(found, key=itemgetter(0))) if found else None


def _unlike(case: Case, members: Ints) -> Iterator[_Unlike]:
    """Yield the slow half, or more, of a family whose slow links are slower throughout."""
    transfers, policy = case.times.transfers, case.policy
    level_ms = column_medians(transfers.mean_ms[:, members])
    slow = level_ms >= policy.min_transfer_times * level_ms.min()
    found = _Unlike(members[slow], members[~slow])
    if 2 * len(found.slow) < len(members) or not len(found.slow):
        return
    if _are_alike(case.times, found) and _is_steady(transfers.mean_ms, found, policy):
        yield found


def _are_alike(times: StepTimes, found: _Unlike) -> bool:
    """Tell whether links of both kinds have equally large messages, and no rank in common."""
    takes_part = times.transfers.takes_part(len(times.ranks))
    if (takes_part[found.slow].any(axis=0) & takes_part[found.quick].any(axis=0)).any():
        return False
    sizes = column_medians(times.transfers.mean_bytes[:, np.concatenate(found)])
    return bool(sizes.max() - sizes.min() <= criteria.SAME_SIZE_SHARE * sizes.max())


def _is_steady(mean_ms: Floats, found: _Unlike, policy: Policy) -> bool:
    """Tell whether in most steps all slow links are slower than all quick ones."""
    with np.errstate(invalid="ignore"):
        slower = mean_ms[:, found.slow].min(axis=1) > mean_ms[:, found.quick].max(axis=1)
    known = ~np.isnan(mean_ms[:, np.concatenate(found)]).any(axis=1)
    enough = int(known.sum()) >= policy.min_transfer_steps
    return enough and bool(slower[known].mean() >= policy.min_slower_steps_share)


def _cost_ms(times: StepTimes, unlike: _Unlike, pricing: Pricing) -> float:
    """Return by how much the run would be shorter if the slow links were like the quick ones."""
    mean_ms = times.transfers.mean_ms
    usual_ms = column_medians(mean_ms[:, unlike.quick].T)
    found = []
    for link in unlike.slow.tolist():
        steps = np.flatnonzero(mean_ms[:, link] > usual_ms)
        found.append(SlowLink(link, steps, usual_ms[steps], "others"))
    return saved_ms(times, found, pricing)


def _cost_enough(case: Case, cost_ms: float) -> bool:
    return all(gate.passed for gate in _cost_gates(case, cost_ms))


def _as_fact(times: StepTimes, cost_ms: float, unlike: _Unlike) -> facts.UnlikeLinks:
    took, usual = (float(np.median(column_medians(times.transfers.mean_ms[:, links]))) for links in unlike)
    slow, quick = (
        tuple(transfer_of(times, times.transfers.links[i]) for i in links.tolist()) for links in unlike
    )
    return facts.UnlikeLinks(slow, quick, took / usual, times.share_of_run(cost_ms))

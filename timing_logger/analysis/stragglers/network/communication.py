"""Find slow communication: transfers that grew, recur, or take longer than others of their kind.

A transfer, without waiting, is compared with the same transfer earlier in the run, with what it usually
takes, and with those that other groups or pairs of ranks make at the same time. A transfer that is hidden
behind a rank's own work costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.step_times.transfers import MESSAGE, Link
from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.cost.pricing import Pricing
from timing_logger.analysis.stragglers.facts import Fact
from timing_logger.analysis.stragglers.facts.of_all_ranks import (
    EveryRankInSlow,
    MostlyTransfers,
    NobodyInAllSlow,
    OnHost,
    OnlyInAllSlow,
    OthersInAllSlow,
    SlowTransfers,
    Transfer,
)
from timing_logger.analysis.stragglers.facts.of_ranks import Gate
from timing_logger.analysis.stragglers.network.slow_links import SlowLink, family_of, slow_links
from timing_logger.analysis.stragglers.network.transfer_prices import (
    blocked_at_most,
    excess_ms,
    lost_ms,
    saved_ms,
)
from timing_logger.analysis.stragglers.result import Verdict
from timing_logger.analysis.tables import Ints

_MIN_PART = 0.02  # of the cost of the costliest link: cheaper links do not help to locate the trouble


def slow_communication(case: Case, hosts: Mapping[int, str], pricing: Pricing) -> Verdict | None:
    """Return the verdict that transfers are slow; None where they are not, or cost too little.

    Args:
        case: the run to be judged.
        hosts: the host of each rank, as far as known.
        pricing: what slow transfers cost.
    """
    found = [slow for slow in slow_links(case, hosts) if _is_enough(case, slow)]
    if not found:
        return None
    cost_ms = saved_ms(case.times, found, pricing)
    gates = _cost_gates(case, cost_ms)
    if not all(gate.passed for gate in gates):
        return None
    return _verdict(case, found, cost_ms, gates, hosts)


def _is_enough(case: Case, slow: SlowLink) -> bool:
    """Tell whether a link is slow in enough steps, and transfers: fewer, the more of the run they cost.

    It is never more steps than those in which the link is recorded; but one transfer shows nothing.
    """
    times, policy = case.times, case.policy
    most, least = policy.min_transfer_steps, policy.min_costly_transfer_steps
    cost_share = times.share_of_run(float(lost_ms(times, [slow]).sum()))
    needed = max(least, 1 / cost_share) if cost_share > 0 else most
    n_transfers = int(times.transfers.n[slow.steps, slow.link].sum())
    return len(slow.steps) >= min(most, needed, _recorded(times, slow)) and n_transfers >= least


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


def _verdict(
    case: Case, found: Sequence[SlowLink], cost_ms: float, gates: Sequence[Gate], hosts: Mapping[int, str]
) -> Verdict:
    times = case.times
    cost_of_link = np.nansum(excess_ms(times, found) * times.transfers.n, axis=0)
    worst = max(found, key=lambda slow: cost_of_link[slow.link])
    steps = np.flatnonzero(lost_ms(times, found) > 0)
    took, usual = _typical_ms(times, worst)
    slow = [i for i in np.argsort(-cost_of_link) if cost_of_link[i] >= _MIN_PART * cost_of_link.max()]
    link = times.transfers.links[worst.link]
    return Verdict(
        verdict="communication", phase=link.operation, labels=link.group,
        window="intermittent" if worst.than == "usual" else _window(case, steps),
        **times.step_range(steps)._asdict(), slow_steps=len(steps),
        score=usual / took,
        cost_ms=cost_ms,
        gates=(Gate.at_least("times as long", took / usual, case.policy.min_transfer_times), *gates),
        evidence=(
            SlowTransfers(
                transfer_of(times, link), took, usual, worst.than, len(worst.steps), _recorded(times, worst)
            ),
            *_in_common(times, slow, hosts),
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
        verdict="communication", phase=link.operation, labels=link.group, gates=(gate,),
        evidence=(MostlyTransfers(gate.value, transfer_of(times, link)),),
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


def transfer_of(times: StepTimes, link: Link) -> Transfer:
    """Return the transfer of a link, as a fact names it."""
    size = link.size_class_bytes if link.size_class_bytes >= 0 else None
    if link.operation != MESSAGE:
        return Transfer(link.operation, link.group, None, None, size)
    sender, receiver = (times.ranks[column] for column in link.columns)
    return Transfer(link.operation, link.group, sender, receiver, size)


def _in_common(times: StepTimes, slow: Sequence[int], hosts: Mapping[int, str]) -> Iterator[Fact]:
    """Yield facts on the ranks that all slow links share, and whether others of their kind do too."""
    takes_part = times.transfers.takes_part(len(times.ranks))
    alike = _same_family(times, slow, hosts)
    everywhere = takes_part[slow].all(axis=0)
    ranks = _ranks(times, np.flatnonzero(everywhere & ~takes_part[alike].any(axis=0)))
    if 0 < len(ranks) < len(times.ranks):
        yield OnlyInAllSlow(ranks)
        its_hosts = {hosts.get(rank, "") for rank in ranks}
        if len(its_hosts) == 1 and (host := its_hosts.pop()):
            yield OnHost(host)
    elif takes_part[slow].any(axis=0).all():
        yield EveryRankInSlow()
    elif everywhere.any():
        yield OthersInAllSlow(_ranks(times, np.flatnonzero(everywhere)))
    else:
        yield NobodyInAllSlow()


def _ranks(times: StepTimes, columns: Ints) -> tuple[int, ...]:
    return tuple(times.ranks[column] for column in columns)


def _same_family(times: StepTimes, slow: Sequence[int], hosts: Mapping[int, str]) -> list[int]:
    family = [family_of(times, link, hosts) for link in times.transfers.links]
    families = {family[i] for i in slow}
    return [i for i in range(len(family)) if family[i] in families and i not in set(slow)]

"""Find slow communication: transfers that grew, recur, or take longer than others of their kind.

A transfer, without waiting, is compared with the same transfer earlier in the run, with what it usually
takes, and with those that other groups or pairs of ranks make at the same time. A transfer that is hidden
behind a rank's own work costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.cost.pricing import Pricing
from timing_logger.analysis.stragglers.network.slow_links import SlowLink, family_of, slow_links
from timing_logger.analysis.stragglers.network.transfer_prices import (
    blocked_at_most,
    excess_ms,
    lost_ms,
    saved_ms,
)
from timing_logger.analysis.stragglers.result import Gate, Verdict
from timing_logger.analysis.stragglers.times.step_times import StepTimes
from timing_logger.analysis.stragglers.times.transfers import MESSAGE, Link
from timing_logger.analysis.tables import Ints
from timing_logger.reading.named_ranks import named_ranks

_MIN_PART = 0.02  # of the cost of the costliest link: cheaper links do not help to locate the trouble

_MOST_NAMED = 3  # of links, in a sentence

_THAN = {
    "before": "they took before",
    "others": "others of their kind take",
    "usual": "they take in the others",
}


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
    recorded = int((~np.isnan(times.transfers.mean_ms[:, slow.link])).sum())
    n_transfers = int(times.transfers.n[slow.steps, slow.link].sum())
    return len(slow.steps) >= min(most, needed, recorded) and n_transfers >= least


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
            f"{in_words(times, link)} take {took:.3g} ms {_counted_from(link)}{_how_often(times, worst)}, "
            f"{took / usual:.1f} times what {_THAN[worst.than]} ({usual:.3g} ms).",
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
        evidence=(
            f"Ranks are blocked in transfers, without waiting, for {gate.value:.0%} of the run, most of it "
            f"in {in_words(times, link)}. Nothing in this run says how long they should take.",
        ),
    )  # fmt: skip


# -- in words ------------------------------------------------------------------------------------------


def _typical_ms(times: StepTimes, slow: SlowLink) -> tuple[float, float]:
    mean_ms = times.transfers.mean_ms[slow.steps, slow.link]
    return float(np.nanmedian(mean_ms)), float(np.nanmedian(slow.usual_ms))


def _window(case: Case, steps: Ints) -> str:
    n_steps = len(case.times.iterations)
    edge = case.policy.edge_steps_share * n_steps
    if steps[-1] < n_steps - 1 - edge:
        return "bounded"
    return "persistent" if steps[0] <= edge else "ongoing"


def _how_often(times: StepTimes, slow: SlowLink) -> str:
    """State in how many steps a link is slow if it is now and then."""
    if slow.than != "usual":
        return ""
    recorded = int((~np.isnan(times.transfers.mean_ms[:, slow.link])).sum())
    return f" in {len(slow.steps)} of {recorded} steps"


def _counted_from(link: Link) -> str:
    """State in words what the time of a transfer covers.

    A non-blocking message may be complete long before its process learns of it.
    """
    if link.operation == MESSAGE:
        return "from when the later side began until it knew of the end"
    return "without waiting"


def in_words(times: StepTimes, link: Link) -> str:
    """Describe a link in words.

    Examples are ``Messages of up to 65536 bytes from rank 0 to rank 3`` and ``ALLREDUCE of up to ... in group
    world``.
    """
    size = f" of up to {link.size_class_bytes} bytes" if link.size_class_bytes >= 0 else ""
    if link.operation == MESSAGE:
        sender, receiver = (times.ranks[column] for column in link.columns)
        return f"Messages{size} from rank {sender} to rank {receiver}"
    return f"{link.operation}{size} in group {link.group or 'without a name'}"


def ends_in_words(times: StepTimes, links: Sequence[Link]) -> str:
    """Say between whom links transfer: ``in group rail0``, or ``from rank 0 to rank 3``; of several, some."""
    some, more = links[:_MOST_NAMED], ", ..." if len(links) > _MOST_NAMED else ""
    if links[0].operation == MESSAGE:
        pairs = [[times.ranks[column] for column in link.columns] for link in some]
        return ", ".join(f"from rank {sender} to rank {receiver}" for sender, receiver in pairs) + more
    names = [link.group or "without a name" for link in some]
    return f"in group{'s' * (len(links) > 1)} {', '.join(names)}{more}"


def _in_common(times: StepTimes, slow: Sequence[int], hosts: Mapping[int, str]) -> Iterator[str]:
    """Yield sentences on the ranks that all slow links share, and whether others of their kind do too."""
    takes_part = times.transfers.takes_part(len(times.ranks))
    alike = _same_family(times, slow, hosts)
    everywhere = takes_part[slow].all(axis=0)
    common = everywhere & ~takes_part[alike].any(axis=0)
    ranks = [times.ranks[i] for i in np.flatnonzero(common)]
    if 0 < len(ranks) < len(times.ranks):
        yield f"All slow transfers, and no others of their kind, have {named_ranks(ranks)} in them."
        its_hosts = {hosts.get(rank, "") for rank in ranks}
        if len(its_hosts) == 1 and (host := its_hosts.pop()):
            yield f"That is the host {host}."
    elif takes_part[slow].any(axis=0).all():
        yield "All ranks take part in them, so whose link it is cannot be told."
    elif everywhere.any():
        ranks = [times.ranks[i] for i in np.flatnonzero(everywhere)]
        yield f"All slow transfers have {named_ranks(ranks)} in them, but so have others of their kind."
    else:
        yield "They have no rank in common, so whose link it is cannot be told."


def _same_family(times: StepTimes, slow: Sequence[int], hosts: Mapping[int, str]) -> list[int]:
    family = [family_of(times, link, hosts) for link in times.transfers.links]
    families = {family[i] for i in slow}
    return [i for i in range(len(family)) if family[i] in families and i not in set(slow)]

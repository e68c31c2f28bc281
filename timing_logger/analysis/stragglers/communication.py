"""Find slow communication: transfers that grew, or that take longer than others of their kind.

A transfer, without waiting, is compared with the same transfer earlier in the run, and with those that other
groups or pairs of ranks make at the same time. A transfer that is hidden behind a rank's own work costs
nothing: only time in which a rank was blocked counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.change_points import change_points
from timing_logger.analysis.stragglers.peers import log_ratios, peer_medians
from timing_logger.analysis.stragglers.policy import Policy
from timing_logger.analysis.stragglers.result import Gate, Verdict
from timing_logger.analysis.stragglers.slow_steps import SlowSteps, slow_steps
from timing_logger.analysis.stragglers.step_times import StepTimes
from timing_logger.analysis.stragglers.transfers import MESSAGE, Link
from timing_logger.analysis.tables import Floats, Ints
from timing_logger.reading.named_ranks import named_ranks

_MIN_PART = 0.02  # of the cost of the costliest link: cheaper links do not help to locate the trouble


class _Slow(NamedTuple):
    """A link that is slow in some steps.

    Attributes:
        link: index of the link in ``Transfers.links``.
        steps: positions of the slow steps, ascending.
        usual_ms: for each of these steps, the usual time of a transfer in ms.
        past: whether the usual time is that of earlier steps; else it is that of others of its kind.
    """

    link: int
    steps: Ints
    usual_ms: Floats
    past: bool


def slow_communication(case: Case, hosts: Mapping[int, str]) -> Verdict | None:
    """Return the verdict that transfers are slow; None where they are not, or cost too little.

    Args:
        case: the run to be judged.
        hosts: the host of each rank, as far as known.
    """
    times, policy = case.times, case.policy
    found = [
        slow
        for slow in (*_slower_than_others(case, hosts), *_slower_than_before(case))
        if len(slow.steps) >= _least_steps(case, slow)
    ]
    if not found:
        return None
    excess_ms = _excess_ms(times, found)
    lost_ms = _lost_ms(times, found)
    cost_ms = float(lost_ms.sum())
    cost_share = times.share_of_run(cost_ms)
    least = policy.min_transfer_cost_share
    gate = Gate.at_least("share of the run that slow transfers cost", cost_share, least)
    if not gate.passed:
        return None
    cost_of_link = np.nansum(excess_ms * times.transfers.n, axis=0)
    worst = max(found, key=lambda slow: cost_of_link[slow.link])
    steps = np.flatnonzero(lost_ms > 0)
    took, usual = _typical_ms(times, worst)
    slow = [i for i in np.argsort(-cost_of_link) if cost_of_link[i] >= _MIN_PART * cost_of_link.max()]
    link = times.transfers.links[worst.link]
    return Verdict(
        verdict="communication", phase=link.operation, labels=link.group,
        window=_window(case, steps), **times.step_range(steps)._asdict(), slow_steps=len(steps),
        score=usual / took,
        cost_ms=cost_ms,
        gates=(Gate.at_least("times as long", took / usual, policy.min_transfer_times), gate),
        evidence=(
            f"{in_words(times, link)} take {took:.3g} ms {_counted_from(link)}, {took / usual:.1f} times "
            f"what {'they took before' if worst.past else 'others of their kind take'} ({usual:.3g} ms).",
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
    blocked_ms = _blocked_at_most(times, np.nan_to_num(times.transfers.mean_ms) * n)
    gate = Gate.at_least("share of the run in transfers", times.share_of_run(float(blocked_ms.sum())), most)
    if not gate.passed:
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


# -- against others of their kind ------------------------------------------------------------------------


def _slower_than_others(case: Case, hosts: Mapping[int, str]) -> Iterator[_Slow]:
    times, policy = case.times, case.policy
    for members in _families(times, hosts, policy.min_alike_links):
        mean_ms = times.transfers.mean_ms[:, members]
        usual_ms = peer_medians(mean_ms)
        ratios = log_ratios(mean_ms, usual_ms)
        least = np.log(policy.min_transfer_times)
        found = [slow for slow in _persistently(ratios, policy) if slow.level >= least]
        slow_share = len({slow.column for slow in found}) / len(members)
        is_group = times.transfers.links[members[0]].operation != MESSAGE
        if is_group and slow_share >= policy.max_slow_links_share:
            continue  # they may be of another kind: the groups of a square mesh have equal sizes and numbers
        for slow in found:
            usual_here_ms = usual_ms[slow.steps, slow.column]
            yield _Slow(int(members[slow.column]), slow.steps, usual_here_ms, past=False)


def _persistently(ratios: Floats, policy: Policy) -> Iterator[SlowSteps]:
    """Yield the slow steps of columns that are slow in at least ``min_costly_transfer_steps`` steps."""
    with np.errstate(invalid="ignore"):
        n_slow = np.nansum(ratios >= np.log(policy.min_transfer_times), axis=0)
    often = n_slow >= min(policy.min_costly_transfer_steps, len(ratios))
    for slow in slow_steps(ratios, policy) if often.any() else ():
        if often[slow.column]:
            yield slow


def _families(times: StepTimes, hosts: Mapping[int, str], min_links: int) -> Iterator[Ints]:
    families: dict[object, list[int]] = {}
    for i, link in enumerate(times.transfers.links):
        families.setdefault(_family(times, link, hosts), []).append(i)
    yield from (np.array(members) for members in families.values() if len(members) >= min_links)


def _family(times: StepTimes, link: Link, hosts: Mapping[int, str]) -> object:
    """Return the key of a link's family: links that do the same between other ranks, on equally many hosts.

    Transfers within a host and between hosts differ, so they are not compared.
    """
    on = {hosts.get(times.ranks[column], "") for column in link.columns}
    return *link.family, len(on)


# -- against their own past ------------------------------------------------------------------------------


def _slower_than_before(case: Case) -> Iterator[_Slow]:
    """Yield the stretches of each link whose level is far above the least level that it held before."""
    policy = case.policy
    cap, min_sigma = float(np.log(policy.max_transfer_times)), policy.min_transfer_noise_sigma
    for i, mean_ms in enumerate(case.times.transfers.mean_ms.T):
        at = np.flatnonzero(~np.isnan(mean_ms))
        series = np.log(mean_ms[at])
        if _may_have_grown(series, policy):
            changes = change_points(series, policy, cap=cap, min_sigma=min_sigma)
            yield from _grown(i, at, series, list(pairwise([0, *changes, len(series)])), policy)


def _may_have_grown(series: Floats, policy: Policy) -> bool:
    """Tell whether enough steps are far above the quickest: most links need no search for changes."""
    if len(series) < policy.min_past_steps + policy.min_costly_transfer_steps:
        return False
    long = np.quantile(series, policy.quick_transfers_share) + np.log(policy.min_transfer_times)
    return bool((series >= long).sum() >= policy.min_costly_transfer_steps)


def _grown(
    link: int, at: Ints, series: Floats, spans: Sequence[tuple[int, int]], policy: Policy
) -> Iterator[_Slow]:
    levels = [float(np.median(series[slice(*span)])) for span in spans]
    least = np.inf
    for span, level in zip(spans, levels, strict=True):
        length = span[1] - span[0]
        if level - least >= np.log(policy.min_transfer_times):
            yield _Slow(link, at[slice(*span)], np.full(length, np.exp(least)), past=True)
        if length >= policy.min_past_steps:
            least = min(least, level)


# -- what it costs, and where it is ------------------------------------------------------------------------


def _least_steps(case: Case, slow: _Slow) -> float:
    """Return the least number of slow steps: fewer, the more of the run they cost.

    It is never more than the number of steps in which the link is recorded.
    """
    times, most = case.times, case.policy.min_transfer_steps
    cost_share = times.share_of_run(float(_lost_ms(times, [slow]).sum()))
    needed = max(case.policy.min_costly_transfer_steps, 1 / cost_share) if cost_share > 0 else most
    recorded = int((~np.isnan(times.transfers.mean_ms[:, slow.link])).sum())
    return min(most, needed, recorded)


def _lost_ms(times: StepTimes, found: Sequence[_Slow]) -> Floats:
    return _blocked_at_most(times, _excess_ms(times, found) * times.transfers.n)


def _excess_ms(times: StepTimes, found: Sequence[_Slow]) -> Floats:
    """Return the time of a transfer beyond the usual in ms, steps x links; 0 where it is not slow."""
    excess_ms = np.zeros(times.transfers.mean_ms.shape)
    for slow in found:
        beyond_ms = times.transfers.mean_ms[slow.steps, slow.link] - slow.usual_ms
        excess_ms[slow.steps, slow.link] = np.fmax(excess_ms[slow.steps, slow.link], beyond_ms)
    return excess_ms


def _blocked_at_most(times: StepTimes, of_links_ms: Floats) -> Floats:
    """Return for each step the longest time in ms that a rank was blocked in these transfers.

    A rank's time in its links is limited to the time in which it was blocked in the step.
    """
    takes_part = times.transfers.takes_part(len(times.ranks))
    of_ranks_ms = np.fmin(of_links_ms @ takes_part, np.nan_to_num(times.blocked_ms))
    most: Floats = np.max(of_ranks_ms, axis=1, initial=0.0)
    return most


def _typical_ms(times: StepTimes, slow: _Slow) -> tuple[float, float]:
    mean_ms = times.transfers.mean_ms[slow.steps, slow.link]
    return float(np.nanmedian(mean_ms)), float(np.nanmedian(slow.usual_ms))


def _window(case: Case, steps: Ints) -> str:
    n_steps = len(case.times.iterations)
    edge = case.policy.edge_steps_share * n_steps
    if steps[-1] < n_steps - 1 - edge:
        return "bounded"
    return "persistent" if steps[0] <= edge else "ongoing"


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
    family = [_family(times, link, hosts) for link in times.transfers.links]
    families = {family[i] for i in slow}
    return [i for i in range(len(family)) if family[i] in families and i not in set(slow)]

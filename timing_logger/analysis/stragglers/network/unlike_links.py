"""Find links that do the same, of which half are slower than the rest: nothing says which is usual.

They have no rank in common: groups of the same ranks may be of another kind, and meant to be slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.series.peers import column_medians
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.cost.pricing import Pricing
from timing_logger.analysis.stragglers.facts.reasons import UnlikeLinks
from timing_logger.analysis.stragglers.network.communication import transfer_of
from timing_logger.analysis.stragglers.network.slow_links import SlowLink, families
from timing_logger.analysis.stragglers.network.transfer_prices import saved_ms
from timing_logger.analysis.stragglers.policy import Policy
from timing_logger.analysis.tables import Floats, Ints

_SAME_SIZE = 0.01  # messages whose mean sizes differ by less are equally large


class _Unlike(NamedTuple):
    """Links of one family that are slow, and the others, by their numbers."""

    slow: Ints
    quick: Ints


def why_unlike(case: Case, hosts: Mapping[int, str], pricing: Pricing) -> UnlikeLinks | None:
    """Return the costliest links that differ without anything to say which is usual; None if none do.

    Args:
        case: the run to be judged.
        hosts: the host of each rank, as far as known.
        pricing: what slow transfers cost.
    """
    found = [
        (cost_ms, unlike)
        for members in families(case.times, hosts)
        for unlike in _unlike(case, members)
        if _matters(case, cost_ms := _cost_ms(case.times, unlike, pricing))
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
    return bool(sizes.max() - sizes.min() <= _SAME_SIZE * sizes.max())


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


def _matters(case: Case, cost_ms: float) -> bool:
    policy = case.policy
    enough = case.times.share_of_run(cost_ms) >= policy.min_transfer_cost_share
    return enough and cost_ms >= policy.min_transfer_cost_ms


def _as_fact(times: StepTimes, cost_ms: float, unlike: _Unlike) -> UnlikeLinks:
    took, usual = (float(np.median(column_medians(times.transfers.mean_ms[:, links]))) for links in unlike)
    slow, quick = (
        tuple(transfer_of(times, times.transfers.links[i]) for i in links.tolist()) for links in unlike
    )
    return UnlikeLinks(slow, quick, took / usual, times.share_of_run(cost_ms))

"""Find slow links, by their own past, by others of their kind or by what is usual, and what they cost.

Times are compared for equally many bytes: what has more to transfer may take longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.accounting.nodes import WAIT
from timing_logger.analysis.rows.arrays import Bools, Floats, Ints
from timing_logger.analysis.rows.grouping import quantiles
from timing_logger.analysis.step_times.noise import change_points, usual_of
from timing_logger.analysis.step_times.peers import column_medians, log_ratios, peer_medians
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.step_times.transfers import MESSAGE, Link, Played, Transfers
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.pricing import Pricing
from timing_logger.analysis.verdict.who.slow_steps import SlowSteps, slow_steps
from timing_logger.results.facts import Than
from timing_logger.results.policy import Policy


class SlowLink(NamedTuple):
    """A link that is slow in some steps.

    Attributes:
        link: index of the link in ``Transfers.links``.
        steps: positions of the slow steps, ascending.
        usual_ms: for each of these steps, the usual time of a transfer in ms.
        than: what says which time is usual.
    """

    link: int
    steps: Ints
    usual_ms: Floats
    than: Than


def slow_links(case: Case) -> Iterator[SlowLink]:
    """Yield every link that is slow in some steps, once for each way to tell."""
    yield from _slower_than_others(case)
    extra = _times_as_large(case.times.transfers.mean_bytes)
    for i, mean_ms in enumerate(case.times.transfers.mean_ms.T):
        at = np.flatnonzero(~np.isnan(mean_ms))
        series = np.log(mean_ms[at] / extra[at, i])
        found = [*_slower_than_before(series, case.policy), *_now_and_then(series, case.policy)]
        for steps, usual, than in found:
            slow = SlowLink(i, at[steps], np.exp(usual) * extra[at[steps], i], than)
            yield slow if than == "usual" else _with_untimed(case.times.transfers, slow)


def _with_untimed(transfers: Transfers, slow: SlowLink) -> SlowLink:
    """Return a slow stretch with the steps in it that have transfers of which no time is known."""
    is_timed = ~np.isnan(transfers.mean_ms[:, slow.link])
    timed = np.flatnonzero(is_timed)
    begin = 0 if slow.steps[0] == timed[0] else slow.steps[0]
    end = len(is_timed) if slow.steps[-1] == timed[-1] else slow.steps[-1] + 1
    here = np.arange(begin, end)
    untimed = here[~is_timed[here] & (transfers.n[here, slow.link] > 0)]
    steps = np.concatenate([slow.steps, untimed])
    usual_ms = np.concatenate([slow.usual_ms, np.full(len(untimed), np.median(slow.usual_ms))])
    order = np.argsort(steps)
    return slow._replace(steps=steps[order], usual_ms=usual_ms[order])


def _times_as_large(mean_bytes: Floats) -> Floats:
    """Return how many times the median of its column each size is; 1 for less, and where it is unknown."""
    usual = np.broadcast_to(column_medians(mean_bytes), mean_bytes.shape)
    larger = np.nan_to_num(mean_bytes) > np.maximum(np.nan_to_num(usual), 1.0)
    found = np.ones(mean_bytes.shape)
    found[larger] = mean_bytes[larger] / np.maximum(usual[larger], 1.0)
    return found


# -- against others of their kind ------------------------------------------------------------------------


def _slower_than_others(case: Case) -> Iterator[SlowLink]:
    times, policy = case.times, case.policy
    for members in families(case):
        if len(members) < policy.min_alike_links:
            continue
        extra = _times_as_large(times.transfers.mean_bytes[:, members].T).T
        mean_ms = times.transfers.mean_ms[:, members] / extra
        usual_ms = peer_medians(mean_ms)
        ratios = log_ratios(mean_ms, usual_ms)
        least = np.log(policy.min_transfer_times)
        found = [slow for slow in _persistently(ratios, policy) if slow.level >= least]
        slow_share = len({slow.column for slow in found}) / len(members)
        is_group = times.transfers.links[members[0]].operation != MESSAGE
        if is_group and slow_share >= policy.max_slow_links_share:
            continue  # they may be of another kind: the groups of a square mesh have equal sizes and numbers
        for slow in found:
            usual_here_ms = (usual_ms * extra)[slow.steps, slow.column]
            found_here = SlowLink(int(members[slow.column]), slow.steps, usual_here_ms, "others")
            yield found_here if slow.are_single else _with_untimed(times.transfers, found_here)


def _persistently(ratios: Floats, policy: Policy) -> Iterator[SlowSteps]:
    """Yield the slow steps of columns that are slow in at least ``min_costly_transfer_steps`` steps."""
    with np.errstate(invalid="ignore"):
        n_slow = np.nansum(ratios >= np.log(policy.min_transfer_times), axis=0)
    often = n_slow >= min(policy.min_costly_transfer_steps, len(ratios))
    for slow in slow_steps(ratios, policy) if often.any() else ():
        if often[slow.column]:
            yield slow


def families(case: Case) -> Iterator[Ints]:
    """Yield the links of each family, by their numbers."""
    found: dict[object, list[int]] = {}
    for i, link in enumerate(case.times.transfers.links):
        found.setdefault(family_of(case, link), []).append(i)
    yield from map(np.array, found.values())


def family_of(case: Case, link: Link) -> object:
    """Return the key of a link's family: links that do the same between other ranks, on equally many hosts.

    Transfers within a host and between hosts differ, so they are not compared.
    """
    on = {case.hosts.get(rank, "") for rank in case.times.ranks_of(link.columns)}
    return *link.family, len(on)


# -- against themselves ----------------------------------------------------------------------------------

_Found = tuple[Ints, float, Than]
"""The places of slow steps in a series, the usual level, and what says so."""


def _slower_than_before(series: Floats, policy: Policy) -> Iterator[_Found]:
    """Yield the stretches whose level is far above the least level that was held before."""
    if not _may_have_grown(series, policy):
        return
    cap, min_sigma = float(np.log(policy.max_transfer_times)), policy.min_transfer_noise_sigma
    changes = change_points(series, policy, cap=cap, min_sigma=min_sigma)
    yield from _grown(series, list(pairwise([0, *changes, len(series)])), policy)


def _may_have_grown(series: Floats, policy: Policy) -> bool:
    """Tell whether enough steps are far above the quickest: most links need no search for changes."""
    if len(series) < policy.min_transfer_steps + policy.min_costly_transfer_steps:
        return False
    long = np.quantile(series, policy.quick_transfers_share) + np.log(policy.min_transfer_times)
    return bool((series >= long).sum() >= policy.min_costly_transfer_steps)


def _grown(series: Floats, spans: Sequence[tuple[int, int]], policy: Policy) -> Iterator[_Found]:
    least = np.inf
    for begin, end in spans:
        level = float(np.median(series[begin:end]))
        if level - least >= np.log(policy.min_transfer_times):
            yield np.arange(begin, end), least, "before"
        if end - begin >= policy.min_transfer_steps:
            least = min(least, level)


def _now_and_then(series: Floats, policy: Policy) -> Iterator[_Found]:
    """Yield the single steps, again and again, that are far above what is usual in the run.

    No other link is needed to tell; so it is not known whose the delay is, but that it is one.
    """
    if not len(series):
        return
    usual, sigma = usual_of(series)
    slow = series - usual >= max(np.log(policy.min_transfer_times), policy.min_z * sigma)
    n_bursts = int((np.diff(slow, prepend=False) & slow).sum())
    if n_bursts >= policy.min_bursts:
        yield np.flatnonzero(slow), usual, "usual"


# -- what they cost --------------------------------------------------------------------------------------


def saved_ms(times: StepTimes, links: Sequence[SlowLink], pricing: Pricing) -> float:
    """Return by how much a run would be shorter, in ms, if its slow links had taken what is usual.

    The run is played again with each slow transfer as quick as usual. Where its rows do not allow that, what
    the transfers took beyond the usual is summed instead, as far as a rank was blocked for it.
    """
    played_ms = float("nan")
    if times.played is not None:
        played_ms = pricing.saved_by_transfers_ms(*as_usual(times.played, times.transfers, links))
    return float(lost_ms(times, links).sum()) if np.isnan(played_ms) else played_ms


def lost_ms(times: StepTimes, links: Sequence[SlowLink]) -> Floats:
    """Return for each step the longest time in ms for which a rank was blocked in what is slow."""
    return blocked_at_most(times, excess_ms(times, links) * times.transfers.n)


def excess_ms(times: StepTimes, links: Sequence[SlowLink]) -> Floats:
    """Return the time of a transfer beyond the usual in ms, steps x links; 0 where it is not slow."""
    excess = np.zeros(times.transfers.mean_ms.shape)
    for slow in links:
        beyond_ms = times.transfers.mean_ms[slow.steps, slow.link] - slow.usual_ms
        excess[slow.steps, slow.link] = np.fmax(excess[slow.steps, slow.link], beyond_ms)
    return excess


def blocked_at_most(times: StepTimes, of_links_ms: Floats) -> Floats:
    """Return for each step the longest time in ms that a rank was blocked in these transfers.

    A rank's time in its links is limited to the time in which it was blocked in the step.
    """
    takes_part = times.transfers.takes_part(len(times.ranks))
    of_ranks_ms = np.fmin(of_links_ms @ takes_part, np.nan_to_num(times.blocked_ms))
    most: Floats = np.max(of_ranks_ms, axis=1, initial=0.0)
    return most


def _usual_s(transfers: Transfers, links: Sequence[SlowLink]) -> Floats:
    """Return for each meeting the usual time in s where it is slow; infinity where it is not."""
    usual_s = np.full(transfers.mean_ms.shape, np.inf)
    for slow in links:
        usual_s[slow.steps, slow.link] = np.fmin(usual_s[slow.steps, slow.link], slow.usual_ms / 1e3)
    has_link = transfers.link >= 0
    of_meeting = np.full(len(has_link), np.inf)
    of_meeting[has_link] = usual_s[transfers.step[has_link], transfers.link[has_link]]
    return of_meeting


def as_usual(played: Played, transfers: Transfers, links: Sequence[SlowLink]) -> tuple[Floats, Floats]:
    """Return how long each meeting takes, and how much later each node is left, with usual transfers.

    What a call took beyond its meeting, as a send that does not wait for its receiver, is limited to what
    such calls of the link take where it is not slow.
    """
    program, ties, usual_s = played.program, played.ties, _usual_s(transfers, links)
    n_joins = len(program.done.took_s) - len(usual_s)  # meetings of lines that join the run: over no link
    usual_s = np.pad(usual_s, (0, n_joins), constant_values=np.inf)
    tie, node = _waits_of_ties(played)
    meeting = ties.meeting[tie]
    is_slow = np.isfinite(usual_s[meeting])
    ordinary_s = _ordinary_late_s(
        program.late_s[node], 2 * transfers.link[meeting] + ties.needs[tie], is_slow
    )
    limit_s = np.where(np.isnan(ordinary_s), usual_s[meeting], ordinary_s)
    least_s = np.full(len(program.late_s), -np.inf)
    np.maximum.at(least_s, node[is_slow], limit_s[is_slow])
    late_s = np.where(np.isfinite(least_s), np.minimum(program.late_s, least_s), program.late_s)
    return np.minimum(program.done.took_s, usual_s), late_s


def _waits_of_ties(played: Played) -> tuple[Ints, Ints]:
    """Return the ties of rows in which a line waits, and for each the node in which it does."""
    program, ties = played.program, played.ties
    waits = np.flatnonzero(program.kind == WAIT)
    node_of_row = np.full(int(max(ties.row.max(initial=-1), program.row.max(initial=-1))) + 1, -1)
    node_of_row[program.row[waits]] = waits
    tie = np.flatnonzero(node_of_row[ties.row] >= 0)
    return tie, node_of_row[ties.row[tie]]


def _ordinary_late_s(late_s: Floats, kind: Ints, is_slow: Bools) -> Floats:
    """Return the median of each kind over what is not slow; NaN where all of it is."""
    kind = kind - kind.min(initial=0)
    n_kinds = int(kind.max(initial=-1)) + 1
    return quantiles(np.where(is_slow, np.nan, late_s), kind, n_kinds, [0.5])[0][kind]

"""What host counters did while a rank was slow, and neither in its other steps nor on its peers."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.analysis.step_times.peers import column_means, column_medians, peer_medians
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.causes.coincidence import (
    Bounds,
    Coincidence,
    CounterCourse,
    Delay,
    cause_from,
    coincidences,
    least_slow,
    preferred,
)
from timing_logger.analysis.verdict.causes.seen import Seen, seen
from timing_logger.results import criteria
from timing_logger.results.cause import Cause, How, Sought
from timing_logger.results.policy import Policy

MOST_RANKS = 16
"""The most ranks whose counters are compared: more peers do not make a rank stand out more."""


class FoundCause(NamedTuple):
    """The cause, if any is stated, and what was looked at; None if nothing is known of these ranks."""

    cause: Cause | None
    sought: Sought | None


def cause_of_rank(
    case: Case, rank: int, named: Collection[int], slow: Ints, host: pd.DataFrame
) -> FoundCause:
    """Find what coincides with the slowness of a rank.

    Args:
        case: the run, with the times by which the rank is slow.
        rank: the rank.
        named: all ranks that are slow, which are no peers.
        slow: the positions of its slow steps.
        host: the table of host counters.
    """
    times = case.times
    columns = _compared(case, times.ranks.index(rank), [times.ranks.index(one) for one in named])
    what = seen(host, times.ranks_of(columns), times.ends_s[:, columns], times.self_ms[:, columns])
    if what is None or not len(what.shown) or not what.stretches.n:
        return FoundCause(None, None)
    return _explained(what, _delay_of(case, what, rank, slow), case.policy)


def _compared(case: Case, column: int, named: list[int]) -> Ints:
    """Return the column of the rank, and those of peers that are not slow; of many, evenly chosen ones."""
    of_role = next(its for its in case.by_role.values() if column in its)
    peers = np.setdiff1d(of_role, named)
    chosen = peers[np.linspace(0, len(peers) - 1, min(len(peers), MOST_RANKS - 1)).astype(np.int64)]
    return np.concatenate([[column], chosen]).astype(np.int64)


def _delay_of(case: Case, what: Seen, rank: int, slow: Ints) -> Delay:
    times, stretches = case.times, what.stretches
    column = times.ranks.index(rank)
    of_role = next(its for its in case.by_role.values() if column in its)
    its = int(np.flatnonzero(of_role == column)[0])
    self_ms = times.self_ms[:, of_role]
    beyond_ms = (self_ms - peer_medians(self_ms))[:, [its]]
    length_ms = stretches.length_ms[:, 0]
    delayed_ms = times.recorded_every * stretches.sums(beyond_ms)[:, 0]
    share = delayed_ms / length_ms
    return Delay((rank,), share, stretches.have(slow) & (share >= least_slow(share)), length_ms)


def _has_usual(delay: Delay, policy: Policy) -> bool:
    """Tell whether the rank has stretches without a slow step to compare with."""
    n_usual = int((~delay.is_slow & ~np.isnan(delay.share)).sum())
    return n_usual >= max(policy.min_level_steps, policy.edge_steps_share * len(delay.share))


def _explained(what: Seen, delay: Delay, policy: Policy) -> FoundCause:
    beyond = np.stack([one - peer_medians(one) for one in what.compared])
    bounds = Bounds(policy.min_covered_share, policy.min_cause_correlation)
    found = coincidences(delay.share[:, None], np.zeros(1, np.int64), beyond, what.of_time, bounds)
    its_own = [one for one in found if _is_its_own(what, delay, one, policy)]
    chosen = preferred(what, [one for one in its_own if one.chance <= policy.max_cause_chance], its_own)
    how: How = "coincides"
    if not _has_usual(delay, policy):
        chosen, how = chosen or _throughout(what, delay, policy), "throughout"
    sought = what.sought(min(one.chance for one in found))
    if chosen is None:
        return FoundCause(None, sought)
    shown = what.shown[chosen.counter]
    course = CounterCourse(shown[:, 0], (shown - peer_medians(shown))[:, 0])
    cause = cause_from(
        what, chosen.counter, delay, course, how=how, covered=chosen.covered, chance=chosen.chance
    )
    return FoundCause(cause, sought)


def _is_its_own(what: Seen, delay: Delay, found: Coincidence, policy: Policy) -> bool:
    """Tell whether a counter is not as high on any peer while the rank is slow."""
    typical = column_medians(what.shown[found.counter][delay.is_slow])
    above = typical[0] - np.nanmax(typical[1:], initial=0.0)
    if found.counter in what.of_time:
        late = column_medians(delay.share[delay.is_slow][:, None])[0]
        return bool(above >= policy.min_covered_share * late)
    return bool(above > typical[0] / 2)


def _throughout(what: Seen, delay: Delay, policy: Policy) -> Coincidence | None:
    """Compare the level with that of the peers: only time that covers the delay says something then."""
    found = [_covering(number, what.shown[number], delay, policy) for number in what.of_time.tolist()]
    return preferred(what, [one for one in found if one.worth > 0], found)


def _above_peers(shown: Floats) -> Floats:
    """Return by how much a counter of the first rank is above the highest of the others, by stretch."""
    above: Floats = shown[:, 0] - np.fmax.reduce(shown[:, 1:], axis=1, initial=0.0)
    return above


def _covering(number: int, shown: Floats, delay: Delay, policy: Policy) -> Coincidence:
    """Tell how much of the delay a counter states; it is worth most if that is all of it and no more."""
    above = _above_peers(shown)
    known = ~np.isnan(above) & ~np.isnan(delay.share)
    covered = 0.0
    if known.sum() >= policy.min_level_steps and delay.share[known].sum() > 0:
        covered = float(above[known].sum() / delay.share[known].sum())
    counts = covered >= policy.min_covered_share and _stands_out(shown[known], above[known], policy)
    return Coincidence(
        number, float("nan"), covered, min(covered, 1 / covered) if counts else 0.0, float("nan")
    )


def _stands_out(shown: Floats, above: Floats, policy: Policy) -> bool:
    """Tell whether the first rank is above its peers nearly always, and by more than they are apart."""
    peers = shown[:, 1:][:, ~np.isnan(shown[:, 1:]).all(axis=0)]
    if peers.shape[1] < criteria.MIN_CAUSE_PEERS or np.mean(above > 0) < policy.min_slower_steps_share:
        return False
    return bool(above.mean() >= np.ptp(column_means(peers)))

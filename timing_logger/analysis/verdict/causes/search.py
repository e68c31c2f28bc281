"""Add to a judgement what host counters show of it: the verdict stays as it is.

Of a slow rank it is what they did while it was slow, and neither in its other steps nor on its peers; else
what they did on all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.analysis.step_times.peers import column_means, column_medians, peer_medians, row_medians
from timing_logger.analysis.verdict.case import Case, Judgement
from timing_logger.analysis.verdict.causes.coincidence import (
    Bounds,
    Coincidence,
    Delay,
    cause_from,
    coincidences,
    least_slow,
    preferred,
)
from timing_logger.analysis.verdict.causes.seen import Seen, seen
from timing_logger.analysis.verdict.owner import OF_RANKS
from timing_logger.analysis.verdict.whole_run.slow_links import blocked_at_most
from timing_logger.results import criteria
from timing_logger.results.cause import Cause, How, Sought
from timing_logger.results.policy import Policy

MOST_RANKS = 16
"""The most ranks whose counters are compared: more peers do not make a rank stand out more."""

_WAITS = ("main_run_queue_wait_us", "run_queue_wait_us")
"""Counters of time for which a rank's own threads waited for a processor, the best one first."""

_STOPPED = "throttled_us"
"""The counter of time for which a quota stopped a rank: its threads wait for a processor then."""

_OF_ALL = ("communication", "group-wide", "diffuse")

HostCounters: TypeAlias = Callable[[], pd.DataFrame | None]
"""Reads the table of host counters; it is called only where a cause is looked for."""


def given(table: pd.DataFrame | None) -> HostCounters | None:
    """Return what reads a table that is there already; None if there is none."""
    return None if table is None else lambda: table


class FoundCause(NamedTuple):
    """The cause, if any is stated, and what was looked at; None if nothing is known of these ranks."""

    cause: Cause | None
    sought: Sought | None


_NOTHING = FoundCause(None, None)


def with_cause(found: Judgement, host: HostCounters | None) -> Judgement:
    """Return the judgement with the cause that host counters show, and with what was looked at.

    Nobody is named for it, and no other verdict is given.
    """
    if host is None or not found.are_comparable or not _is_asked(found):
        return found
    table = host()
    if table is None or not len(table):
        return found
    answer = _answer(found, table)
    return found._replace(verdict=replace(found.verdict, cause=answer.cause, sought=answer.sought))


def _is_asked(found: Judgement) -> bool:
    """Tell whether time is lost of which it is not known why."""
    verdict, visible = found.verdict, found.case.policy.visible_cost_share
    of_ranks = verdict.verdict in OF_RANKS
    if not verdict.judged or verdict.owner == "work" or (of_ranks and not verdict.owner):
        return False
    waited = max(verdict.not_explained, verdict.lost_in_turn, verdict.recurring)
    return of_ranks or verdict.verdict in _OF_ALL or waited >= visible


def _answer(found: Judgement, table: pd.DataFrame) -> FoundCause:
    case, verdict = found.case, found.verdict
    if verdict.verdict in OF_RANKS:
        looked_at = [rank for rank in verdict.ranks_to_look_at if rank in found.slow]
        if not looked_at:
            return _NOTHING
        first = looked_at[0]
        return cause_of_rank(case, first, looked_at, found.slow[first], table)
    if verdict.verdict == "communication":
        return cause_of_transfers(case, table)
    if verdict.verdict == "group-wide":
        return cause_together(case, _steps_of(found), table)
    lost_ms = verdict.cost_ms or verdict.lost_in_turn * case.times.run_ms
    return cause_in_turn(case, lost_ms / verdict.recorded_every, table)


def _steps_of(found: Judgement) -> Ints:
    """Return the positions of the steps in which all ranks were slower: from the first to the last."""
    verdict, times = found.verdict, found.case.times
    iterations, epochs = (
        times.numbering.iterations(times.iterations),
        times.numbering.epochs_of(times.iterations),
    )
    ends = []
    for iteration, epoch in (
        (verdict.first_iteration, verdict.first_epoch), (verdict.last_iteration, verdict.last_epoch)
    ):  # fmt: skip
        its = (iterations == iteration) & (np.isnan(epochs) if epoch is None else epochs == epoch)
        ends.append(int(np.argmax(its)))
    return np.arange(ends[0], ends[1] + 1)


def _seen(case: Case, columns: Ints, host: pd.DataFrame) -> Seen | None:
    times = case.times
    return seen(host, times.ranks_of(columns), times.ends_s[:, columns], times.self_ms[:, columns])


def _all_compared(
    what: Seen, delays: Floats, columns: Ints, shown: Floats, policy: Policy
) -> list[Coincidence]:
    bounds = Bounds(policy.min_covered_share, policy.min_cause_correlation)
    return coincidences(delays, columns, shown, what.of_time, bounds)


# -- one slow rank --------------------------------------------------------------------------------------


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
    what = _seen(case, columns, host)
    if what is None:
        return _NOTHING
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
    found = _all_compared(what, delay.share[:, None], np.zeros(1, np.int64), beyond, policy)
    its_own = [one for one in found if _is_its_own(what, delay, one, policy)]
    chosen = preferred(what, [one for one in its_own if one.chance <= policy.max_cause_chance], its_own)
    how: How = "coincides"
    if not _has_usual(delay, policy):
        chosen, how = chosen or _throughout(what, delay, policy), "throughout"
    sought = what.sought(min(one.chance for one in found))
    if chosen is None:
        return FoundCause(None, sought)
    shown = what.shown[chosen.counter]
    beyond_peers = (shown - peer_medians(shown))[:, 0]
    return FoundCause(cause_from(what, chosen, delay, shown[:, 0], beyond_peers, how), sought)


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


# -- all ranks ------------------------------------------------------------------------------------------


def cause_in_turn(case: Case, lost_ms: float, host: pd.DataFrame) -> FoundCause:
    """Find what all ranks did while time is lost to late ranks, to one after the other.

    Args:
        case: the run.
        lost_ms: how much is lost, over the steps recorded.
        host: the table of host counters.
    """
    columns = _some(len(case.times.ranks))
    what = _seen(case, columns, host)
    if what is None:
        return _NOTHING
    late = _lateness(case, what, columns)
    beyond = np.stack([one - peer_medians(one) for one in what.compared])
    chosen, sought = _best(what, late, np.arange(len(columns)), beyond, case.policy)
    chosen = chosen or _most_of_the_time(case, what, lost_ms)
    return FoundCause(chosen and _stated(case, what, chosen, lost_ms), sought)


def cause_together(case: Case, slow: Ints, host: pd.DataFrame) -> FoundCause:
    """Find what coincides with all ranks having been slower in some steps, given by their positions."""
    what = _seen(case, _some(len(case.times.ranks)), host)
    if what is None:
        return _NOTHING
    typical_ms = row_medians(case.times.self_ms)
    usual = np.setdiff1d(np.arange(len(typical_ms)), slow)
    usual_ms = column_medians(typical_ms[usual if len(usual) else slow][:, None])[0]
    share, length_ms = _share(case, what, typical_ms - usual_ms)
    return _with_all(case, what, Delay((), share, what.stretches.have(slow), length_ms), row_medians)


def cause_of_transfers(case: Case, host: pd.DataFrame) -> FoundCause:
    """Find what coincides with slow transfers: on any rank, as one that is late makes the others wait."""
    columns = _some(len(case.times.ranks))
    what = _seen(case, columns, host)
    if what is None:
        return _NOTHING
    times = case.times
    blocked_ms = blocked_at_most(times, np.nan_to_num(times.transfers.mean_ms) * times.transfers.n)
    share, length_ms = _share(case, what, blocked_ms - np.median(blocked_ms))
    delay = Delay((), share, share >= least_slow(share), length_ms)
    found = _with_all(case, what, delay, lambda shown: np.fmax.reduce(shown, axis=1))
    if found.cause is None:
        return found
    of_it = next(n for n, (_, one) in enumerate(what.counters) if one.name == found.cause.counter)
    most = np.nan_to_num(column_medians(what.shown[of_it][delay.is_slow]))
    high = columns[most >= most.max() / 2]
    ranks = tuple(times.ranks_of(high)) if len(high) < len(columns) else ()
    return found._replace(cause=found.cause._replace(ranks=ranks))


def _share(case: Case, what: Seen, slower_ms: Floats) -> tuple[Floats, Floats]:
    """Return by how much each stretch is longer, as a fraction of it, and how long it is in ms."""
    length_ms = row_medians(what.stretches.length_ms)
    sums_ms = case.times.recorded_every * what.stretches.sums(slower_ms[:, None])[:, 0]
    return sums_ms / length_ms, length_ms


def _with_all(case: Case, what: Seen, delay: Delay, of_all: Callable[[Floats], Floats]) -> FoundCause:
    """Find which counter goes with a delay that all ranks share.

    Args:
        case: the run.
        what: what counters show.
        delay: the delay.
        of_all: takes one value for each stretch out of those of all ranks (stretches x ranks).
    """
    together = np.stack([of_all(one)[:, None] for one in what.compared])
    chosen, sought = _best(what, delay.share[:, None], np.zeros(1, np.int64), together, case.policy)
    if chosen is None:
        return FoundCause(None, sought)
    shown = of_all(what.shown[chosen.counter])
    return FoundCause(cause_from(what, chosen, delay, shown, shown - _usual(shown, delay), "shared"), sought)


def _best(
    what: Seen, delays: Floats, columns: Ints, shown: Floats, policy: Policy
) -> tuple[Coincidence | None, Sought]:
    """Return the counter that goes with delays beyond chance, if one does, and what was looked at."""
    found = _all_compared(what, delays, columns, shown, policy)
    certain = [one for one in found if one.chance <= policy.max_cause_chance]
    return preferred(what, certain, found), what.sought(min(one.chance for one in found))


def _usual(shown: Floats, delay: Delay) -> float:
    others = shown[~delay.is_slow & ~np.isnan(shown)]
    return float(np.median(others)) if len(others) else 0.0


def _some(n_ranks: int) -> Ints:
    return np.unique(np.linspace(0, n_ranks - 1, min(n_ranks, MOST_RANKS)).astype(np.int64))


def _lateness(case: Case, what: Seen, columns: Ints) -> Floats:
    """Return by how much longer than the typical rank each works, as shares of the time."""
    times, stretches = case.times, what.stretches
    late_ms = np.full_like(times.self_ms, np.nan)
    for its in case.by_role.values():
        late_ms[:, its] = times.self_ms[:, its] - row_medians(times.self_ms[:, its])[:, None]
    delayed_ms = times.recorded_every * stretches.sums(late_ms[:, columns])
    return delayed_ms / stretches.length_ms


def _most_of_the_time(case: Case, what: Seen, lost_ms: float) -> Coincidence | None:
    """Return the counter of waiting for processors if ranks did so for as long as is lost; else None.

    Where ranks wait in each second, no second is unlike the others, so nothing can coincide. Then it takes
    two counters: the wait, and a quota or more tasks than cores, which make ranks wait.
    """
    lost = case.times.share_of_run(lost_ms)
    shares = {
        counter.name: (number, float(column_medians(column_means(what.shown[number])[:, None])[0]))
        for number, (_, counter) in enumerate(what.counters)
    }
    waits = [shares[name] for name in _WAITS if name in shares]
    if not waits or not waits[0][1] >= lost > 0:
        return None
    number, waited = waits[0]
    stopped_at, stopped = shares.get(_STOPPED, (number, 0.0))
    if stopped >= case.policy.min_covered_share * waited:
        return Coincidence(stopped_at, 0.0, stopped / lost, 0.0, float("nan"))
    if what.runnable > what.usable_cores:
        return Coincidence(number, 0.0, waited / lost, 0.0, float("nan"))
    return None


def _stated(case: Case, what: Seen, chosen: Coincidence, lost_ms: float) -> Cause:
    times, stretches = case.times, what.stretches
    length_ms = row_medians(stretches.length_ms)
    lost = np.full(stretches.n, times.share_of_run(lost_ms))
    delay = Delay((), lost, np.ones(stretches.n, np.bool_), length_ms)
    typical = row_medians(what.shown[chosen.counter])
    return cause_from(what, chosen, delay, typical, typical, "shared")

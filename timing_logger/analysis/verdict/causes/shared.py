"""What host counters show of all ranks where none is slow: time is lost in turn, or all slowed down."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.table_types import Floats, Ints
from timing_logger.analysis.step_times.peers import column_means, column_medians, peer_medians, row_medians
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.causes.coincidence import Bounds, Coincidence, coincidences
from timing_logger.analysis.verdict.causes.figures import (
    CounterCourse,
    Delay,
    cause_from,
    least_slow,
    preferred,
)
from timing_logger.analysis.verdict.causes.seen import Seen, seen
from timing_logger.analysis.verdict.causes.slow_rank import MOST_RANKS, FoundCause
from timing_logger.analysis.verdict.whole_run.slow_links import blocked_at_most
from timing_logger.results.cause import Cause

_WAITS = ("main_run_queue_wait_us", "run_queue_wait_us")
"""Counters of time for which a rank's own threads waited for a processor, the best one first."""

_STOPPED = "throttled_us"
"""The counter of time for which a quota stopped a rank: its threads wait for a processor then."""


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
        return FoundCause(None, None)
    late = _lateness(case, what, columns)
    beyond = np.stack([one - peer_medians(one) for one in what.compared])
    bounds = Bounds(case.policy.min_covered_share, case.policy.min_cause_correlation)
    found = coincidences(late, np.arange(len(columns)), beyond, what.of_time, bounds)
    chance = min(one.chance for one in found)
    certain = [one for one in found if one.chance <= case.policy.max_cause_chance]
    chosen = preferred(what, certain, found)
    chosen = chosen or _most_of_the_time(case, what, lost_ms)
    if chosen is None:
        return FoundCause(None, what.sought(chance))
    return FoundCause(_stated(case, what, chosen, lost_ms), what.sought(chance))


def cause_together(case: Case, slow: Ints, host: pd.DataFrame) -> FoundCause:
    """Find what coincides with all ranks having been slower in some steps, given by their positions."""
    what = _seen(case, _some(len(case.times.ranks)), host)
    if what is None:
        return FoundCause(None, None)
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
        return FoundCause(None, None)
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
    bounds = Bounds(case.policy.min_covered_share, case.policy.min_cause_correlation)
    together = np.stack([of_all(one)[:, None] for one in what.compared])
    found = coincidences(delay.share[:, None], np.zeros(1, np.int64), together, what.of_time, bounds)
    chance = min(one.chance for one in found)
    certain = [one for one in found if one.chance <= case.policy.max_cause_chance]
    chosen = preferred(what, certain, found)
    if chosen is None:
        return FoundCause(None, what.sought(chance))
    shown = of_all(what.shown[chosen.counter])
    course = CounterCourse(shown, shown - _usual(shown, delay))
    cause = cause_from(
        what, chosen.counter, delay, course, how="shared", covered=chosen.covered, chance=chosen.chance
    )
    return FoundCause(cause, what.sought(chance))


def _usual(shown: Floats, delay: Delay) -> float:
    others = shown[~delay.is_slow & ~np.isnan(shown)]
    return float(np.median(others)) if len(others) else 0.0


def _some(n_ranks: int) -> Ints:
    return np.unique(np.linspace(0, n_ranks - 1, min(n_ranks, MOST_RANKS)).astype(np.int64))


def _seen(case: Case, columns: Ints, host: pd.DataFrame) -> Seen | None:
    times = case.times
    what = seen(host, times.ranks_of(columns), times.ends_s[:, columns], times.self_ms[:, columns])
    return what if what is not None and len(what.shown) else None


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
    return cause_from(
        what, chosen.counter, delay, CounterCourse(typical, typical),
        how="shared", covered=chosen.covered, chance=chosen.chance,
    )  # fmt: skip

"""The host counters of some ranks by stretch of steps, in units that can be compared with delays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.arrays import Bools, Floats, Ints, known
from timing_logger.results import criteria
from timing_logger.results.cause import COUNTERS, IDLE_BIT, KindOfCause, Sought
from timing_logger.schema.host_counters import BY_NAME, Counter

_MOST_STRETCHES = 20_000
"""Of a run of more intervals, stretches are made longer: time and memory of the search grow with them."""


def median_of_known(values: Floats) -> float:
    """Return the median of what is known; NaN if nothing is."""
    found = known(values)
    return float(np.median(found)) if len(found) else float("nan")


class Stretches(NamedTuple):
    """Stretches of successive steps.

    Attributes:
        of_step: for each step the position of its stretch; -1 for the first, of which no begin is known, and
            for all if it is known of none.
        begin_s, end_s: stretches x ranks, on the time axis of the rank's instants; NaN where unknown.
    """

    of_step: Ints
    begin_s: Floats
    end_s: Floats

    @property
    def n(self) -> int:
        """The number of stretches."""
        return len(self.begin_s)

    @property
    def length_ms(self) -> Floats:
        """How long each lasts on each rank, in ms; NaN where unknown."""
        length_ms = 1e3 * (self.end_s - self.begin_s)
        return np.where(length_ms > 0, length_ms, np.nan)

    @property
    def typical_s(self) -> float:
        """How long a typical one lasts, in seconds; NaN if there is none."""
        return median_of_known(self.length_ms) / 1e3

    @property
    def typical_steps(self) -> int:
        """The number of steps of a typical one; 0 if there is none."""
        n_steps = np.bincount(self.of_step[self.of_step >= 0], minlength=self.n)
        return int(np.median(n_steps)) if self.n else 0

    def sums(self, of_steps: Floats) -> Floats:
        """Sum values of steps (steps x ranks) by stretch; what is unknown counts as 0."""
        found = np.zeros((self.n, of_steps.shape[1]))
        inside = self.of_step >= 0
        np.add.at(found, self.of_step[inside], np.nan_to_num(of_steps[inside]))
        return found

    def have(self, steps: Ints) -> Bools:
        """Tell of each stretch whether any of these steps, given by their positions, is in it."""
        found = np.zeros(self.n, np.bool_)
        found[self.of_step[steps][self.of_step[steps] >= 0]] = True
        return found


def stretches_of(ends_s: Floats, begins_s: Floats) -> Stretches:
    """Divide a run into stretches of whole steps that last about as long as an interval, or longer.

    A stretch has the steps whose middle lies in an interval of the first rank, so that its counters are mixed
    as little as may be with those of the stretches beside it.

    Args:
        ends_s: when each step ended, steps x ranks, in seconds; NaN where unknown.
        begins_s: when the intervals of the first rank's counters began, in seconds, ascending.
    """
    number = np.searchsorted(begins_s, _middles_s(ends_s[:, 0]), side="right")
    number //= 1 + len(begins_s) // _MOST_STRETCHES
    _, place = np.unique(number, return_inverse=True)
    last = np.flatnonzero(np.append(np.diff(place) > 0, True)) + 1 if len(place) else np.zeros(0, np.int64)
    edges = np.concatenate([[0], last]).astype(np.int64)
    of_step = np.full(len(ends_s), -1, np.int64)
    of_step[1 : 1 + len(place)] = place  # of a rank that never communicated, the middle of no step is known
    return Stretches(of_step, ends_s[edges[:-1]], ends_s[edges[1:]])


def _middles_s(ends_s: Floats) -> Floats:
    """Return the middle of each step but the first; between those that are known where its end is not."""
    known = np.flatnonzero(~np.isnan(ends_s))
    if not len(known):
        return np.zeros(0)
    whole_s = np.maximum.accumulate(np.interp(np.arange(len(ends_s)), known, ends_s[known]))
    middles_s: Floats = (whole_s[1:] + whole_s[:-1]) / 2
    return middles_s


# -- counters ----------------------------------------------------------------------------------------------


class Intervals(NamedTuple):
    """The host counters of one rank; arrays have one entry per interval, ascending.

    Attributes:
        begin_s, end_s: on the time axis of the rank's instants, in seconds.
        values: each counter; NaN where unknown.
    """

    begin_s: Floats
    end_s: Floats
    values: Mapping[str, Floats]


def intervals_by_rank(
    host: pd.DataFrame, ranks: Sequence[int], counters: Sequence[Counter]
) -> dict[int, Intervals]:
    """Take the counters of some ranks from the table of host counters.

    Processes of a rank that follow each other are put together, unless their intervals overlap: they are on
    different clocks then, and the latest counts.
    """
    found = {}
    for rank, rows in host[host["rank"].isin(ranks)].groupby("rank"):
        whole = rows.sort_values("start_counter", kind="stable")
        if (whole["start_counter"].to_numpy()[1:] < whole["end_counter"].to_numpy()[:-1]).any():
            whole = whole[whole["incarnation"] == whole["incarnation"].max()]
        values = {one.name: whole[one.name].to_numpy(np.float64) for one in counters}
        found[int(str(rank))] = Intervals(
            whole["start_counter"].to_numpy(np.float64), whole["end_counter"].to_numpy(np.float64), values
        )
    return found


def in_stretches(counter: Counter, intervals: Intervals, begin_s: Floats, end_s: Floats) -> Floats:
    """Return what a counter of a rank shows in stretches of its time, per second; NaN where unknown.

    That is a share of the time for ``waited us``, the mean for ``level``, the share of the time in which
    something held the clock down for ``bits``, and the number per second for ``events``. Where a stretch has
    a part of an interval, it has as large a part of what was counted in that.
    """
    lasted_s = intervals.end_s - intervals.begin_s
    value = intervals.values[counter.name]
    if counter.reading == "bits":
        value = np.where(np.isnan(value), np.nan, (np.nan_to_num(value).astype(np.int64) & ~IDLE_BIT) != 0)
    if counter.reading in ("level", "bits"):
        value = _from_end_to_end(value, intervals)
    known = ~np.isnan(value) & (lasted_s > 0)
    whole = {"waited us": value / 1e6, "events": value}.get(counter.reading, value * lasted_s)
    covered_s = _between(intervals, np.where(known, lasted_s, 0.0), begin_s, end_s)
    summed = _between(intervals, np.where(known, whole, 0.0), begin_s, end_s)
    enough = covered_s >= criteria.MOST_SHARE * (end_s - begin_s)
    return np.where(enough & (covered_s > 0), summed / np.where(covered_s > 0, covered_s, np.nan), np.nan)


def _from_end_to_end(level: Floats, intervals: Intervals) -> Floats:
    """Return the level of each interval, given that at its end: the mean of both ends where both are known.

    What stood at the end alone would be half an interval late, and go as well with the delays before it.
    """
    before = np.append(np.nan, level)[:-1]
    follows = (
        np.append(np.nan, intervals.begin_s[1:] - intervals.end_s[:-1])[: len(level)]
        < criteria.MAX_INTERVAL_GAP_S
    )
    return np.where(follows & ~np.isnan(before), (before + level) / 2, level)


def _between(intervals: Intervals, of_each: Floats, begin_s: Floats, end_s: Floats) -> Floats:
    """Sum what intervals hold between instants, in proportion to how much of each lies there."""
    at_s = np.stack([intervals.begin_s, intervals.end_s], axis=1).ravel()
    until = np.cumsum(of_each)
    sums = np.stack([until - of_each, until], axis=1).ravel()
    order = np.maximum.accumulate(at_s)  # intervals that touch may overlap by a rounding error
    found: Floats = np.interp(end_s, order, sums) - np.interp(begin_s, order, sums)
    return found


_RUNNABLE, _CORES = BY_NAME["runnable_tasks"], BY_NAME["usable_cores"]
"""What is read beside the counters, as a level."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What host counters show of some ranks.

    Attributes:
        stretches: the stretches of steps.
        counters: the counters that are known, each with the cause that it shows.
        shown: counters x stretches x ranks, per second; of a counter that states time as a share of the time.
        runnable: how many tasks wanted to run in a typical stretch of these ranks' hosts; NaN if unknown.
        usable_cores: how many cores they could use; NaN if unknown.
    """

    stretches: Stretches
    counters: Sequence[tuple[KindOfCause, Counter]]
    shown: Floats
    runnable: float
    usable_cores: float

    @property
    def of_time(self) -> Ints:
        """The places of the counters that state time."""
        return np.flatnonzero([counter.states_time for _, counter in self.counters])

    @property
    def compared(self) -> Floats:
        """What is shown, for comparison with delays: of events the square root, whose noise is even.

        A few of many events may take most of the time, as the last segment that TCP waits for does.
        """
        its_events = np.ones(len(self.shown), np.bool_)
        its_events[self.of_time] = False
        return np.where(its_events[:, None, None], np.sqrt(np.maximum(self.shown, 0.0)), self.shown)

    def sought(self, chance: float) -> Sought:
        """Return what was looked at, with the chance of the best of it."""
        names = tuple(counter.name for _, counter in self.counters)
        return Sought(names, self.shown.shape[2], self.stretches.n, self.stretches.typical_s, chance)


def seen(host: pd.DataFrame, ranks: Sequence[int], ends_s: Floats, self_ms: Floats) -> Seen | None:
    """Take the counters of these ranks by stretch.

    Args:
        host: the table of host counters.
        ranks: the ranks, the one to be explained first.
        ends_s: when each of them ended each step, steps x ranks, in seconds.
        self_ms: how long each of them worked in each step on its own account, steps x ranks.

    Returns:
        What they show; None if nothing of the first is known, or no step of it, or all of it is 0.
    """
    counters = [(cause, counter) for cause, counter in COUNTERS if counter.name in host.columns]
    beside = [one for one in (_RUNNABLE, _CORES) if one.name in host.columns]
    by_rank = intervals_by_rank(host, ranks, [*(counter for _, counter in counters), *beside])
    if not counters or ranks[0] not in by_rank:
        return None
    stretches = stretches_of(ends_s, by_rank[ranks[0]].begin_s)
    if not stretches.n:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        busy = np.minimum(stretches.sums(self_ms) / stretches.length_ms, 1.0)
    shown = [_comparable(one, _of_ranks(one, ranks, by_rank, stretches), busy) for _, one in counters]
    varies = [number for number, one in enumerate(shown) if np.nanmax(one, initial=0.0) > 0]
    if not varies:
        return None
    levels = {one.name: median_of_known(_of_ranks(one, ranks, by_rank, stretches)) for one in beside}
    return Seen(
        stretches, [counters[number] for number in varies],
        np.array([shown[number] for number in varies]),
        levels.get("runnable_tasks", float("nan")), levels.get("usable_cores", float("nan")),
    )  # fmt: skip


def _of_ranks(
    counter: Counter, ranks: Sequence[int], by_rank: dict[int, Intervals], stretches: Stretches
) -> Floats:
    found = np.full((stretches.n, len(ranks)), np.nan)
    for column, rank in enumerate(ranks):
        if rank in by_rank:
            begin_s, end_s = stretches.begin_s[:, column], stretches.end_s[:, column]
            found[:, column] = in_stretches(counter, by_rank[rank], begin_s, end_s)
    return found


def _comparable(counter: Counter, values: Floats, busy: Floats) -> Floats:
    """Return the time that work takes longer than at the usual clock as a share; other counters as is."""
    if counter.reading != "level":
        return values
    known = values[values > 0]
    usual = float(np.quantile(known, criteria.USUAL_CLOCK_QUANTILE)) if len(known) else float("nan")
    return busy * np.maximum(1 - values / usual, 0.0)

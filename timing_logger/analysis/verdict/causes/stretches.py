"""Bring steps and host counters together: stretches of whole steps, and what counters show in each.

Stretches are made of steps, so they are the same for all ranks without any clock being compared; what a
rank's counters show in them is taken on the axis of its own instants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.table_types import Bools, Floats, Ints
from timing_logger.results import criteria
from timing_logger.results.kinds_of_cause import IDLE_BIT
from timing_logger.schema.host_counters import Counter

_MOST_STRETCHES = 20_000
"""Of a run of more intervals, stretches are made longer: time and memory of the search grow with them."""


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
        known_ms = self.length_ms[~np.isnan(self.length_ms)]
        return float(np.median(known_ms)) / 1e3 if len(known_ms) else float("nan")

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

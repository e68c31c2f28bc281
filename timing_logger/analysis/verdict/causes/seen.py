"""The host counters of some ranks by stretch of steps, in units that can be compared with delays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.table_types import Floats, Ints
from timing_logger.analysis.verdict.causes.stretches import (
    Intervals,
    Stretches,
    in_stretches,
    intervals_by_rank,
    stretches_of,
)
from timing_logger.results import criteria
from timing_logger.results.cause import Sought
from timing_logger.results.kinds_of_cause import COUNTERS, KindOfCause
from timing_logger.schema.host_counters import BY_NAME, Counter

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
        What they show; None if nothing of the first is known, or no step of it.
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
    levels = {one.name: _level(_of_ranks(one, ranks, by_rank, stretches)) for one in beside}
    return Seen(
        stretches, [counters[number] for number in varies],
        np.array([shown[number] for number in varies]).reshape(-1, stretches.n, len(ranks)),
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


def _level(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")

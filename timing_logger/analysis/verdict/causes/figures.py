"""The figures of a cause: what a counter shows in slow stretches of steps, and in the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.table_types import Bools, Floats
from timing_logger.analysis.verdict.causes.coincidence import Coincidence
from timing_logger.analysis.verdict.causes.seen import Seen
from timing_logger.results import criteria
from timing_logger.results.cause import Cause, How


class Delay(NamedTuple):
    """A delay that is to be explained; arrays have one entry per stretch.

    Attributes:
        ranks: the ranks that have it.
        share: as a fraction of the time; NaN where unknown.
        is_slow: whether there are slow steps.
        length_ms: how long the stretch lasts; NaN where unknown.
    """

    ranks: tuple[int, ...]
    share: Floats
    is_slow: Bools
    length_ms: Floats


class CounterCourse(NamedTuple):
    """A counter of the ranks with the delay; arrays have one entry per stretch, NaN where unknown.

    Attributes:
        shown: what it shows, per second, or as a share of the time.
        beyond: by how much that is more than it usually is, or than on peers.
    """

    shown: Floats
    beyond: Floats


def cause_from(
    seen: Seen, number: int, delay: Delay, course: CounterCourse, *, how: How, covered: float, chance: float
) -> Cause:
    """Put together what is stated of a counter.

    Args:
        seen: what counters show.
        number: the place of the counter.
        delay: the delay that it goes with.
        course: what it shows then.
        how: what was compared.
        covered: the part of the delay that it states.
        chance: how likely any counter goes with it as well.
    """
    cause, counter = seen.counters[number]
    known = ~np.isnan(course.shown) & ~np.isnan(delay.length_ms)
    slow, other = known & delay.is_slow, known & ~delay.is_slow
    figure = course.shown * (delay.length_ms if counter.states_time else 1.0)
    usual_beyond = _median(course.beyond[slow])
    half, states_time = criteria.WITH_DELAY_SHARE, counter.states_time
    enough = half * delay.share if states_time else np.full(len(known), half * usual_beyond)
    return Cause(
        cause.name, counter.name, delay.ranks, how, states_time,
        slow=int(slow.sum()), slow_with=int((slow & (course.beyond >= enough)).sum()),
        other=int(other.sum()), other_with=int((other & (course.beyond >= half * usual_beyond)).sum()),
        delay_ms=_median((delay.share * delay.length_ms)[slow]),
        in_slow=_median(figure[slow]), in_others=_median(figure[other]),
        covered_share=covered if states_time else float("nan"),
        time_share=float(np.nanmean(course.shown)) if states_time and known.any() else float("nan"),
        chance=chance, stretch_steps=seen.stretches.typical_steps, stretch_s=seen.stretches.typical_s,
        runnable=seen.runnable, usable_cores=seen.usable_cores,
    )  # fmt: skip


def _median(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


def least_slow(share: Floats) -> float:
    """Return from which delay on a stretch with slow steps is slow: half of that in which most time is lost.

    Where slow steps gather, a few of them in other stretches do not make these slow.
    """
    lost = np.sort(np.maximum(np.nan_to_num(share), 0.0))
    until = np.cumsum(lost)
    return criteria.WITH_DELAY_SHARE * float(lost[np.searchsorted(until, until[-1] / 2)])


def preferred(seen: Seen, certain: list[Coincidence], found: list[Coincidence]) -> Coincidence | None:
    """Return which of the counters that coincide is stated; None if there is none.

    One that tells how much time it took comes first; of those that do as well, the most specific. What brings
    about the cause that it shows comes before it, if it states most of the delay: a thread that a quota stops
    waits for a processor meanwhile, so its wait needs no second test against chance.

    Args:
        seen: what counters show.
        certain: those that coincide beyond chance.
        found: all that were compared.
    """
    timed = [one for one in certain if one.counter in seen.of_time] or certain
    best = max((one.worth for one in timed), default=0.0)
    chosen = next((one for one in timed if one.worth >= criteria.EQUALLY_GOOD_SHARE * best), None)
    if chosen is None:
        return None
    name = seen.counters[chosen.counter][0].name
    before = (one for one in found if one.worth > 0 and seen.counters[one.counter][0].brings == name)
    return next((one._replace(chance=chosen.chance) for one in before if one.counter in seen.of_time), chosen)

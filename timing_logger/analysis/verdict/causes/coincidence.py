"""Hold what counters show against chance: would any of them go with the delays as well at another time?

Counters follow themselves from stretch to stretch, and so do delays: both drift, stay up for a while, come
back. So neither is shuffled. The course of the delays is moved as a whole, round the run and from rank to
rank (a permutation of two blocks, by every cut), and each time the best of all counters counts: how often it
does as well as the one at the true place is the chance of that. It holds for all counters and ranks at once
(the greatest statistic of each move: P. Westfall, S. Young, Resampling-Based Multiple Testing, 1993).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from timing_logger.analysis.rows.arrays import Bools, Floats, Ints
from timing_logger.analysis.verdict.causes.seen import Seen, median_of_known
from timing_logger.results import criteria
from timing_logger.results.cause import Cause, How

Transforms: TypeAlias = npt.NDArray[np.complex128]
"""Fourier transforms of series: their products are sums over every move at once."""


class Bounds(NamedTuple):
    """What a counter must reach to count at all, at the true place as at any other.

    Attributes:
        covered: the least part of the delay that a counter of time states.
        correlation: the least correlation.
    """

    covered: float
    correlation: float


class Coincidence(NamedTuple):
    """How a counter goes with the delays.

    Attributes:
        counter: its place among the counters.
        correlation: of the counter and the delays, both without their trends.
        covered: by how much the counter rises for each ms of delay, in ms if it states time.
        worth: how good the coincidence is, in [0, 1]; 0 if the counter does not reach what it must.
        chance: how likely any counter does as well by chance, in (0, 1].
    """

    counter: int
    correlation: float
    covered: float
    worth: float
    chance: float


def coincidences(
    delays: Floats, columns: Ints, shown: Floats, of_time: Ints, bounds: Bounds
) -> list[Coincidence]:
    """Find how each counter goes with the delays of some ranks, taken together.

    Args:
        delays: how late each of these ranks is, stretches x ranks, as shares of the time; NaN where unknown.
        columns: the column of each of them among the ranks of ``shown``.
        shown: what counters show, counters x stretches x ranks, in the same unit; NaN where unknown.
        of_time: which counters state time.
        bounds: what they must reach.
    """
    n_counters, n_stretches, n_ranks = shown.shape
    delays_of = [_Delays.of(delay) for delay in delays.T]
    best = np.zeros((n_ranks, n_stretches))
    found = []
    for number in range(n_counters):
        together, stated = _moved(delays_of, columns, _Values.of(shown[number]))
        worth_of = _worth(together, stated if number in of_time else None, bounds)
        np.maximum(best, worth_of, out=best)
        found.append((number, float(together[0, 0]), float(stated[0, 0]), float(worth_of[0, 0])))
    return [
        Coincidence(
            number, correlation, covered, worth, float((best >= worth - criteria.ROUNDING_SHARE).mean())
        )
        for number, correlation, covered, worth in found
    ]


def _worth(correlation: Floats, covered: Floats | None, bounds: Bounds) -> Floats:
    """Return how good a coincidence is, in [0, 1]; 0 if it reaches no bound.

    A counter that states as much time as the delay has, no less and no more, is worth most. One that states
    no time, of which ``covered`` is None, is worth as much as one that states the least that counts.
    """
    if covered is None:
        return np.where(correlation >= bounds.correlation, bounds.covered * correlation, 0.0)
    reaches = (covered >= bounds.covered) & (correlation >= bounds.correlation)
    stated = np.where(reaches, covered, 1.0)
    return np.where(reaches, correlation * np.minimum(stated, 1 / stated), 0.0)


class _Delays(NamedTuple):
    """The delays of one rank as they are compared; arrays have one entry for each move by some stretches.

    The trend is taken off after the move, which takes it to another place: else delays would have the most in
    common with counters without a trend where they were not moved.

    Attributes:
        course: Fourier transform of the delays without outliers and mean.
        norm: the length of that series without its trend.
        own: its product with the delays themselves, both without trends.
        own_around: likewise with the delays of the stretch and half of those beside it.
    """

    course: Transforms
    norm: Floats
    own: Floats
    own_around: Floats

    @classmethod
    def of(cls, delay: Floats) -> _Delays:
        tame, whole = _centred(clipped(delay)), _centred(delay)
        at = np.arange(len(delay), dtype=np.float64) - (len(delay) - 1) / 2
        along = at @ at if len(at) > 1 else 1.0
        tame_at = _moved_products(tame, at)

        def own(series: Floats) -> Floats:
            product: Floats = tame @ series - tame_at * _moved_products(series, at) / along
            return product

        return cls(np.fft.rfft(tame), np.sqrt(np.maximum(own(tame), 0.0)), own(whole), own(_around(whole)))


def _around(series: Floats) -> Floats:
    """Add to each value of a series half of those beside it.

    An interval of the counters may lie across the end of a stretch; then the stretch beside it has a part of
    what was counted in this one.
    """
    found: Floats = series + (np.roll(series, 1, axis=0) + np.roll(series, -1, axis=0)) / 2
    return found


def _moved_products(series: Floats, other: Floats) -> Floats:
    """Return the product of a series with another for each move of it round the run."""
    found: Floats = np.fft.irfft(np.conj(np.fft.rfft(series)) * np.fft.rfft(other), len(series))
    return found


class _Values(NamedTuple):
    """A counter of all ranks without its trends: Fourier transforms, stretches first.

    Attributes:
        course: of it without outliers.
        norm: the length of that series, for each rank.
        itself: of it as it is.
        around: of it with half of what is beside each stretch.
        n: the number of stretches.
    """

    course: Transforms
    norm: Floats
    itself: Transforms
    around: Transforms
    n: int

    @classmethod
    def of(cls, values: Floats) -> _Values:
        course = np.stack([without_trend(clipped(one)) for one in values.T], axis=1)
        itself = np.stack([without_trend(one) for one in values.T], axis=1)
        norm = np.sqrt((course**2).sum(axis=0))
        around = np.fft.rfft(_around(itself), axis=0)
        return cls(np.fft.rfft(course, axis=0), norm, np.fft.rfft(itself, axis=0), around, len(values))


def _moved(delays: list[_Delays], columns: Ints, values: _Values) -> tuple[Floats, Floats]:
    """Return correlation and slope for each move: by how many ranks x by how many stretches."""
    n_ranks = len(values.norm)
    together, stated, around, own, own_around = (np.zeros((n_ranks, values.n)) for _ in range(5))
    for delay, column in zip(delays, columns.tolist(), strict=True):
        others = (column + np.arange(n_ranks)) % n_ranks
        both = np.conj(delay.course)[:, None]

        def with_all(of: Transforms, both: Transforms = both, others: Ints = others) -> Floats:
            product: Floats = np.fft.irfft(both * of[:, others], values.n, axis=0).T
            return product

        together += _divided(with_all(values.course), values.norm[others][:, None] * delay.norm)
        stated += with_all(values.itself)
        around += with_all(values.around)
        own += delay.own
        own_around += delay.own_around
    # Of delays that come and go from stretch to stretch, nothing is left with what is beside them.
    slope_around = np.where(own_around >= own / 2, _divided(around, own_around), 0.0)
    return together / len(delays), np.maximum(_divided(stated, own), slope_around)


def _divided(values: Floats, by: Floats) -> Floats:
    """Divide; 0 where the divisor is nothing but the rounding error of a constant."""
    least = criteria.ROUNDING_SHARE * max(1.0, float(np.abs(by).max(initial=0.0)))
    return np.where(by > least, values / np.where(by > least, by, 1.0), 0.0)


def clipped(values: Floats) -> Floats:
    """Return a series whose outliers are drawn in; NaN where unknown.

    Ranks in place of values would stand outliers, too, but make the noise of a level as large as its change.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return values
    middle = float(np.median(known))
    most = criteria.MAX_DEVIATIONS * float(np.abs(known - middle).mean())
    return np.clip(values, middle - most, middle + most)


def without_trend(values: Floats) -> Floats:
    """Return a series without its mean and its linear trend; 0 where unknown.

    What grows all along and what began late would else go together whatever they are.
    """
    known = np.flatnonzero(~np.isnan(values))
    found = np.zeros(len(values))
    if len(known) > 2:
        at = known - known.mean()
        its = values[known] - values[known].mean()
        found[known] = its - at * (at @ its) / (at @ at)
    return found


def _centred(values: Floats) -> Floats:
    known = ~np.isnan(values)
    return np.where(known, values - values[known].mean(), 0.0) if known.any() else np.zeros(len(values))


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


def cause_from(
    seen: Seen, chosen: Coincidence, delay: Delay, shown: Floats, beyond: Floats, how: How
) -> Cause:
    """Put together what is stated of a counter.

    Args:
        seen: what counters show.
        chosen: the counter, and how it goes with the delay.
        delay: the delay of some ranks.
        shown: what it shows of them in each stretch, per second, or as a share of the time.
        beyond: by how much that is more than it usually is, or than on peers.
        how: what was compared.
    """
    cause, counter = seen.counters[chosen.counter]
    known = ~np.isnan(shown) & ~np.isnan(delay.length_ms)
    slow, other = known & delay.is_slow, known & ~delay.is_slow
    figure = shown * (delay.length_ms if counter.states_time else 1.0)
    usual_beyond = median_of_known(beyond[slow])
    half, states_time = criteria.WITH_DELAY_SHARE, counter.states_time
    enough = half * delay.share if states_time else np.full(len(known), half * usual_beyond)
    return Cause(
        cause.name, counter.name, delay.ranks, how, states_time,
        slow=int(slow.sum()), slow_with=int((slow & (beyond >= enough)).sum()),
        other=int(other.sum()), other_with=int((other & (beyond >= half * usual_beyond)).sum()),
        delay_ms=median_of_known((delay.share * delay.length_ms)[slow]),
        in_slow=median_of_known(figure[slow]), in_others=median_of_known(figure[other]),
        covered_share=chosen.covered if states_time else float("nan"),
        time_share=float(np.nanmean(shown)) if states_time and known.any() else float("nan"),
        chance=chosen.chance, stretch_steps=seen.stretches.typical_steps, stretch_s=seen.stretches.typical_s,
        runnable=seen.runnable, usable_cores=seen.usable_cores,
    )  # fmt: skip


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

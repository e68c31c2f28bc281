"""Find the steps in which a rank is slower than its peers.

They are stretches between change points, or single steps that recur.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from timing_logger.analysis.series.change_points import change_points_of_each
from timing_logger.analysis.series.noise import (
    Noise,
    known_rows,
    noise_of,
    robust_sigma,
    sigma_of,
    usual_sigmas_of,
)
from timing_logger.analysis.series.peers import column_medians
from timing_logger.analysis.stragglers.policy import Policy
from timing_logger.analysis.tables import Bools, Floats, Ints

Kind = Literal["persistent", "ongoing", "bounded", "intermittent"]

_MEDIAN_ERROR = 1.2533  # the standard error of a median is that of the mean times sqrt(pi / 2)

_MOST_BLOCKS = 4096
"""The most blocks into which a run is divided; the time that the test takes grows with their square."""

_LEAST_CHANCE = 1e-15  # a smaller one is lost in rounding


class SlowSteps(NamedTuple):
    """The slow steps of one rank that belong together.

    Attributes:
        column: column of the rank.
        steps: positions of the slow steps, ascending.
        kind: persistent; ongoing: still slow at the end; bounded; intermittent: single steps that recur.
        level: median of log(time / peer median) in these steps.
        z: by how many standard errors the level is above 0; of single steps, how far normal noise goes with
            the probability with which chance gathers as many on a rank.
        are_single: whether they are single steps that recur, and not stretches.
    """

    column: int
    steps: Ints
    kind: Kind
    level: float
    z: float
    are_single: bool = False

    @property
    def likelihood(self) -> float:
        """How likely it is no chance that single steps gathered on this rank; 1 for stretches."""
        return NormalDist().cdf(self.z) if self.are_single else 1.0


class _Ruler(NamedTuple):
    """What the steps of a rank are held against.

    Attributes:
        policy: the numbers that decide.
        noise: the noise that the ranks have in common.
        least: the least level of a slow stretch.
    """

    policy: Policy
    noise: Noise
    least: float

    @property
    def flagged(self) -> float:
        """The log ratio from which on a single step stands out."""
        return -float(np.log(self.policy.flagged_score))

    def z_of_level(self, values: Floats) -> float:
        """Return the median of the values in standard errors, by their absolute deviations."""
        sigma = max(self.policy.min_noise_sigma, sigma_of(np.diff(values)))
        wandering = sigma * self.noise.error_of_mean(len(values))
        scattered = robust_sigma(values) / len(values) ** 0.5
        return float(np.median(values) / (_MEDIAN_ERROR * max(wandering, scattered)))

    def is_slow(self, values: Floats) -> bool:
        """Tell whether the values are of a slow stretch."""
        return bool(
            len(values) > 0
            and np.median(values) >= self.least
            and np.mean(values > 0) >= self.policy.min_slower_steps_share
            and self.z_of_level(values) >= self.policy.min_z
        )


def slow_steps(
    ratios: Floats, policy: Policy, *, gap_share: float = 1.0, suspected: bool = False
) -> list[SlowSteps]:
    """Find the slow steps of every rank.

    Args:
        ratios: log(time / peer median), steps x ranks of one role; NaN where unknown.
        policy: the numbers that decide.
        gap_share: which part of the least difference of scores is enough for a slow stretch.
        suspected: whether single slow steps also count that chance gathers less seldom.
    """
    least = -float(np.log(1 - gap_share * policy.min_score_gap))
    cap = -float(np.log(policy.flagged_score))
    noise = noise_of(ratios, policy.min_compared_stretches, policy.min_noise_sigma, cap)
    ruler, usual = _Ruler(policy, noise, least), column_medians(ratios)
    stretches = [
        found
        for column, changes in enumerate(_changes(ratios, ruler))
        if changes or usual[column] >= least  # most of thousands of ranks are at the level of their peers
        for found in _stretches(ratios[:, column], changes, column, ruler)
    ]
    most = policy.max_suspected_chance if suspected else policy.max_chance
    return stretches + _recurring(ratios, stretches, ruler, most)


def _changes(ratios: Floats, ruler: _Ruler) -> list[list[int]]:
    """Return the change points of each rank, among its known steps."""
    policy = ruler.policy
    found: list[list[int]] = [[] for _ in ratios.T]
    for columns, series in known_rows(ratios):
        changes = change_points_of_each(
            series,
            policy.change_search,
            cap=ruler.flagged,
            min_sigma=policy.min_noise_sigma,
            noise=ruler.noise,
        )  # fmt: skip
        for column, its in zip(columns.tolist(), changes, strict=True):
            found[column] = its
    return found


def _stretches(series: Floats, changes: list[int], column: int, ruler: _Ruler) -> list[SlowSteps]:
    known = np.flatnonzero(~np.isnan(series))
    values, policy = series[known], ruler.policy
    spans = [(a, b) for a, b in pairwise([0, *changes, len(values)]) if ruler.is_slow(values[a:b])]
    joined = _joined(values, spans, policy.min_level_steps)
    return [_stretch(values, known, span, column, ruler) for span in joined]


def _joined(values: Floats, spans: list[tuple[int, int]], min_steps: int) -> list[tuple[int, int]]:
    """Join slow spans that touch, which differ only in their level, and those that only a spike separates."""
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        level = _level(values, *joined[-1:], (start, end))
        if joined and _n_quick(values[joined[-1][1] : start], level) < min_steps:
            start = joined.pop()[0]
        joined.append((start, end))
    return joined


def _level(values: Floats, *spans: tuple[int, int]) -> float:
    return max(float(np.median(values[slice(*span)])) for span in spans)


def _n_quick(between: Floats, level: float) -> int:
    """Count the steps that are nearer to the peers than to the slow ``level``."""
    return int(np.sum(between < level - between))


def _stretch(values: Floats, known: Ints, span: tuple[int, int], column: int, ruler: _Ruler) -> SlowSteps:
    inside = values[slice(*span)]
    edge = ruler.policy.edge_steps_share * len(values)
    from_start, to_end = span[0] <= edge, span[1] >= len(values)
    kind: Kind = "ongoing" if to_end else "bounded"
    if from_start and span[1] >= len(values) - edge:
        kind = "persistent"
    return SlowSteps(column, known[slice(*span)], kind, float(np.median(inside)), ruler.z_of_level(inside))


def _recurring(ratios: Floats, stretches: list[SlowSteps], ruler: _Ruler, most: float) -> list[SlowSteps]:
    """Find single slow steps outside of the stretches, of ranks that have more than chance explains.

    Steps that are slow, and steps that are very slow (``very_slow_times``), are tested apart: a few saves may
    be hidden among the small delays that all ranks have.
    """
    outside = ~np.isnan(ratios)
    for stretch in stretches:
        outside[stretch.steps, stretch.column] = False
    least = _least_of_slow(ratios, ruler)
    found = _gathered(ratios, outside, least, most, ruler.policy)
    very_slow = max(least, float(np.log(ruler.policy.very_slow_times)))
    very = _gathered(ratios, outside, very_slow, most, ruler.policy)
    columns = {slow.column for slow in found}
    return found + [slow for slow in very if slow.column not in columns]


def _gathered(ratios: Floats, outside: Bools, least: float, most: float, policy: Policy) -> list[SlowSteps]:
    """Find the steps above a level, of ranks for which the chance of having as many is ``most`` at most."""
    single = outside & (np.nan_to_num(ratios) > least)
    chance = chances(single, outside, policy.event_block_times)
    found: list[SlowSteps] = []
    for column in np.flatnonzero(chance <= most).tolist():
        steps = np.flatnonzero(single[:, column])
        level = float(np.median(ratios[steps, column]))
        z = z_of_chance(float(chance[column]))
        found.append(SlowSteps(column, steps, "intermittent", level, z, are_single=True))
    return found


def _least_of_slow(ratios: Floats, ruler: _Ruler) -> float:
    """Return the level above which a single step is slower than usual; it is the same for all ranks."""
    sigmas = np.sort(usual_sigmas_of(ratios))
    sigma = float(sigmas[(len(sigmas) - 1) // 2])  # of two ranks one seems to vary where only the other does
    return max(ruler.flagged, ruler.policy.min_z * sigma)


# -- are they gathered by chance? -----------------------------------------------------------------------


def chances(events: Bools, counts: Bools, block_times: int) -> Floats:
    """Return for each rank how likely any of the ranks has as many events as it, if all are equal.

    Events are compared by a permutation test (E. J. G. Pitman, 1937): if ranks are equal, those that had an
    event in a block of steps might as well have been any others of them. So the number of a rank's blocks
    with an event is a sum of independent draws, each with the share of the ranks that had one in that block;
    its distribution (Poisson binomial) is computed exactly, by convolution.

    Events of a rank that follow each other are one: what lasts for several steps has one cause.

    Args:
        events: steps x ranks.
        counts: whether the rank could have had an event in the step; of the same shape.
        block_times: how many times as long as a usual event a block of steps is.

    Returns:
        One probability per rank, at most 1: for ``k`` events that only one of ``n`` ranks had it is
        ``n ** (1 - k)``.
    """
    length = max(block_times * _usual_length(events), -(-len(events) // _MOST_BLOCKS))
    had, could = _in_blocks(events, length), _in_blocks(counts, length)
    share = had.sum(axis=1) / np.maximum(could.sum(axis=1), 1)
    at_least = _at_least(share[(share > 0) & (share < 1)])
    beyond = had.sum(axis=0) - int((share == 1).sum())
    found: Floats = events.shape[1] * at_least[np.clip(beyond, 0, len(at_least) - 1)]
    return np.minimum(found, 1.0)


def _in_blocks(of_steps: Bools, length: int) -> Bools:
    """Tell of each block of steps whether any of them is marked; one column per rank."""
    n_ranks = of_steps.shape[1]
    whole = np.zeros((-(-len(of_steps) // length) * length, n_ranks), np.bool_)
    whole[: len(of_steps)] = of_steps
    found: Bools = whole.reshape(-1, length, n_ranks).max(axis=1)
    return found


def _usual_length(events: Bools) -> int:
    """Return for how many steps events usually last, at least one."""
    begins = events & ~np.vstack([np.zeros((1, events.shape[1]), np.bool_), events[:-1]])
    n_runs = int(begins.sum())
    return max(1, round(int(events.sum()) / n_runs)) if n_runs else 1


def _at_least(share: Floats) -> Floats:
    """Return for k = 0, 1, ... how likely at least k of independent events come about.

    Args:
        share: the probability of each.
    """
    exactly = np.zeros(len(share) + 1)
    exactly[0] = 1.0
    for n, p in enumerate(share.tolist(), start=1):
        exactly[1 : n + 1] = exactly[1 : n + 1] * (1 - p) + exactly[:n] * p
        exactly[0] *= 1 - p
    found: Floats = np.cumsum(exactly[::-1])[::-1]
    return found


def z_of_chance(chance: float) -> float:
    """Return how many standard deviations normal noise exceeds with this probability."""
    return NormalDist().inv_cdf(1 - max(chance, _LEAST_CHANCE))

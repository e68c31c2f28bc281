"""Find the steps in which a rank is slower than its peers.

They are stretches between change points, or single steps that recur.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import Bools, Floats, Ints
from timing_logger.analysis.step_times.noise import (
    Noise,
    chances,
    change_points_of_each,
    known_rows,
    noise_of,
    robust_sigma,
    sigma_of,
    usual_sigmas_of,
    z_of_chance,
)
from timing_logger.analysis.step_times.peers import column_medians, peer_medians
from timing_logger.results import criteria
from timing_logger.results.policy import Policy

Kind = Literal["persistent", "ongoing", "bounded", "intermittent"]

_MEDIAN_ERROR = 1.2533  # the standard error of a median is that of the mean times sqrt(pi / 2)


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


def slow_together(ratios: Floats, policy: Policy) -> list[SlowSteps]:
    """Return the slow steps of each rank of a role, and of one with several stretches all of them.

    Args:
        ratios: log(time / peer median), steps x ranks.
        policy: the numbers that decide.
    """
    found = slow_steps(ratios, policy, gap_share=policy.half_gap_share, suspected=True)
    together, certain = [], [slow for slow in found if slow.z >= least_z(slow, policy)]
    for column in sorted({slow.column for slow in certain}):
        its = [slow for slow in certain if slow.column == column]
        steps = np.unique(np.concatenate([slow.steps for slow in its]))
        longest = max(len(slow.steps) for slow in its)
        if len(its) >= policy.min_bursts and longest < (1 - policy.edge_steps_share) * len(steps):
            level = float(np.median([slow.level for slow in its]))
            together.append(SlowSteps(column, steps, "intermittent", level, max(slow.z for slow in its)))
    return found + together


def least_z(slow: SlowSteps, policy: Policy) -> float:
    """Return the least z of slow steps that are certain; single ones are gathered by chance as seldom."""
    return z_of_chance(policy.max_chance) if slow.are_single else policy.min_z


def _changes(ratios: Floats, ruler: _Ruler) -> list[list[int]]:
    """Return the change points of each rank, among its known steps."""
    policy = ruler.policy
    found: list[list[int]] = [[] for _ in ratios.T]
    for columns, series in known_rows(ratios):
        changes = change_points_of_each(
            series,
            policy,
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
    be hidden among the small delays that all ranks have. Where very slow steps do not gather on a rank, they
    are not its own either, however many small delays it has: all ranks have them, each in turn.
    """
    outside = ~np.isnan(ratios)
    for stretch in stretches:
        outside[stretch.steps, stretch.column] = False
    least = _least_of_slow(ratios, ruler)
    very_slow = max(least, float(np.log(ruler.policy.very_slow_times)))
    is_slow, is_very = (outside & (np.nan_to_num(ratios) > level) for level in (least, very_slow))
    in_turn = is_very & _have_them_in_turn(is_very, outside, ruler)
    found = _gathered(ratios, is_slow, outside, most, ruler.policy, in_turn)
    very = _gathered(ratios, is_very, outside, most, ruler.policy, in_turn)
    columns = {slow.column for slow in found}
    return found + [slow for slow in very if slow.column not in columns]


def _have_them_in_turn(events: Bools, outside: Bools, ruler: _Ruler) -> Bools:
    """Tell of each rank whether its peers mostly have such events as well, and it has no more by chance."""
    n_events = events.sum(axis=0).astype(np.float64)
    peers_have = peer_medians(n_events[None])[0] >= criteria.AS_OFTEN_SHARE * n_events
    chance = chances(events, outside, ruler.policy.event_block_times)
    in_turn: Bools = peers_have & (chance > ruler.policy.max_suspected_chance)
    return in_turn


def _gathered(
    ratios: Floats, single: Bools, outside: Bools, most: float, policy: Policy, in_turn: Bools
) -> list[SlowSteps]:
    """Find the single steps of ranks for which the chance of having as many is ``most`` at most.

    Steps that all ranks have ``in_turn`` count there, but belong to none of them.
    """
    chance = chances(single, outside, policy.event_block_times)
    found: list[SlowSteps] = []
    for column in np.flatnonzero(chance <= most).tolist():
        steps = np.flatnonzero(single[:, column] & ~in_turn[:, column])
        if len(steps):
            level = float(np.median(ratios[steps, column]))
            z = z_of_chance(float(chance[column]))
            found.append(SlowSteps(column, steps, "intermittent", level, z, are_single=True))
    return found


def _least_of_slow(ratios: Floats, ruler: _Ruler) -> float:
    """Return the level above which a single step is slower than usual; it is the same for all ranks."""
    sigmas = np.sort(usual_sigmas_of(ratios))
    sigma = float(sigmas[(len(sigmas) - 1) // 2])  # of two ranks one seems to vary where only the other does
    return max(ruler.flagged, ruler.policy.min_z * sigma)

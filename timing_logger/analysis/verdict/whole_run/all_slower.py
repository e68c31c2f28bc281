"""Find that all ranks became slower together, at once or little by little, than in their own best past."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.analysis.step_times.noise import Noise, change_points, noise_of, robust_sigma, sigma_of
from timing_logger.analysis.step_times.peers import column_medians, log_ratios, row_medians
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.candidates import COST, STEPS
from timing_logger.results.policy import Policy
from timing_logger.results.rank_facts import AllSlower, Gate, Slowing
from timing_logger.results.verdict import Verdict


class _Slower(NamedTuple):
    """That ranks became slower; scores are the times of their best past divided by those then.

    Attributes:
        steps: positions of the steps in which they were slower, ascending.
        scores: of each rank, at its slowest.
        cost_ms: the time that they took beyond their best past, of the typical rank.
        how: at once, or little by little.
    """

    steps: Ints
    scores: Floats
    cost_ms: float
    how: Slowing


def all_slower(case: Case) -> Verdict | None:
    """Return the verdict that most ranks became slower than in their own best past, over enough steps.

    They may do so at once, once or several times, or little by little.

    Returns:
        The verdict; None if they did not become slower, or by too little.
    """
    times = case.times
    known = np.flatnonzero(~np.isnan(times.self_ms).all(axis=1))
    own = log_ratios(times.self_ms, column_medians(times.self_ms)[None, :])[known]
    if len(own) < case.policy.min_slow_steps:
        return None
    took_ms, spans = np.nan_to_num(row_medians(times.self_ms[known])), _spans(own, case.policy)
    ways = [_little_by_little(own, took_ms, case.policy), _at_once(own, took_ms, spans, case.policy)]
    for found in ways if _is_a_line(row_medians(own), spans) else reversed(ways):
        verdict = found and _verdict(case, found._replace(steps=known[found.steps]))
        if verdict:
            return verdict
    return None


def _spans(own: Floats, policy: Policy) -> list[tuple[int, int]]:
    """Divide the steps where the typical rank's level changes."""
    typical, cap = row_medians(own), -float(np.log(policy.flagged_score))
    changes = change_points(typical, policy, cap=cap, min_sigma=policy.min_noise_sigma)
    return list(pairwise([0, *changes, len(typical)]))


def _is_a_line(series: Floats, spans: Sequence[tuple[int, int]]) -> bool:
    """Tell whether a line describes a series better than levels do, by the Bayesian information criterion.

    See G. Schwarz, Estimating the dimension of a model (Annals of Statistics 6, 1978).
    """
    step = np.linspace(-0.5, 0.5, len(series))
    line = np.polyval(np.polyfit(step, series, 1), step)
    levels = np.concatenate([np.full(end - begin, series[begin:end].mean()) for begin, end in spans])
    return _information(series - line, 2) < _information(series - levels, 2 * len(spans) - 1)


def _information(rest: Floats, n_parameters: int) -> float:
    n = len(rest)
    return n * float(np.log(np.mean(rest**2) + 1e-12)) + n_parameters * float(np.log(n))


def _verdict(case: Case, found: _Slower) -> Verdict | None:
    times, policy, bad = case.times, case.policy, 1 - case.policy.min_score_gap
    score, share = float(np.nanmedian(found.scores)), float(np.mean(found.scores < bad))
    cost_share = times.share_of_run(found.cost_ms)
    gates = (
        Gate.below("individual score, median of the ranks", score, bad),
        Gate.at_least("share of the ranks below it", share, policy.min_slower_ranks_share),
        Gate.at_least(STEPS, len(found.steps), policy.min_slow_steps),
        Gate.at_least(COST, cost_share, policy.min_cost_share),
    )
    if not all(gate.passed for gate in gates):
        return None
    is_last = found.steps[-1] == len(times.iterations) - 1
    return Verdict(
        verdict="group-wide", window="ongoing" if is_last else "bounded",
        operation=_grown_operation(times, found.steps), score=score, cost_ms=found.cost_ms, gates=gates,
        **times.step_range(found.steps)._asdict(), slow_steps=len(found.steps),
        evidence=(AllSlower(share, 1 / score, found.how),),
    )  # fmt: skip


def _grown_operation(times: StepTimes, steps: Ints) -> str:
    """Return the operation that takes longest beyond what it took before the slow steps, or early in them."""
    before = np.arange(steps[0]) if steps[0] else steps[: len(steps) // 4]
    grown_ms = [_typical_ms(its_ms[steps]) - _typical_ms(its_ms[before]) for its_ms in times.operation_ms]
    return times.operations[int(np.argmax(grown_ms))] if grown_ms else ""


def _typical_ms(operation_ms: Floats) -> float:
    """Return the mean over the steps of the typical rank's time."""
    return float(np.nan_to_num(row_medians(operation_ms)).mean())


# -- at once -----------------------------------------------------------------------------------------------


class _Level(NamedTuple):
    """How long ranks took in a span of steps, as log(time / own median).

    Attributes:
        begin, end: the span.
        of_ranks: the median of each rank.
        error: the standard error of the typical rank's median.
    """

    begin: int
    end: int
    of_ranks: Floats
    error: float

    def above(self, best: _Level) -> float:
        """Return by how much the ranks are slower than in their best past, the median of the ranks."""
        return float(np.nanmedian(self.of_ranks - best.of_ranks))

    def z_above(self, best: _Level) -> float:
        """Return the same in standard errors."""
        return self.above(best) / float(np.hypot(self.error, best.error))


def _at_once(
    own: Floats, took_ms: Floats, spans: Sequence[tuple[int, int]], policy: Policy
) -> _Slower | None:
    """Find the costliest span of steps in which ranks are slower, beyond what noise explains.

    Args:
        own: log(time / own median), steps x ranks.
        took_ms: the time of the typical rank in each step.
        spans: the steps, divided where the level changes.
        policy: the numbers that decide.
    """
    found = [
        _Slower(
            np.arange(level.begin, level.end),
            np.exp(best.of_ranks - level.of_ranks),
            float(took_ms[level.begin : level.end].sum()) * (1 - float(np.exp(-level.above(best)))),
            "together",
        )
        for level, best in _with_best_past(own, spans, policy)
        if level.z_above(best) >= policy.min_z
    ]
    return max(found, key=lambda slower: slower.cost_ms, default=None)


def _with_best_past(
    own: Floats, spans: Sequence[tuple[int, int]], policy: Policy
) -> Iterator[tuple[_Level, _Level]]:
    """Yield the level of each span after the first, and the best before it of spans that are long enough."""
    typical = row_medians(own)
    noise, wandering = _noise_within(typical, spans, policy), _wandering(typical, spans, policy)
    best: _Level | None = None
    for begin, end in spans:
        sigma = max(policy.min_noise_sigma, sigma_of(np.diff(typical[begin:end])))
        error = float(np.hypot(wandering, sigma * noise.error_of_mean(end - begin)))
        level = _Level(begin, end, column_medians(own[begin:end]), error)
        if best is not None:
            yield level, best
        if end - begin >= policy.min_past_steps and (best is None or level.above(best) < 0):
            best = level


def _noise_within(series: Floats, spans: Sequence[tuple[int, int]], policy: Policy) -> Noise:
    """Measure how far a series wanders between its changes of level."""
    apart = np.full((max(end - begin for begin, end in spans), len(spans)), np.nan)
    for column, (begin, end) in enumerate(spans):
        apart[: end - begin, column] = series[begin:end]
    return noise_of(apart, policy.min_common_stretches, policy.min_noise_sigma)


def _wandering(series: Floats, spans: Sequence[tuple[int, int]], policy: Policy) -> float:
    """Return how far levels differ by themselves: a level that changes again and again is no news."""
    if len(spans) < policy.min_compared_stretches:
        return 0.0
    return sigma_of(np.diff([float(np.median(series[begin:end])) for begin, end in spans]))


# -- little by little --------------------------------------------------------------------------------------


def _little_by_little(own: Floats, took_ms: Floats, policy: Policy) -> _Slower | None:
    """Find that ranks became slower all the time, by a line through the times of the typical rank."""
    typical = row_medians(own)
    step = np.linspace(-0.5, 0.5, len(typical))
    growth = _growth(typical, step)
    rest = typical - growth * step
    noise = noise_of(rest[:, None], policy.min_common_stretches, policy.min_noise_sigma)
    sigma = max(policy.min_noise_sigma, sigma_of(np.diff(rest))) * noise.error_factor
    if growth < policy.min_z * sigma * (12 / len(typical)) ** 0.5:  # the standard error of a slope
        return None
    of_ranks = np.array([_growth(column, step) for column in own.T])
    beyond_ms = took_ms * (1 - np.exp(-growth * (step + 0.5)))
    return _Slower(np.arange(len(typical)), np.exp(-of_ranks), float(beyond_ms.sum()), "little by little")


def _growth(series: Floats, step: Floats) -> float:
    """Return by how much a series grows over all steps, by least squares; outliers are capped."""
    is_known = ~np.isnan(series)
    values, step = series[is_known], step[is_known]
    if len(values) < 2:
        return float("nan")
    middle, spread = float(np.median(values)), robust_sigma(values)
    return float(np.polyfit(step, np.clip(values, middle - 3 * spread, middle + 3 * spread), 1)[0])

"""The times of a run in which an operation takes what is usual, or nothing at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.step_times.change_points import change_points
from timing_logger.analysis.step_times.noise import usual_of
from timing_logger.analysis.step_times.peers import log_ratios, peer_medians, row_medians
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.slow_steps import slow_steps
from timing_logger.results.plain import UNLOGGED
from timing_logger.results.policy import Policy

_LEAST_LEFT = 1e-6
"""The part of a step that is left where all of it is taken away: times are compared by their ratio."""


def operations_of(times: StepTimes) -> list[str]:
    """Return the operations of own work, the longest first; code that is not timed counts as one."""
    total_ms = {name: float(np.nansum(_of(times, name).in_gaps_ms)) for name in [*times.operations, UNLOGGED]}
    return sorted((name for name in total_ms if total_ms[name] > 0), key=lambda name: -total_ms[name])


def with_usual(case: Case, operation: str) -> StepTimes:
    """Return the times of a run in which an operation takes what is usual.

    Where a rank takes longer than its peers in the same step, in more steps than chance explains, it takes
    what they do; where they do without, it takes nothing. Where the typical rank takes longer for a stretch
    of steps than in its quickest one, or far longer in a single step than in others, it takes as long as
    then.
    """
    its = _of(case.times, operation)
    return _with_less(case.times, operation, *(np.maximum(ms - _usual_ms(case, ms), 0.0) for ms in its))


def without(times: StepTimes, operation: str) -> StepTimes:
    """Return the times of a run without an operation."""
    return _with_less(times, operation, *_of(times, operation))


def is_slow_somewhere(case: Case) -> Iterator[str]:
    """Yield the operations that take longer than usual somewhere, the longest first."""
    for operation in operations_of(case.times):
        its_ms = _of(case.times, operation).in_gaps_ms
        if np.nansum(its_ms - _usual_ms(case, its_ms)) > 0:
            yield operation


class _Operation(NamedTuple):
    """The times of an operation in ms, steps x ranks.

    Attributes:
        in_steps_ms: by the step that its rows state.
        in_gaps_ms: by the communication that came next, as that is what it delays; by the step, too, where no
            communication is recorded.
    """

    in_steps_ms: Floats
    in_gaps_ms: Floats


def _of(times: StepTimes, operation: str) -> _Operation:
    nothing_ms = np.zeros(times.gap_ms.shape)
    if operation == UNLOGGED:
        timed_ms = sum((times.in_gaps_ms.get(name, nothing_ms) for name in times.operations), nothing_ms)
        return _Operation(nothing_ms, np.maximum(times.gap_ms - timed_ms, 0.0))
    in_steps_ms = times.operation_ms[times.operations.index(operation)]
    if np.isnan(times.gap_ms).all():
        return _Operation(in_steps_ms, in_steps_ms)
    return _Operation(in_steps_ms, times.in_gaps_ms.get(operation, nothing_ms))


def _usual_ms(case: Case, its_ms: Floats) -> Floats:
    usual_ms: Floats = its_ms.copy()
    for columns in case.by_role.values():
        of_role = _like_peers(its_ms[:, columns], case.policy)
        usual_ms[:, columns] = of_role / np.exp(_longer_together(of_role, case.policy))[:, None]
    return usual_ms


def _like_peers(its_ms: Floats, policy: Policy) -> Floats:
    peers_ms = peer_medians(its_ms)
    found = np.where(peers_ms == 0.0, 0.0, its_ms)
    for slow in slow_steps(log_ratios(its_ms, peers_ms), policy):
        at = slow.steps, slow.column
        found[at] = peers_ms[at] if slow.are_single else its_ms[at] / np.exp(slow.level)
    return found


def _longer_together(its_ms: Floats, policy: Policy) -> Floats:
    """Return for each step how much longer than usual the typical rank takes, as a logarithm; mostly 0.

    That is a stretch whose level is above that of the quickest one, or a single step far above the others.
    """
    typical_ms = row_medians(its_ms)
    known = np.flatnonzero(typical_ms > 0)
    found = np.zeros(len(its_ms))
    if len(known):
        series = np.log(typical_ms[known])
        longer = _stretches_above(series, policy)
        found[known] = longer + _steps_above(series - longer, policy)
    return found


def _stretches_above(series: Floats, policy: Policy) -> Floats:
    cap, least_gap = -float(np.log(policy.flagged_score)), -float(np.log(1 - policy.min_score_gap))
    changes = change_points(series, policy, cap=cap, min_sigma=policy.min_noise_sigma)
    spans = list(pairwise([0, *changes, len(series)]))
    levels = np.array([np.median(series[begin:end]) for begin, end in spans])
    above = levels - levels.min()
    return np.repeat(np.where(above >= least_gap, above, 0.0), [end - begin for begin, end in spans])


def _steps_above(series: Floats, policy: Policy) -> Floats:
    usual, sigma = usual_of(series)
    is_longer = series - usual >= max(-float(np.log(policy.flagged_score)), policy.min_z * sigma)
    others = float(np.median(series[~is_longer]))  # what `usual_of` finds is a little off
    return np.where(is_longer, series - others, 0.0)


def _with_less(
    times: StepTimes, operation: str, less_in_steps_ms: Floats, less_in_gaps_ms: Floats
) -> StepTimes:
    """Return the same times with less of an operation."""
    self_ms, gap_ms = (
        np.maximum(its_ms - np.nan_to_num(less_ms), _LEAST_LEFT * its_ms)
        for its_ms, less_ms in ((times.self_ms, less_in_steps_ms), (times.gap_ms, less_in_gaps_ms))
    )
    operation_ms = times.operation_ms.copy()
    if operation in times.operations:
        operation_ms[times.operations.index(operation)] -= less_in_steps_ms
    return replace(times, operation_ms=operation_ms, self_ms=self_ms, gap_ms=gap_ms)

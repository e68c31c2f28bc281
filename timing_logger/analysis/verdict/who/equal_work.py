"""What the times of a run would be if, in each step, all ranks of a role had as much to do.

How the time of an operation goes with its work is taken from the run itself: from the steps in which the
same rank has more and less to do. A slow rank therefore does not count as one with much to do, nor the other
way round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.step_times.noise import error_of_median
from timing_logger.analysis.step_times.peers import column_medians, peer_medians
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case
from timing_logger.results import criteria
from timing_logger.results.plain import UNLOGGED
from timing_logger.results.policy import Policy
from timing_logger.results.verdict import Owner


class Growth(NamedTuple):
    """How the time of an operation grows with its work.

    Attributes:
        exponent: the time goes with the work to this power: 1 if it is proportional, 0 if it does not depend.
        error: the standard error of the exponent; NaN where it is assumed.
    """

    exponent: float
    error: float

    @property
    def is_assumed(self) -> bool:
        """Whether no rank had now more and now less to do, so that the time is taken to be proportional."""
        return bool(np.isnan(self.error))


ASSUMED = Growth(1.0, float("nan"))


def growth_of(work: Floats, its_ms: Floats, policy: Policy) -> Growth:
    """Return how the times of one operation in one role grow with the work.

    It is the slope of Tukey's resistant line (Exploratory Data Analysis, 1977) through the logarithms of
    both, each relative to what the rank usually has: between the medians of the third of the steps with the
    least work and of the third with the most.

    Args:
        work, its_ms: steps x ranks; NaN where unknown.
        policy: the numbers that decide.
    """
    usable = (work > 0) & (its_ms > 0)
    log_work, log_ms = (np.log(np.where(usable, values, np.nan)) for values in (work, its_ms))
    more, longer = (values - column_medians(values) for values in (log_work, log_ms))
    more, longer = more[usable], longer[usable]
    n_third = len(more) // 3
    if n_third < policy.min_growth_steps:
        return ASSUMED
    order = np.argsort(more, kind="stable")
    least, most = order[:n_third], order[-n_third:]
    apart = float(np.median(more[most]) - np.median(more[least]))
    if apart < policy.min_work_difference:
        return ASSUMED
    exponent = float(np.median(longer[most]) - np.median(longer[least])) / apart
    left = longer - exponent * more
    error = math.hypot(error_of_median(left[least]), error_of_median(left[most])) / apart
    if error > policy.max_growth_error:
        return ASSUMED
    return Growth(exponent if exponent > criteria.GROWTH_ERRORS * error else 0.0, error)


Reference = Callable[[Floats], Floats]
"""Returns how much each rank of a role should have to do in each step, from what they had to do."""


def equal_shares(work: Floats) -> Floats:
    """Return the work of each rank if all had as much in each step, and together the same.

    Args:
        work: steps x ranks of one role; NaN where unknown.
    """
    is_known = ~np.isnan(work)
    sums, counts = np.nansum(work, axis=1, keepdims=True), is_known.sum(axis=1, keepdims=True)
    return np.where(is_known, sums / np.maximum(counts, 1), np.nan)


Assumption: TypeAlias = Literal["beyond-peers", "across-ranks", "as-peers", "nothing"]
"""What is assumed where no rank had now more and now less to do, so that a run does not tell how a time
grows with the work: that it is proportional, and more work than the peers have explains what a rank takes
beyond them, and nothing else; that it grows as from the ranks with less to those with more; that ranks with
more take what their peers do, who take no longer then; or that it does not depend on the work."""


def at_equal_work(case: Case, reference: Reference, *, assumed: Assumption = "beyond-peers") -> StepTimes:
    """Return the times of a run as if each rank had to do in each step what ``reference`` says.

    Args:
        case: the run.
        reference: how much each rank has to do.
        assumed: what is assumed where the run does not tell how a time grows with the work.
    """
    times = case.times
    not_timed_ms, operation_ms = times.not_timed_ms, times.operation_ms.copy()
    for number, name in enumerate(times.operations):
        operation_ms[number] = _scaled(case, name, operation_ms[number], reference, assumed)
    self_ms = operation_ms.sum(axis=0)
    less_ms = (
        np.nansum(times.operation_ms - operation_ms, axis=0)
        + not_timed_ms
        - _scaled(case, UNLOGGED, not_timed_ms, reference, assumed)
    )
    return replace(
        times,
        operation_ms=operation_ms,
        self_ms=np.where(self_ms > 0, self_ms, np.nan),
        gap_ms=times.gap_ms - np.nan_to_num(less_ms),
    )


def _scaled(case: Case, operation: str, its_ms: Floats, reference: Reference, assumed: Assumption) -> Floats:
    """Return the times of one operation, steps x ranks, as if each rank had what ``reference`` says."""
    work = case.times.workload.of(operation)
    if work is None:
        return its_ms
    found: Floats = its_ms.copy()
    for columns in case.by_role.values():
        of_role = np.where(work[:, columns] > 0, work[:, columns], np.nan)
        growth = growth_of(of_role, its_ms[:, columns], case.policy)
        if growth.is_assumed and assumed == "beyond-peers":
            found[:, columns] = _beyond_peers(of_role, its_ms[:, columns])
        elif growth.is_assumed and assumed == "as-peers":
            found[:, columns] = _as_peers(of_role, its_ms[:, columns])
        elif growth.is_assumed and assumed == "across-ranks":
            exponent = _across_ranks(of_role, its_ms[:, columns], case.policy)
            found[:, columns] = _grown(of_role, its_ms[:, columns], reference, exponent)
        elif not growth.is_assumed:
            found[:, columns] = _grown(of_role, its_ms[:, columns], reference, growth.exponent)
    return found


def _beyond_peers(work: Floats, its_ms: Floats) -> Floats:
    as_much = np.maximum(work / peer_medians(work), 1.0)
    least_ms = np.fmin(its_ms, peer_medians(its_ms))
    scaled_ms = np.fmax(its_ms / as_much, least_ms)
    return np.where(np.isnan(scaled_ms), its_ms, scaled_ms)


def _as_peers(work: Floats, its_ms: Floats) -> Floats:
    has_more = work > peer_medians(work)
    return np.where(has_more, np.fmin(its_ms, peer_medians(its_ms)), its_ms)


def _grown(work: Floats, its_ms: Floats, reference: Reference, exponent: float) -> Floats:
    scaled_ms = its_ms * np.power(reference(work) / work, exponent)
    return np.where(np.isnan(scaled_ms), its_ms, scaled_ms)


def _across_ranks(work: Floats, its_ms: Floats, policy: Policy) -> float:
    """Return how the times of one operation grow with the work from rank to rank, as an exponent from 0 to 1.

    It is the slope of the least squares through the medians of the ranks, as logarithms. A rank with more to
    do may be slow, too, which nothing tells apart here; so that no more than what is proportional to the work
    counts as due to it.
    """
    usable = (work > 0) & (its_ms > 0)
    medians = [np.exp(column_medians(np.log(np.where(usable, of, np.nan)))) for of in (work, its_ms)]
    known = ~np.isnan(medians[0]) & ~np.isnan(medians[1])
    more, longer = (np.log(values[known]) for values in medians)
    if len(more) < 2 or float(np.ptp(more)) < policy.min_work_difference:
        return 0.0
    more = more - more.mean()
    return float(np.clip((more * longer).sum() / (more**2).sum(), 0.0, 1.0))


def times_as_long(times: StepTimes, other: StepTimes) -> Floats:
    """Return by which factor each rank takes longer than in other times, steps x ranks; 1 if unknown."""
    found = np.ones(times.self_ms.shape)
    for its_ms, other_ms in ((times.self_ms, other.self_ms), (times.gap_ms, other.gap_ms)):
        known = (its_ms > 0) & (other_ms > 0)
        found[known] = its_ms[known] / other_ms[known]
    return found


def owner_by_part(explained: float, policy: Policy, otherwise: Owner) -> Owner:
    """Return the owner of a delay of which this part is due to more work; ``otherwise`` where little is."""
    if explained >= policy.min_explained_by_work:
        return "work"
    return otherwise if explained <= policy.max_explained_by_work else "both"

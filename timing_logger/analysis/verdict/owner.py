"""Whose fault a delay is: of a rank that is slow for what it has to do, of its having more to do, of pauses.

It is told by the times as they would be if, in each step, all ranks of a role had as much to do. How the time
of an operation goes with its work is taken from the run itself: from the steps in which the same rank has
more and less to do. A slow rank therefore does not count as one with much to do, nor the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from timing_logger.analysis.rows.arrays import Floats, Ints, known
from timing_logger.analysis.rows.operations import PAUSES
from timing_logger.analysis.step_times.noise import error_of_median
from timing_logger.analysis.step_times.peers import column_medians, peer_medians
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case, Judgement
from timing_logger.analysis.verdict.who.pricing import Pricing
from timing_logger.analysis.verdict.whole_run.systemic import late_ms, most_of
from timing_logger.results import criteria
from timing_logger.results.facts import MoreRows, Pauses, UnevenWork, WorkOfRank
from timing_logger.results.plain import UNLOGGED
from timing_logger.results.policy import Policy
from timing_logger.results.verdict import Owner

OF_RANKS = ("rank", "suspect")


def owned(found: Judgement, recorded: StepTimes, equal: StepTimes | None) -> Judgement:
    """Return a judgement with the owner of the delay, and what tells it.

    Args:
        found: the judgement.
        recorded: the times as they are recorded.
        equal: the times as if all had the same to do; None if no row states work.
    """
    verdict = found.verdict
    if verdict.verdict == "role":
        return found._replace(verdict=replace(verdict, owner="role"))
    if verdict.verdict not in OF_RANKS or verdict.operation in PAUSES:
        return found  # what a rank stops for is neither its machine's nor its work's
    case = found.case.with_times(recorded)
    excess = _Excess.of(case, found.slow, equal)
    is_known = excess.work is not _UNKNOWN
    told = _told_by_work(case, excess) if is_known else _told_by_rows(case, found.slow, excess)
    owner, fact = told
    evidence = (*verdict.evidence, *((fact,) if fact else ()))
    return found._replace(verdict=replace(verdict, owner=owner, evidence=evidence))


class _Compared(NamedTuple):
    """A figure of a rank against its peers, over its slow steps; NaN where it is unknown.

    Attributes:
        times_as_much: the median of the rank's figure divided by the mean of its peers in the same step.
        error: the standard error of that.
    """

    times_as_much: float
    error: float

    @classmethod
    def of(cls, case: Case, values: Floats, rank: int, steps: Ints) -> _Compared:
        columns, its = _of_role(case, rank)
        of_role = values[np.ix_(steps, columns)]
        peers = np.delete(np.where(of_role > 0, of_role, np.nan), its, axis=1)
        n_known = (~np.isnan(peers)).sum(axis=1)  # a median of two would be the one that has less
        ratios = known(of_role[:, its] * n_known / np.where(n_known > 0, np.nansum(peers, axis=1), np.nan))
        if not len(ratios):
            return _UNKNOWN
        return cls(float(np.median(ratios)), error_of_median(ratios))

    @property
    def is_more(self) -> bool:
        """Whether the rank has more than its peers, beyond chance."""
        return self.times_as_much - 1 > 2 * self.error


_UNKNOWN = _Compared(float("nan"), float("nan"))


class _Excess(NamedTuple):
    """What slow ranks took beyond their peers in their slow steps.

    Attributes:
        rank: the rank of which there is most.
        steps: its slow steps.
        recorded_ms: for each operation, of all the ranks.
        equal_ms: the same as if all had the same to do; where no work is known, as recorded.
        work: the work of the rank against its peers, in the operation with most of it.
        times_as_long: its time divided by that of its peers, if all had the same to do.
    """

    rank: int
    steps: Ints
    recorded_ms: Floats
    equal_ms: Floats
    work: _Compared
    times_as_long: float

    @classmethod
    def of(cls, case: Case, slow: Mapping[int, Ints], equal: StepTimes | None) -> _Excess:
        of_each = {rank: _beyond_ms(case, case.times, rank, steps) for rank, steps in slow.items()}
        rank = max(of_each, key=lambda each: float(of_each[each].sum()))
        recorded_ms = np.sum(list(of_each.values()), axis=0)
        work = case.times.workload.of(case.times.operations[int(np.argmax(recorded_ms))])
        if equal is None or work is None:
            return cls(rank, slow[rank], recorded_ms, recorded_ms, _UNKNOWN, float("nan"))
        equal_ms = np.sum([_beyond_ms(case, equal, each, steps) for each, steps in slow.items()], axis=0)
        its_work, its_time = (
            _Compared.of(case, values, rank, slow[rank]) for values in (work, equal.self_ms)
        )
        return cls(rank, slow[rank], recorded_ms, equal_ms, its_work, its_time.times_as_much)

    def explained(self, left_ms: Floats) -> float:
        """Return which part of it is explained, in [0, 1], if so much of it is left."""
        recorded_ms, left = (float(np.maximum(each_ms, 0).sum()) for each_ms in (self.recorded_ms, left_ms))
        return min(1.0, max(0.0, 1 - left / recorded_ms)) if recorded_ms > 0 else 0.0


def _beyond_ms(case: Case, times: StepTimes, rank: int, steps: Ints) -> Floats:
    """Return for each operation what a rank takes beyond its peers in these steps, in ms."""
    columns, its = _of_role(case, rank)
    of_role_ms = times.operation_ms[:, :, columns]
    return np.array(
        [np.nansum(its_ms[steps, its] - peer_medians(its_ms)[steps, its]) for its_ms in of_role_ms]
    )


def _of_role(case: Case, rank: int) -> tuple[Ints, int]:
    """Return the columns of the ranks of a rank's role, and its place among them."""
    column = case.times.ranks.index(rank)
    columns = next(its for its in case.by_role.values() if column in its)
    return columns, int(np.flatnonzero(columns == column)[0])


def _told_by_work(case: Case, excess: _Excess) -> tuple[Owner, WorkOfRank]:
    explained = excess.explained(excess.equal_ms) if excess.work.is_more else 0.0
    fact = WorkOfRank(excess.rank, excess.work.times_as_much, explained, excess.times_as_long)
    return owner_by_part(explained, case.policy, otherwise="machine"), fact


def _told_by_rows(case: Case, slow: Mapping[int, Ints], excess: _Excess) -> tuple[Owner, MoreRows | None]:
    """Tell by the numbers of rows, where no work is recorded: an operation that was done more often."""
    times, most = case.times, int(np.argmax(excess.recorded_ms))
    operation = times.operations[most]
    n_rows = times.workload.n_rows.get(operation)
    if n_rows is None:
        return "unknown", None
    rows = _Compared.of(case, n_rows.astype(np.float64), excess.rank, excess.steps)
    if not rows.is_more:
        return "unknown", None
    its_ms = times.operation_ms[most]
    took_ms = sum(float(np.nansum(its_ms[steps, times.ranks.index(rank)])) for rank, steps in slow.items())
    left_ms = excess.recorded_ms.copy()
    left_ms[most] = max(0.0, left_ms[most] - took_ms * (1 - 1 / rows.times_as_much))
    explained = excess.explained(left_ms)
    fact = MoreRows(excess.rank, operation, rows.times_as_much, explained)
    return owner_by_part(explained, case.policy, otherwise="unknown"), fact


def owner_by_part(explained: float, policy: Policy, otherwise: Owner) -> Owner:
    """Return the owner of a delay of which this part is due to more work; ``otherwise`` where little is."""
    if explained >= policy.min_explained_by_work:
        return "work"
    return otherwise if explained <= policy.max_explained_by_work else "both"


# -- what a run that names nobody would be shorter without ----------------------------------------------


def explained(found: Judgement, case: Case, pricing: Pricing) -> Judgement:
    """Return a judgement that names nobody, with what the run would be shorter without.

    If ranks are late in turn and what costs most explains that, it is the reason that much time is lost.
    """
    told: list[_Explanation] = []
    if case.times.workload.of_step is not None:
        equal = at_equal_work(case, equal_shares, assumed="nothing")
        told.append(_explanation(found, case, pricing, UnevenWork, "work", equal))
    for operation in case.times.pauses:
        without = case.times.without_pauses(operation)
        told.append(_explanation(found, case, pricing, partial(Pauses, operation), "", without))
    visible = [one for one in told if one.fact.run_share >= case.policy.visible_cost_share]
    told = sorted(visible, key=lambda one: -one.cost_ms)
    if not told:
        return found
    first, verdict = told[0], found.verdict
    facts = (*(one.fact for one in told), *verdict.evidence)
    if first.explained < case.policy.min_explained_by_work or verdict.verdict == "group-wide":
        shared = first.owner == "work" and verdict.verdict == "diffuse"
        owner = owner_by_part(first.explained, case.policy, otherwise="") if shared else ""
        return found._replace(verdict=replace(verdict, owner=owner, evidence=facts))
    lost = replace(
        verdict, verdict="diffuse", owner=first.owner, cost_ms=first.cost_ms, cost_share=first.fact.run_share,
        waited_for=most_of(case.times.ranks, late_ms(found.case)), evidence=facts,
    )  # fmt: skip
    return found._replace(verdict=lost)


class _Explanation(NamedTuple):
    """What time may be lost to.

    Attributes:
        fact: what it is.
        owner: the owner of the delay, if it explains it.
        cost_ms: by how much the run would be shorter without it, in ms.
        explained: which part of the time that ranks are late it explains.
    """

    fact: UnevenWork | Pauses
    owner: Owner
    cost_ms: float
    explained: float


def _explanation(
    found: Judgement, case: Case, pricing: Pricing, kind: Callable[[float], UnevenWork | Pauses],
    owner: Owner, without: StepTimes,
) -> _Explanation:  # fmt: skip
    """Price what makes the times of a case differ from those ``without`` it."""
    cost_ms = pricing.saved_if_quicker_ms(times_as_long(case.times, without))
    share = case.times.share_of_run(cost_ms)
    late = float(late_ms(found.case).sum())
    left = float(late_ms(case.with_times(without.by_gaps() if found.case.times.from_gaps else without)).sum())
    explained = 1 - left / late if late > 0 else 0.0
    return _Explanation(kind(share), owner, cost_ms, explained)


# -- times at equal work --------------------------------------------------------------------------------


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
        of_role, own_ms = np.where(work[:, columns] > 0, work[:, columns], np.nan), its_ms[:, columns]
        exponent = growth_of(of_role, own_ms, case.policy)
        if exponent is None and assumed == "across-ranks":
            exponent = _across_ranks(of_role, own_ms, case.policy)
        if exponent is not None:
            found[:, columns] = _grown(of_role, own_ms, reference, exponent)
        elif assumed == "beyond-peers":
            found[:, columns] = _beyond_peers(of_role, own_ms)
        elif assumed == "as-peers":
            found[:, columns] = _as_peers(of_role, own_ms)
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


def growth_of(work: Floats, its_ms: Floats, policy: Policy) -> float | None:
    """Return how the times of one operation in one role grow with the work: they go with it to this power.

    It is the slope of Tukey's resistant line (Exploratory Data Analysis, 1977) through the logarithms of
    both, each relative to what the rank usually has: between the medians of the third of the steps with the
    least work and of the third with the most.

    Args:
        work, its_ms: steps x ranks; NaN where unknown.
        policy: the numbers that decide.

    Returns:
        1 if they are proportional, 0 if they do not depend on it; None if no rank had now more and now less
        to do, so that the run does not tell.
    """
    usable = (work > 0) & (its_ms > 0)
    log_work, log_ms = (np.log(np.where(usable, values, np.nan)) for values in (work, its_ms))
    more, longer = (values - column_medians(values) for values in (log_work, log_ms))
    more, longer = more[usable], longer[usable]
    n_third = len(more) // 3
    if n_third < policy.min_growth_steps:
        return None
    order = np.argsort(more, kind="stable")
    least, most = order[:n_third], order[-n_third:]
    apart = float(np.median(more[most]) - np.median(more[least]))
    if apart < policy.min_work_difference:
        return None
    exponent = float(np.median(longer[most]) - np.median(longer[least])) / apart
    left = longer - exponent * more
    error = math.hypot(error_of_median(left[least]), error_of_median(left[most])) / apart
    if error > policy.max_growth_error:
        return None
    return exponent if exponent > criteria.GROWTH_ERRORS * error else 0.0


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

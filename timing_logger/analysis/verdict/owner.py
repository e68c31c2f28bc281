"""Whose fault a named delay is: of a rank that is slow for what it has to do, or of its having more to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import Floats, Ints, known
from timing_logger.analysis.rows.operations import PAUSES
from timing_logger.analysis.step_times.noise import error_of_median
from timing_logger.analysis.step_times.peers import peer_medians
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case, Judgement
from timing_logger.analysis.verdict.own_times import by_own_times
from timing_logger.analysis.verdict.who.equal_work import (
    at_equal_work,
    equal_shares,
    owner_by_part,
    times_as_long,
)
from timing_logger.analysis.verdict.who.pricing import Pricing
from timing_logger.analysis.verdict.whole_run.systemic import explained
from timing_logger.results.rank_facts import MoreRows, RankFact, WorkOfRank
from timing_logger.results.verdict import Owner

_OF_RANKS = ("rank", "suspect")


def with_owner(case: Case, pricing: Pricing) -> Judgement:
    """Judge ranks by their own times, as recorded and as if all had the same to do.

    A rank that is slow only at equal work is hidden by how much the work of all varies. Its cost then is what
    it takes beyond the time that is due to its work.
    """
    found, times = by_own_times(case, pricing), case.times
    equal = at_equal_work(case, equal_shares) if times.workload.is_known else None
    if equal is not None and times.workload.of_step is not None:
        beside_peers = times_as_long(times, at_equal_work(case, peer_medians))
        at_equal = by_own_times(case.with_times(equal), pricing.at_equal_work(equal, beside_peers))
        if _outdoes(at_equal, found):
            recorded = times.by_gaps() if at_equal.case.times.from_gaps else times
            return _owned(at_equal, recorded, at_equal.case.times)
    if found.verdict.verdict in ("healthy", "diffuse", "group-wide"):
        return explained(found, case, pricing)
    if equal is not None and found.case.times.from_gaps:
        equal = equal.by_gaps()
    return _owned(found, found.case.times, equal)


def _outdoes(at_equal: Judgement, found: Judgement) -> bool:
    """Tell whether ranks are found at equal work only, or are certain only there."""
    kinds = found.verdict.verdict, at_equal.verdict.verdict
    return kinds[1] in _OF_RANKS and (kinds[0] not in _OF_RANKS or kinds == ("suspect", "rank"))


def _owned(found: Judgement, recorded: StepTimes, equal: StepTimes | None) -> Judgement:
    """Return a judgement with the owner of the delay, and what tells it.

    Args:
        found: the judgement.
        recorded: the times as they are recorded.
        equal: the times as if all had the same to do; None if no row states work.
    """
    verdict = found.verdict
    if verdict.verdict == "role":
        return found._replace(verdict=replace(verdict, owner="role"))
    if verdict.verdict not in _OF_RANKS or verdict.operation in PAUSES:
        return found  # what a rank stops for is neither its machine's nor its work's
    case = found.case.with_times(recorded)
    excess = _Excess.of(case, found.slow, equal)
    is_known = excess.work is not _UNKNOWN
    owner, fact = _told_by_work(case, excess) if is_known else _told_by_rows(case, found.slow, excess)
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


def _told_by_work(case: Case, excess: _Excess) -> tuple[Owner, RankFact]:
    explained = excess.explained(excess.equal_ms) if excess.work.is_more else 0.0
    fact = WorkOfRank(excess.rank, excess.work.times_as_much, explained, excess.times_as_long)
    return owner_by_part(explained, case.policy, otherwise="machine"), fact


def _told_by_rows(case: Case, slow: Mapping[int, Ints], excess: _Excess) -> tuple[Owner, RankFact | None]:
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

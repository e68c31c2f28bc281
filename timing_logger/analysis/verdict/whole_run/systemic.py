"""Find what no single rank explains: a slow role, time lost in turn, waiting that is left, all ranks slower.

All ranks may have become slower together than in their own best past, at once or little by little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.analysis.step_times.noise import Noise, change_points, noise_of, robust_sigma, sigma_of
from timing_logger.analysis.step_times.peers import (
    column_medians,
    log_ratios,
    peer_medians,
    peer_ratios,
    relative_scores,
    row_medians,
)
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case
from timing_logger.analysis.verdict.who.candidates import COST, STEPS
from timing_logger.analysis.verdict.who.slow_steps import SlowSteps, slow_steps
from timing_logger.results.facts import AllSlower, Gate, LostToSlowest, Slowing, SlowRole
from timing_logger.results.policy import Policy
from timing_logger.results.verdict import Verdict

_MOST_NAMED = 3


def whole_role(case: Case) -> Verdict | None:
    """Return the verdict that all ranks of a role are slower than the typical other role, over enough steps.

    The roles are compared by all their own work, and else by those operations in which a role is slower, if
    these are most of its work: an operation that hides waiting, such as gradient clipping that reduces
    inside, is long on all ranks except those of a slow role.

    Returns:
        The costliest such verdict; None if there is none.
    """
    times, by_role = case.times, case.by_role
    if len(by_role) < 2 or _may_be_passed_on(times):
        return None
    self_ms = np.stack([row_medians(times.self_ms[:, columns]) for columns in by_role.values()], axis=1)
    found = _slow_roles(case, self_ms) or _slow_in_most(case, self_ms)
    return max(found, key=lambda verdict: verdict.cost_ms, default=None)


def _slow_in_most(case: Case, self_ms: Floats) -> list[Verdict]:
    times, by_role = case.times, case.by_role
    if not times.operations:
        return []
    columns_of = by_role.values()
    typical = [[row_medians(its_ms[:, columns]) for columns in columns_of] for its_ms in times.operation_ms]
    operation_ms = np.moveaxis(np.array(typical), 1, 2)  # operations x steps x roles
    found = []
    for role in range(len(by_role)):
        slower_ms = operation_ms[_slower_in(operation_ms, role)].sum(axis=0)
        if np.nansum(slower_ms[:, role]) >= case.policy.min_role_work_share * np.nansum(self_ms[:, role]):
            found += _slow_roles(case, slower_ms, only=role)
    return found


def _slower_in(operation_ms: Floats, role: int) -> Ints:
    """Return the operations that all roles have and in which this role typically is slower."""
    typical = np.stack([column_medians(own_ms) for own_ms in operation_ms])
    others = column_medians(np.delete(typical, role, axis=1).T)
    return np.flatnonzero((typical > 0).all(axis=1) & (typical[:, role] > others))


def _slow_roles(case: Case, role_ms: Floats, only: int | None = None) -> list[Verdict]:
    """Return the verdicts on slow roles, by times in ms (steps x roles); ``only`` selects one role."""
    slow_of_all = slow_steps(peer_ratios(role_ms), case.policy)
    found = [_role_verdict(case, role_ms, slow) for slow in slow_of_all if only in (None, slow.column)]
    return [verdict for verdict in found if verdict is not None]


def _may_be_passed_on(times: StepTimes) -> bool:
    """Tell whether rows of own work exist but cover little: the rest may be waiting that is not logged."""
    return times.from_gaps and len(times.operations) > 1


def _role_verdict(case: Case, role_ms: Floats, slow: SlowSteps) -> Verdict | None:
    times, policy = case.times, case.policy
    role, columns = list(case.by_role.items())[slow.column]
    score = float(relative_scores(role_ms[slow.steps])[slow.column])
    needed = min(policy.min_slow_steps, int((~np.isnan(role_ms[:, slow.column])).sum()))
    covered, least = _covered(times, columns, role_ms[:, slow.column]), policy.min_role_work_share
    gates = (
        Gate.below("score of the role", score, policy.flagged_score),
        Gate.at_least(STEPS, len(slow.steps), needed),
        Gate("share of its time that these rows cover", covered, least, not covered < least),
    )
    if not all(gate.passed for gate in gates):
        return None
    ranks = times.ranks_of(columns)
    beyond_ms = role_ms[slow.steps, slow.column] - peer_medians(role_ms)[slow.steps, slow.column]
    return Verdict(
        verdict="role", ranks=ranks, labels=role, operation=_longest_operation(times, slow.steps, columns),
        window=slow.kind, **times.step_range(slow.steps)._asdict(), slow_steps=len(slow.steps),
        score=score, cost_ms=float(np.maximum(beyond_ms, 0).sum()), gates=gates,
        evidence=(SlowRole(role, ranks, float(np.exp(slow.level))),),
    )  # fmt: skip


def _covered(times: StepTimes, columns: Ints, role_ms: Floats) -> float:
    """Return the fraction of a role's time between communication that its rows cover; NaN if unknown."""
    between_ms = row_medians(times.gap_ms[:, columns])
    known = ~np.isnan(between_ms) & ~np.isnan(role_ms)
    spent_ms = float(between_ms[known].sum())
    return float(role_ms[known].sum()) / spent_ms if spent_ms > 0 else float("nan")


def _longest_operation(times: StepTimes, steps: Ints, columns: Ints) -> str:
    """Return the operation in which the ranks spend most beyond what all ranks typically do; "" if none."""
    beyond = [
        float(np.nansum(row_medians(its_ms[np.ix_(steps, columns)]) - row_medians(its_ms[steps])))
        for its_ms in times.operation_ms
    ]
    return times.operations[int(np.argmax(beyond))] if beyond else ""


def diffuse(case: Case, without_owner: bool) -> Verdict:
    """Return the verdict that much time is lost to late ranks, but to none in particular; or ``healthy``.

    Args:
        case: the run to be judged.
        without_owner: whether there are slow ranks that may not be named together: they are too many, or
            explain too little.
    """
    times, most = case.times, case.policy.max_lost_share
    lost_ms, slowest_ms = late_ms(case), times.slowest_ms
    lost = float(lost_ms.sum()) / slowest_ms if slowest_ms > 0 else float("nan")
    too_much = lost > most
    gate = Gate("share of the time lost to the slowest of each step", lost, most, too_much)
    matters = times.share_of_run(float(lost_ms.sum())) >= case.policy.visible_cost_share
    if not matters or (not too_much and not without_owner):
        return Verdict(verdict="healthy", gates=(gate,))
    whom = most_of(times.ranks, lost_ms)
    return Verdict(
        verdict="diffuse", cost_ms=float(lost_ms.sum()), gates=(gate,), waited_for=whom,
        evidence=(LostToSlowest(lost, whom),),
    )  # fmt: skip


def late_ms(case: Case) -> Floats:
    """Return for each rank how much longer it took than the typical rank where it was the slowest."""
    times, by_role = case.times, case.by_role
    lost_ms = np.zeros(len(times.ranks))
    known = np.flatnonzero(~np.isnan(times.self_ms).all(axis=1))
    if not by_role or not len(known):
        return lost_ms
    typical_ms = np.fmax.reduce([row_medians(times.self_ms[:, columns]) for columns in by_role.values()])
    slowest = np.nanargmax(times.self_ms[known], axis=1)
    beyond_ms = np.nan_to_num(times.self_ms[known, slowest] - typical_ms[known])
    np.add.at(lost_ms, slowest, beyond_ms)
    return lost_ms


# -- for whom ranks waited ------------------------------------------------------------------------------


def with_unexplained_waits(verdict: Verdict, times: StepTimes) -> Verdict:
    """Return a verdict that found nothing, with how much ranks waited all the same, and for whom."""
    waits = times.waits
    return replace(
        verdict,
        not_explained=_part(times, waits.varying_ms),
        waited_for=most_of(times.ranks, waits.varying_ms),
        recurring=_part(times, waits.recurring_ms),
        recurring_for=most_of(times.ranks, waits.recurring_ms),
        unmatched=_part(times, waits.unmatched_ms),
    )


def _part(times: StepTimes, waited_ms: Floats) -> float:
    return times.share_of_run(float(waited_ms.sum()) / len(times.ranks))


def most_of(ranks: Sequence[int], lost_ms: Floats) -> tuple[int, ...]:
    """Return the fewest ranks to which most of a time goes, the most first.

    None if it takes more than three, or than a third of the ranks: then it goes to no rank in particular.

    Args:
        ranks: the rank of each entry of ``lost_ms``, which may have one more, for what is of no rank.
        lost_ms: what goes to each.
    """
    most = min(_MOST_NAMED, max(1, len(ranks) // 3))
    order = np.argsort(-lost_ms, kind="stable")[:most]
    enough = np.cumsum(lost_ms[order]) > lost_ms.sum() / 2
    if not enough.any():
        return ()
    fewest = order[: int(np.argmax(enough)) + 1].tolist()
    return tuple(ranks[column] for column in fewest) if max(fewest) < len(ranks) else ()


# -- all ranks slower than in their own best past -------------------------------------------------------


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

"""Turn what is asked for into other times of a run, and play it with these.

An operation may take what is usual, or nothing at all; a rank what its peers do; transfers other times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrame

from timing_logger.analysis.counterfactual.transfer_costs import longer_with
from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.analysis.step_times.noise import change_points, noise_of, sigma_of, usual_of
from timing_logger.analysis.step_times.peers import log_ratios, peer_medians, row_medians
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case, Judgement
from timing_logger.analysis.verdict.causes.search import given
from timing_logger.analysis.verdict.owner import (
    Assumption,
    at_equal_work,
    equal_shares,
    times_as_long,
)
from timing_logger.analysis.verdict.verdict import map_judgement, reduce_judgement
from timing_logger.analysis.verdict.who.pricing import Pricing, Repair, Slowed, pricing_of
from timing_logger.analysis.verdict.who.slow_steps import slow_steps
from timing_logger.analysis.verdict.whole_run.slow_links import as_usual, slow_links
from timing_logger.errors import FixError
from timing_logger.results import criteria
from timing_logger.results.plain import UNLOGGED
from timing_logger.results.policy import Policy
from timing_logger.results.what_if import Fix


class Gain(NamedTuple):
    """By how much a run would be shorter, in ms; and between what it would be, with 95% confidence."""

    ms: float
    low_ms: float
    high_ms: float


_ASSUMPTIONS: tuple[Assumption, ...] = ("across-ranks", "nothing", "as-peers")
"""Where it is not known how times grow with the work, the first is what is answered. The others are how far
off that may be: ranks with more to do are only slow, or the others do their work and take no longer."""


class GainOfFixes(NamedTuple):
    """By how much a run would be shorter with some repairs.

    Attributes:
        gain: under what is assumed, if anything is; its interval has all that may be assumed.
        assumed_ms: the least and the greatest gain, by what may be assumed; None where nothing has to be.
    """

    gain: Gain
    assumed_ms: tuple[float, float] | None


def judgement_to_repair(
    timings: IntoDataFrame,
    roles: Mapping[int, object] | None,
    policy: Policy,
    host: pd.DataFrame | None,
) -> Judgement:
    """Return the verdict on a run, with what it takes to play it again; the arguments are those of
    ``what_if``."""
    return reduce_judgement([map_judgement(timings, with_gaps=True)], roles, policy=policy, host=given(host))


class Repairing:
    """A run that can be played with something repaired.

    Args:
        judgement: the verdict on the run, and what it is based on.
    """

    def __init__(self, judgement: Judgement) -> None:
        self.case, self._judgement = judgement.case, judgement
        self.pricing: Pricing = pricing_of(self.case)
        self._steps = np.arange(len(self.case.times.iterations))
        self._as_recorded = Repair(np.ones((max(1, len(self._steps)), len(self.case.times.ranks))))
        self._lasted_s = _lengths_s(self.pricing.ends_s([self._as_recorded]))

    def gains_of(self, several: Sequence[Sequence[Fix]]) -> list[GainOfFixes]:
        """Return by how much the run would be shorter with each of several sets of repairs.

        Raises:
            FixError: the run tells nothing of what one of them names.
        """
        tried = [self._under_assumptions(fixes) for fixes in several]
        gains = iter(self.gains([repair for repairs in tried for repair in repairs]))
        run_ms = self.case.times.run_ms
        return [_of_all([next(gains) for _ in repairs], run_ms) for repairs in tried]

    def _under_assumptions(self, fixes: Sequence[Fix]) -> list[Repair]:
        """Return a repair as it is answered, and those that it may be just as well."""
        assumptions = _ASSUMPTIONS if any(fix.kind == "work" for fix in fixes) else _ASSUMPTIONS[:1]
        found = [self.repair(fixes, assumed) for assumed in assumptions]
        alike = all(np.allclose(found[0].quicker, other.quicker) for other in found)
        return found[:1] if alike else found

    def repair(self, fixes: Sequence[Fix], assumed: Assumption = _ASSUMPTIONS[0]) -> Repair:
        """Return what is other with all of some repairs.

        Args:
            fixes: the repairs.
            assumed: how times grow with the work where the run does not tell.

        Raises:
            FixError: the run tells nothing of what one of them names.
        """
        found, times = self._as_recorded, self.case.times
        for fix in fixes:
            if fix.kind in ("rank", "host", "cause") and (slowed := self._slowed(fix)):
                found = found._replace(slowed=(*found.slowed, *slowed))
            elif fix.kind in ("transfers", "bytes", "bucket", "group"):
                found = found._replace(transfers_s=self._other_transfers_s(fix, found))
            else:
                times = self._times_with(fix, times, assumed)
        if times is self.case.times:
            return found
        return found._replace(quicker=times_as_long(self.case.times, times))

    def gains(self, repairs: Sequence[Repair], *, beside: Repair | None = None) -> list[Gain]:
        """Return by how much the run would be shorter with each repair than with another, or with none."""
        lasted_s = self._lasted_s if beside is None else _lengths_s(self.pricing.ends_s([beside]))
        with_each_s = _lengths_s(self.pricing.ends_s(repairs)) if repairs else np.zeros((len(lasted_s), 0))
        times = self.case.times
        scale, not_played_ms = 1e3 * times.recorded_every, self.pricing.error * times.run_ms
        found = []
        for with_it_s in with_each_s.T:
            ms = scale * float((lasted_s.sum(axis=0) - with_it_s.sum())[0])
            off_ms = not_played_ms + scale * criteria.LIKELY_SIGMAS * _error_of_sum(
                with_it_s, self.case.policy
            )
            found.append(Gain(ms, ms - off_ms, ms + off_ms))
        return found

    def all_usual(self) -> Repair:
        """Return the repair of everything that can be repaired: own work and transfers are as usual."""
        usual = self._as_recorded._replace(all_usual=True)
        return usual._replace(transfers_s=self._usual_s()) if self.may_change_transfers else usual

    def column_of(self, rank: int) -> int:
        """Return the column of a rank."""
        return self.case.times.ranks.index(rank)

    def like_peers(self, columns: Sequence[int]) -> tuple[Slowed, ...]:
        """Return these ranks as slow in all steps."""
        return tuple(Slowed(column, self._steps) for column in columns)

    def _slowed(self, fix: Fix) -> tuple[Slowed, ...]:
        """Return who is like its peers; nobody if a pause is what is repaired."""
        if fix.kind == "rank":
            return self.like_peers([self._known_column(fix)])
        if fix.kind == "host":
            return self.like_peers(self._columns_of_host(fix).tolist())
        return () if fix.value in self.case.times.pauses else self._slowed_by_cause(fix)

    def _known_column(self, fix: Fix) -> int:
        rank, ranks = int(fix.value), self.case.times.ranks
        if rank not in ranks:
            raise FixError(f"{fix}: there is no such rank; there are {_listed(ranks)}")
        column = ranks.index(rank)
        if any(len(columns) == 1 and column in columns for columns in self.case.by_role.values()):
            raise FixError(f"{fix}: no other rank has its role, so none shows what it usually takes")
        return column

    def _columns_of_host(self, fix: Fix) -> Ints:
        hosts = self.case.by_host
        if fix.value not in hosts:
            raise FixError(
                f"{fix}: there is no such host; {_listed_or(sorted(hosts), 'hosts are not known')}"
            )
        if len(hosts) < 2:
            raise FixError(f"{fix}: all ranks run on this host, so none shows what is usual on another")
        return hosts[fix.value]

    def _slowed_by_cause(self, fix: Fix) -> tuple[Slowed, ...]:
        cause, times = self._judgement.verdict.cause, self.case.times
        if cause is None or cause.name != fix.value:
            known = [*times.pauses, *([cause.name] if cause else ())]
            otherwise = "no pause is recorded (pause_rows=True), and the verdict names no cause"
            raise FixError(f"{fix}: no time is known to be lost to it; {_listed_or(known, otherwise)}")
        slow = self._judgement.slow
        return tuple(Slowed(self.column_of(rank), slow.get(rank, self._steps)) for rank in cause.ranks)

    def _times_with(self, fix: Fix, times: StepTimes, assumed: Assumption) -> StepTimes:
        case = self.case.with_times(times)
        if fix.kind == "work":
            if not times.workload.is_known:
                raise FixError(f"{fix}: no row states how much there was to do (work=)")
            return at_equal_work(case, equal_shares, assumed=assumed)
        if fix.kind == "cause":
            return times.without_pauses(fix.value)
        known = operations_of(times)
        if fix.value not in known:
            raise FixError(f"{fix}: no such operation is recorded; {_listed_or(known, 'none is')}")
        return without(times, fix.value) if fix.kind == "without" else with_usual(case, fix.value)

    @property
    def may_change_transfers(self) -> bool:
        """Whether the run can be played with other transfers."""
        return self.pricing.plays_again and self.case.times.played is not None

    def _other_transfers_s(self, fix: Fix, before: Repair) -> tuple[Floats, ...]:
        if not self.may_change_transfers:
            raise FixError(f"{fix}: the rows do not show in all of the run who waits for whom")
        if fix.kind == "transfers":
            return self._usual_s()
        times = self.case.times
        assert times.played is not None
        took_s, late_s = before.transfers_s or (times.played.program.done.took_s, times.played.program.late_s)
        link, step = times.transfers.link, times.transfers.step
        longer = np.ones(len(took_s))
        linked = np.flatnonzero(link >= 0)
        longer[linked] = longer_with(self.case, fix)[step[linked], link[linked]]
        return took_s * longer, late_s

    def _usual_s(self) -> tuple[Floats, Floats]:
        times = self.case.times
        assert times.played is not None
        return as_usual(times.played, times.transfers, list(slow_links(self.case)))


def _of_all(gains: Sequence[Gain], run_ms: float) -> GainOfFixes:
    if np.ptp([gain.ms for gain in gains]) < criteria.NO_MATTER_SHARE * run_ms:
        return GainOfFixes(gains[0], None)
    low_ms, high_ms = min(gain.low_ms for gain in gains), max(gain.high_ms for gain in gains)
    assumed_ms = min(gain.ms for gain in gains), max(gain.ms for gain in gains)
    return GainOfFixes(Gain(gains[0].ms, low_ms, high_ms), assumed_ms)


def _error_of_sum(of_steps: Floats, policy: Policy) -> float:
    """Return the standard error of the sum over steps, if others like these were drawn: a run made again."""
    if len(of_steps) < criteria.MIN_REPAIRED_STEPS:
        return 0.0
    noise = noise_of(of_steps[:, None], policy.min_compared_stretches)
    return sigma_of(np.diff(of_steps)) * len(of_steps) * noise.error_of_mean(len(of_steps))


def _lengths_s(ends_s: Floats) -> Floats:
    """Return how long each step took, from when all before it had ended; steps x repairs."""
    return np.diff(ends_s, axis=0, prepend=0.0)


_MOST_LISTED = 12


def _listed(known: Sequence[object]) -> str:
    shown = ", ".join(map(str, known[:_MOST_LISTED]))
    return shown if len(known) <= _MOST_LISTED else f"{shown}, ... ({len(known)})"


def _listed_or(known: Sequence[object], otherwise: str) -> str:
    return f"there are {_listed(known)}" if known else otherwise


# -- the times of a run in which an operation takes what is usual, or nothing at all ---------------------


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

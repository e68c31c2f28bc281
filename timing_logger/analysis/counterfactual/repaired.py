"""Turn what is asked for into other times of a run, and play it with these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrame

from timing_logger.analysis.counterfactual.transfer_costs import longer_with
from timing_logger.analysis.counterfactual.usual_times import operations_of, with_usual, without
from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.analysis.step_times.noise import noise_of, sigma_of
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Judgement
from timing_logger.analysis.verdict.causes.search import given
from timing_logger.analysis.verdict.verdict import map_judgement, reduce_judgement
from timing_logger.analysis.verdict.who.equal_work import (
    Assumption,
    at_equal_work,
    equal_shares,
    times_as_long,
)
from timing_logger.analysis.verdict.who.prices import Repair, Slowed
from timing_logger.analysis.verdict.who.pricing import Pricing, pricing_of
from timing_logger.analysis.verdict.whole_run.slow_links import as_usual, slow_links
from timing_logger.errors import FixError
from timing_logger.results import criteria
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

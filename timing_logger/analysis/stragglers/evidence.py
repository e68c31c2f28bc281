"""Gather the facts that a verdict on ranks rests on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from timing_logger.analysis.series.peers import column_medians, n_known_steps
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.facts import Fact
from timing_logger.analysis.stragglers.facts.of_ranks import (
    ActAsOne,
    AloneInRole,
    EpochsCounted,
    ExplainedWithout,
    FewSteps,
    Gate,
    MostWaitedFor,
    NotNamed,
    PassingOn,
    SelfTimeBetween,
    SelfTimeOfRows,
    SelfTimeUnknown,
    SlowHost,
    Slowness,
    SlowRank,
    StepsCounted,
    TwoRanks,
    VaryAlone,
)
from timing_logger.analysis.stragglers.facts.reasons import OneRank
from timing_logger.analysis.stragglers.slow.candidate import Candidate, phase_of
from timing_logger.analysis.stragglers.who.lockstep import Party

_WORTH_NAMING = 0.1  # of the waiting in the slow steps


def waited_for(times: StepTimes, candidate: Candidate) -> tuple[Fact, ...]:
    """Return how much of the waiting in its slow steps was for a candidate; nothing if others had more."""
    for_it_ms = np.nansum(times.waits.for_it_ms[candidate.slow.steps], axis=0)
    most_ms, total_ms = for_it_ms.max(initial=0.0), for_it_ms.sum()
    if not most_ms > 0 or for_it_ms[candidate.column] < most_ms:
        return ()
    return (MostWaitedFor(times.ranks[candidate.column], float(most_ms / total_ms)),)


def passed_on(times: StepTimes, candidate: Candidate, named: Sequence[int]) -> tuple[Fact, ...]:
    """Return the ranks that are waited for without being slow: they pass on the delay of another rank.

    The ranks in the columns ``named`` are slow themselves.

    A wait leads through them to the rank that is slow, unless rows do not tell what they waited for.
    """
    steps = candidate.slow.steps
    for_it_ms = np.nansum(times.waits.for_it_ms[steps], axis=0)
    levels = column_medians(times.self_ms[steps])
    is_waited_for = (for_it_ms > 0) & (for_it_ms >= _WORTH_NAMING * for_it_ms.sum())
    longest_ms = np.nansum(times.waits.longest_ms[steps], axis=0)
    may_have_waited = times.waits.unmatched_ms[steps].sum(axis=0) > longest_ms
    late = np.flatnonzero(is_waited_for & may_have_waited & (levels < levels[candidate.column]))
    late = np.setdiff1d(late, named)
    return (PassingOn(tuple(times.ranks[column] for column in late)),) if len(late) else ()


def how_slow_together(times: StepTimes, party: Party) -> tuple[Fact, ...]:
    """Return how slow a party is, when, and what makes its ranks slow as one."""
    slowness = _slowness(times, party.first)
    if party.bond.kind == "host":
        return (SlowHost(party.bond.host, slowness), *as_one(times, party))
    return (SlowRank(times.ranks[party.first.column], slowness), *as_one(times, party))


def _slowness(times: StepTimes, candidate: Candidate) -> Slowness:
    slow = candidate.slow
    return Slowness(float(np.exp(slow.level)), slow.kind, times.step_range(slow.steps), len(slow.steps))


def why_not(times: StepTimes, candidate: Candidate, last_gate: Gate | None) -> Fact:
    """Return how slow a candidate is, and the gates at which it failed.

    Args:
        times: the times of the run.
        candidate: the candidate.
        last_gate: the gate that was checked after those of the candidate, if any.
    """
    rank, slowness = times.ranks[candidate.column], _slowness(times, candidate)
    failed = tuple(gate for gate in candidate.gates if not gate.passed)
    if failed:
        return NotNamed(rank, slowness, failed)
    if last_gate is None:
        return SlowRank(rank, slowness)
    if last_gate.passed:
        return ExplainedWithout(rank, slowness, last_gate.value)
    return NotNamed(rank, slowness, (last_gate,))


def as_one(times: StepTimes, party: Party) -> tuple[Fact, ...]:
    """Return what makes the ranks of a party slow as one, and what was looked at; nothing for one rank."""
    if party.is_alone:
        return ()
    bond, ranks = party.bond, tuple(times.ranks[column] for column in party.columns)
    alike = ActAsOne(ranks, bond.kind, bond.n_hosts, bond.host, bond.host_ranks, bond.together)
    if bond.together is not False:
        return (alike,)
    return (alike, VaryAlone(phase_of(times, party.first)[0]))


def few_steps(case: Case, *, nobody_is_slow: bool) -> tuple[Fact, ...]:
    """Return that the run has few steps; nothing if it has enough to name any rank."""
    recorded = n_known_steps(case.times.self_ms)
    return (FewSteps(recorded, nobody_is_slow),) if 0 < recorded < case.policy.min_slow_steps else ()


def what_it_rests_on(case: Case) -> tuple[Fact, ...]:
    """Return the source of self times, and what limits the comparison of ranks."""
    times = case.times
    alone = tuple(role for role, columns in case.by_role.items() if len(columns) == 1)
    unknown = _unknown_ranks(times)
    return (
        SelfTimeBetween() if times.from_gaps else SelfTimeOfRows(tuple(times.phases)),
        *((SelfTimeUnknown(unknown),) if unknown else ()),
        *((AloneInRole(alone),) if len(times.ranks) > 1 and alone else ()),
        *((OneRank(),) if len(times.ranks) == 1 else ()),
        *((TwoRanks(),) if len(times.ranks) == 2 and not alone else ()),
        *(() if times.has_iterations else (StepsCounted(),)),
        *((EpochsCounted(),) if times.numbering.counted else ()),
    )


def _unknown_ranks(times: StepTimes) -> tuple[int, ...]:
    """Return the ranks without any known self time: one of which nothing is known is not a healthy one."""
    return tuple(rank for i, rank in enumerate(times.ranks) if np.isnan(times.self_ms[:, i]).all())

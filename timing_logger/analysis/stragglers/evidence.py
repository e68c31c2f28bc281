"""State in sentences what a verdict is based on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.result import Gate
from timing_logger.analysis.stragglers.slow.candidate import Candidate
from timing_logger.analysis.stragglers.slow.peers import column_medians, n_known_steps
from timing_logger.analysis.stragglers.times.step_times import UNLOGGED, StepTimes
from timing_logger.analysis.stragglers.who.party import Party
from timing_logger.analysis.stragglers.who.phase import phase_of
from timing_logger.reading.named_ranks import capital, named_ranks

_WORTH_NAMING = 0.1  # of the waiting in the slow steps


HOST_OR_WORK = (
    "Half of the ranks were slower from the first step to the last: whether their host or their work is slow "
    "cannot be told."
)


def explained_phase(phase: str) -> str:
    """Return the name of a phase, with its meaning if it is not the name of rows."""
    return f"{phase}, the code that is not timed," if phase == UNLOGGED else phase


def waited_for(times: StepTimes, candidate: Candidate) -> tuple[str, ...]:
    """State how much of the waiting in its slow steps was for a candidate; nothing if others had more."""
    for_it_ms = np.nansum(times.waits.for_it_ms[candidate.slow.steps], axis=0)
    most_ms, total_ms = for_it_ms.max(initial=0.0), for_it_ms.sum()
    if not most_ms > 0 or for_it_ms[candidate.column] < most_ms:
        return ()
    return (
        f"Of the time that ranks waited in these steps, {most_ms / total_ms:.0%} was for "
        f"rank {times.ranks[candidate.column]}, the largest part.",
    )


def passed_on(times: StepTimes, candidate: Candidate, named: Sequence[int]) -> tuple[str, ...]:
    """Name the ranks that are waited for without being slow: they pass on the delay of another rank.

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
    if not len(late):
        return ()
    ranks = named_ranks(times.ranks[column] for column in late)
    return (f"Waited for, but not slow themselves, so passing on a delay: {ranks}.",)


def how_slow(times: StepTimes, candidate: Candidate) -> str:
    """State how much slower than its peers a candidate is, and when."""
    return f"Rank {times.ranks[candidate.column]}: {_by_how_much(times, candidate, 'its peers')}"


def how_slow_together(times: StepTimes, party: Party) -> tuple[str, ...]:
    """State how slow a party is, when, and what makes its ranks slow as one."""
    if party.bond.kind != "host":
        return (how_slow(times, party.first), *as_one(times, party))
    how = _by_how_much(times, party.first, "the other hosts")
    return (f"The typical rank of {party.bond.host}: {how}", *as_one(times, party))


def _by_how_much(times: StepTimes, candidate: Candidate, others: str) -> str:
    slow = candidate.slow
    return (
        f"{np.exp(slow.level):.2f} times the median of {others} ({slow.kind}, "
        f"{times.step_range(slow.steps).in_words()}, {len(slow.steps)} slow steps)."
    )


def why_not(times: StepTimes, candidate: Candidate, last_gate: Gate | None) -> str:
    """State how slow a candidate is, and the gates at which it failed.

    Args:
        times: the times of the run.
        candidate: the candidate.
        last_gate: the gate that was checked after those of the candidate, if any.
    """
    failed = [gate for gate in candidate.gates if not gate.passed]
    if not failed and last_gate is not None and last_gate.passed:
        return f"{how_slow(times, candidate)} Without it {last_gate.value:.0%} of the lost time is explained."
    failed = failed or ([last_gate] if last_gate else [])
    reasons = "; ".join(f"{gate.name} {gate.value:.3g}, limit {gate.bound:.3g}" for gate in failed)
    sentence = how_slow(times, candidate)
    return f"{sentence} Not named: {reasons}." if reasons else sentence


def as_one(times: StepTimes, party: Party) -> tuple[str, ...]:
    """State what makes the ranks of a party slow as one, and what was looked at; nothing for one rank."""
    if party.is_alone:
        return ()
    ranks = capital(named_ranks(times.ranks[column] for column in party.columns))
    alike = f"{ranks} are slow in the same steps by the same amount: {_what_makes_them_slow(party)}."
    if party.bond.together is not False:
        return (alike,)
    phase = explained_phase(phase_of(times, party.first)[0])
    return (
        alike,
        f"Apart from that, {phase} varies on each by itself: nobody there waits for another in it.",
    )


def _what_makes_them_slow(party: Party) -> str:
    bond, unseen = party.bond, "wait for each other in something that is not logged"
    no_other = f"of {bond.host}, and no rank of another host is as slow then"
    only_then = " only then" if bond.together is False else ""
    is_whole = len(party.columns) == bond.host_ranks
    if bond.kind == "host":
        return f"these are all ranks {no_other}"
    if bond.kind == "part of host":
        part = f"{len(party.columns)} of the {bond.host_ranks} ranks"
        return f"these are {part} {no_other}, so they likely share something there"
    if bond.kind == "waiting":
        return f"they {unseen}, and it is one of them" + f", or {bond.host}, of which they are all" * is_whole
    shared = "storage, a network" if bond.n_hosts else "a host, storage"
    return f"they share something ({shared}), or {unseen}{only_then}, and it is one of them"


def few_steps(case: Case) -> tuple[str, ...]:
    """State that a slow rank is judged by few steps; nothing if the run has enough to name any rank."""
    recorded = n_known_steps(case.times.self_ms)
    return (f"Only {recorded} steps are recorded.",) if recorded < case.policy.min_slow_steps else ()


def few_steps_in_all(case: Case) -> tuple[str, ...]:
    """State that a slightly slow rank would be missed in few steps; nothing if there are enough."""
    n_steps = n_known_steps(case.times.self_ms)
    if not 0 < n_steps < case.policy.min_slow_steps:
        return ()
    return (f"Only {n_steps} steps are recorded: a rank that is a little slow would not be seen.",)


def what_it_rests_on(case: Case) -> tuple[str, ...]:
    """State the source of self times, and what limits the comparison of ranks."""
    times = case.times
    source = (
        "Self time is the time between communication: rows of own work are missing or cover too little of it."
        if times.from_gaps
        else f"Self time is that of the rows of own work: {', '.join(times.phases) or 'there are none'}."
    )
    alone = [role for role, columns in case.by_role.items() if len(columns) == 1]
    notes = [source, *_unknown_ranks(times)]
    if len(times.ranks) > 1 and alone:
        notes.append(f"Only one rank each has the role {'; '.join(alone[:5])}: no peers to compare it with.")
    if len(times.ranks) == 1:
        notes.append("Only one rank is recorded: nobody to compare it with.")
    if len(times.ranks) == 2 and not alone:
        notes.append("Two ranks: compared by their ratio, since one peer has no spread.")
    if not times.has_iterations:
        notes.append("No iteration is recorded: rounds of the collectives that repeat are counted as steps.")
    if times.numbering.counted:
        notes.append(
            "Iterations fall back and no epoch tells them apart: each time begins an epoch, counted."
        )
    return tuple(notes)


def _unknown_ranks(times: StepTimes) -> tuple[str, ...]:
    """Name the ranks without any known self time: a rank of which nothing is known is not a healthy one."""
    unknown = [rank for i, rank in enumerate(times.ranks) if np.isnan(times.self_ms[:, i]).all()]
    if not unknown:
        return ()
    return (f"No step of {named_ranks(unknown)} has a self time that is known: nothing is said of it.",)

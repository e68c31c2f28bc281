"""Which rank is slow, in which phase, since when, and what does it cost? And nobody, where nobody is.

Judged is the time that each rank spends on its own account, without waiting for others, against that
of its peers in the same step: no clocks are compared, and a delay that is passed on, from stage to
stage, stays with the rank that caused it. Who arrives last is asked only afterwards, as a check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis._judged import unjudged_ranks, why_hidden, why_nobody
from timing_logger.analysis._mixed_runs import different_runs
from timing_logger.analysis._peers import column_medians, members, peer_medians
from timing_logger.analysis._roles import roles_of
from timing_logger.analysis._step_times import StepTimes, step_times
from timing_logger.analysis._suspects import (
    MIN_EXPLAINED,
    MIN_STEPS,
    Suspect,
    explained,
    saved_ms,
    suspects,
    waited_for_ms,
)
from timing_logger.analysis._without_a_rank import diffuse, group_wide, whole_role
from timing_logger.analysis.verdict import Gate, Verdict


def stragglers(timings: IntoDataFrameT, *, roles: Mapping[int, Any] | None = None) -> Verdict:
    """Who is slow, if anybody.

    Args:
        timings: as ``read_timings`` returns.
        roles: the role of each rank, such as its pipeline stage: ranks of equal roles do equal work
            and are compared. By default a column ``role`` says it, or the labels that the loggers
            were given (``timings.attrs["files"]``); else all ranks have one role.

    Returns:
        The first of these that holds: a minority of one role's ranks passes every gate (``rank``);
        a role is slower than the others (``role``); all ranks are slower than in their own past
        (``group-wide``); much time is lost to late ranks, but to no one in particular (``diffuse``);
        or ``healthy``. Whether that says anything is in ``judged``: not if no rank had a peer in enough
        steps, or the files look like those of different runs; ``why`` then has the reason.
    """
    return judgement_of(timings, roles).verdict


class Judgement(NamedTuple):
    """A verdict, the times on which it stands, and the role of each rank.

    Attributes:
        are_comparable: whether the ranks are of one run, as far as can be seen.
    """

    times: StepTimes
    verdict: Verdict
    roles: Mapping[int, str]
    are_comparable: bool = True


def judgement_of(timings: IntoDataFrameT, roles: Mapping[int, Any] | None) -> Judgement:
    """What ``stragglers``, ``windows`` and ``scores`` stand on."""
    times = step_times(timings)
    files = getattr(timings, "attrs", {}).get("files", [])
    return judgement_on(times, roles_of(timings, times.ranks, roles), files)


def judgement_on(
    times: StepTimes, role_of: Mapping[int, str], files: Sequence[Mapping[str, Any]]
) -> Judgement:
    """The judgement on these times, of processes that wrote these ``attrs["files"]``."""
    if mixed := different_runs(files):
        why = f"the files look like those of different runs: {mixed}"
        verdict = Verdict(verdict="healthy", judged=False, why=why, unjudged_ranks=tuple(times.ranks))
        return Judgement(times, verdict, role_of, are_comparable=False)
    found = _judged(times, role_of)
    return found._replace(verdict=_as_far_as_known(found.verdict, found.times, role_of))


def _as_far_as_known(verdict: Verdict, times: StepTimes, roles: Mapping[int, str]) -> Verdict:
    """The verdict with what could not be judged."""
    unjudged = unjudged_ranks(times, roles)
    nobody = len(unjudged) == len(times.ranks)
    why = why_nobody(times, roles) if nobody else why_hidden(times)
    if verdict.verdict != "healthy" or not why:
        return replace(verdict, unjudged_ranks=unjudged)
    return replace(verdict, judged=False, why=why, unjudged_ranks=tuple(times.ranks))


def _judged(times: StepTimes, roles: Mapping[int, str]) -> Judgement:
    """By the rows of own work; by the time between communication if these say too little."""
    by_rows = _verdict(times, roles)
    if times.rows_suffice:
        return Judgement(times, by_rows, roles)
    gaps = times.by_gaps()
    if by_rows.verdict == "rank" and not _outdone(by_rows, times, gaps, roles):
        return Judgement(times, by_rows, roles)
    return Judgement(gaps, _verdict(gaps, roles), roles)


def _outdone(by_rows: Verdict, times: StepTimes, gaps: StepTimes, roles: Mapping[int, str]) -> bool:
    """Whether work that is not logged made a rank later than the rows of the named ranks did.

    Another rank's may be waiting for them that is not logged, but that is no longer than the delay where it
    arose. The time of the named ranks themselves has that of their rows in it.
    """
    named_ms = sum(s.cost_ms for s in suspects(times, roles) if times.ranks[s.column] in by_rows.ranks)
    return any(
        found.may_be_named
        and found.cost_ms > (2 if gaps.ranks[found.column] in by_rows.ranks else 1) * named_ms
        for found in suspects(gaps, roles)
    )


def _verdict(times: StepTimes, roles: Mapping[int, str]) -> Verdict:
    notes = _what_it_rests_on(times, roles)
    found = suspects(times, roles)
    named, last_gate = _named(times, found)
    if named:
        return _of_ranks(times, named, found, last_gate, notes)
    refused = tuple(_why_not(times, suspect, last_gate) for suspect in found[:3])
    without_owner = any(suspect.may_be_named for suspect in found)
    minded = replace(times, self_ms=waited_for_ms(times, found))
    verdict = whole_role(times, roles) or group_wide(times) or diffuse(minded, roles, without_owner)
    few = _few_steps_in_all(times) if verdict.verdict == "healthy" else ()
    return replace(verdict, evidence=(*verdict.evidence, *refused, *few, *notes))


def _named(times: StepTimes, found: Sequence[Suspect]) -> tuple[list[Suspect], Gate | None]:
    """The fewest suspects, costliest first, that explain enough; none if that takes too many."""
    chosen: list[Suspect] = []
    gate = None
    for suspect in (suspect for suspect in found if suspect.may_be_named):
        chosen.append(suspect)
        if _too_many(times, chosen):
            return [], gate
        share = explained(times, chosen, found)
        gate = Gate("part of the lost time explained", share, MIN_EXPLAINED, share >= MIN_EXPLAINED)
        if gate.passed:
            return chosen, gate
    return [], gate


def _too_many(times: StepTimes, chosen: Sequence[Suspect]) -> bool:
    """Half of a role or more has no peers to be slow against. Between logged communication there may
    be waiting that is not logged: then slow ranks in several roles may be one delay, passed on."""
    for role in {suspect.role for suspect in chosen}:
        slow = {suspect.column for suspect in chosen if suspect.role == role}
        n_ranks = next(len(suspect.columns) for suspect in chosen if suspect.role == role)
        if len(slow) > max(1, (n_ranks - 1) // 2):
            return True
    return times.from_gaps and len({suspect.role for suspect in chosen}) > 1


def _of_ranks(
    times: StepTimes,
    named: Sequence[Suspect],
    found: Sequence[Suspect],
    gate: Gate | None,
    notes: tuple[str, ...],
) -> Verdict:
    first = named[0]
    phase, phase_share = _phase(times, first)
    ranks = tuple(dict.fromkeys(times.ranks[suspect.column] for suspect in named))
    others = [suspect for suspect in found if times.ranks[suspect.column] not in ranks]
    return Verdict(
        verdict="rank",
        ranks=ranks,
        phase=phase,
        labels=first.role,
        window=first.slow.kind,
        **times.span(first.slow.steps)._asdict(),
        score=first.score,
        cost_ms=saved_ms(times, named, found),
        gates=(*first.gates, *((gate,) if gate else ())),
        evidence=(
            *(_sentence(times, suspect) for suspect in named),
            f"{phase} holds {phase_share:.0%} of what rank {ranks[0]} spent beyond its peers.",
            *_passed_on(times, first),
            *(_why_not(times, suspect, gate) for suspect in others[:3]),
            *_few_steps(first),
            *notes,
        ),
    )


def _phase(times: StepTimes, suspect: Suspect) -> tuple[str, float]:
    """The phase with the most time beyond the peers', and its part of all that."""
    steps = suspect.slow.steps
    beyond_ms = []
    for phase_ms in times.phase_ms[:, :, suspect.columns]:
        beyond = phase_ms[steps, suspect.slow.column] - peer_medians(phase_ms)[steps, suspect.slow.column]
        beyond_ms.append(float(np.nansum(beyond)))
    most = int(np.argmax(beyond_ms))
    total = sum(max(0.0, ms) for ms in beyond_ms)
    return times.phases[most], beyond_ms[most] / total if total > 0 else float("nan")


# -- sentences -----------------------------------------------------------------------------------


def _sentence(times: StepTimes, suspect: Suspect) -> str:
    steps = suspect.slow.steps
    return (
        f"Rank {times.ranks[suspect.column]}: {np.exp(suspect.slow.level):.2f} times the median of its "
        f"peers ({suspect.slow.kind}, {times.span(steps).in_words()}, {len(steps)} slow steps)."
    )


def _why_not(times: StepTimes, suspect: Suspect, last_gate: Gate | None) -> str:
    failed = [gate for gate in suspect.gates if not gate.passed]
    if not failed and last_gate is not None and last_gate.passed:
        return f"{_sentence(times, suspect)} Without it {last_gate.value:.0%} of the lost time is explained."
    failed = failed or ([last_gate] if last_gate else [])
    reasons = "; ".join(f"{gate.name} {gate.value:.2f}, not {gate.bound:.2f}" for gate in failed)
    return f"{_sentence(times, suspect)} Not named: {reasons}." if reasons else _sentence(times, suspect)


def _passed_on(times: StepTimes, suspect: Suspect) -> tuple[str, ...]:
    """Who arrives last without being slow passes on the delay of somebody else."""
    waits = times.waits.own_ms[suspect.slow.steps]
    is_last = (waits == 0).mean(axis=0)
    levels = column_medians(times.self_ms[suspect.slow.steps])
    own = levels[suspect.column]
    late = [i for i in np.flatnonzero(is_last >= 0.5) if i != suspect.column and levels[i] < own]
    if not late:
        return ()
    names = ", ".join(str(times.ranks[i]) for i in late[:5])
    return (f"Often the last to arrive, but not slow themselves, so passing on a delay: {names}.",)


def _few_steps(suspect: Suspect) -> tuple[str, ...]:
    n_steps = len(suspect.slow.steps)
    steps_gate = next(gate for gate in suspect.gates if gate.name == "steps")
    return () if steps_gate.bound >= 20 else (f"Only {n_steps} steps are recorded: all that there are.",)


def _few_steps_in_all(times: StepTimes) -> tuple[str, ...]:
    n_steps = int((~np.isnan(times.self_ms)).any(axis=1).sum())
    if not 0 < n_steps < MIN_STEPS:
        return ()
    return (f"Only {n_steps} steps are recorded: a rank that is a little slow would not be seen.",)


def _what_it_rests_on(times: StepTimes, roles: Mapping[int, str]) -> tuple[str, ...]:
    source = (
        "Self time is the time between communication: rows of own work are missing or cover too little of it."
        if times.from_gaps
        else f"Self time is that of the rows of own work: {', '.join(times.phases) or 'there are none'}."
    )
    alone = [role for role, columns in members(times.ranks, roles).items() if len(columns) == 1]
    notes = [source, *_unknown_ranks(times)]
    if len(times.ranks) > 1 and alone:
        notes.append(f"Only one rank each has the role {'; '.join(alone[:5])}: no peers to compare it with.")
    if len(times.ranks) == 1:
        notes.append("Only one rank is recorded: nobody to compare it with.")
    if len(times.ranks) == 2 and not alone:
        notes.append("Two ranks: compared by their ratio, since one peer has no spread.")
    if not times.has_iterations:
        notes.append("No iteration is recorded: the n-th rows of each operation and layer count as step n.")
    if times.numbering.counted:
        notes.append(
            "Iterations fall back and no epoch tells them apart: each time begins an epoch, counted."
        )
    return tuple(notes)


def _unknown_ranks(times: StepTimes) -> tuple[str, ...]:
    """Nothing known is not the same as nothing wrong."""
    unknown = [rank for i, rank in enumerate(times.ranks) if np.isnan(times.self_ms[:, i]).all()]
    if not unknown:
        return ()
    ranks = ", ".join(map(str, unknown[:5])) + (", ..." if len(unknown) > 5 else "")
    return (f"No step of rank {ranks} has a self time that is known: nothing is said of it.",)

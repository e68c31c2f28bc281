"""Find what makes ranks slow as one: their host, or that they wait for each other in something not logged.

The times of ranks that wait for each other in each step vary together in every step. The times of ranks that
a common cause delays now and then, such as the storage of their host, vary together only then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.who.lockstep import as_slow, variances
from timing_logger.analysis.stragglers.who.party import Bond, Party
from timing_logger.analysis.stragglers.who.phase import phase_of
from timing_logger.analysis.tables import Floats, Ints, known

_MOST_OTHERS = 8  # a few ranks show how far two apart vary, however many there are


def bond_of(case: Case, party: Party) -> Bond:
    """Return what makes the ranks of a party slow as one, as far as the rows and the hosts tell."""
    if party.is_alone:
        return Bond()
    together, columns = vary_together(case, party), party.columns
    mine = {host: len(its) for host, its in case.by_host.items() if np.isin(its, columns).any()}
    host, of_host = next(iter(mine.items())) if len(mine) == 1 < len(case.by_host) else ("", 0)
    bond = Bond("something", len(mine), host, of_host, together)
    if together is None:
        return bond
    if mine and together:
        return replace(bond, kind="waiting")
    enough = len(columns) >= case.policy.min_host_share * of_host
    if not (host and enough and np.array_equal(as_slow(case, party.first), columns)):
        return bond
    return replace(bond, kind="host" if len(columns) == of_host else "part of host")


def vary_together(case: Case, party: Party) -> bool | None:
    """Tell whether the times of a party's ranks vary together also where these are not slow; None if unknown.

    Looked at is the phase in which they are slow; all of its steps if they always are. If ranks of the other
    hosts vary by themselves, it is not how the job works that ties these, and their times may vary together
    because what delays them all does so more or less in every step.
    """
    times, policy, columns = case.times, case.policy, np.array(party.columns)
    phase, _ = phase_of(times, party.first)
    phase_ms = times.phase_ms[times.phases.index(phase)]
    logs = np.log(np.where(phase_ms > 0, phase_ms, np.nan))
    found = _likeness(case, np.delete(logs, party.first.slow.steps, axis=0), columns)
    found = _likeness(case, logs, columns) if np.isnan(found) else found
    if found < policy.max_apart_correlation:
        return False
    elsewhere = known(np.array([_likeness(case, logs, its) for its in _other_hosts(case, columns)]))
    is_of_job = not len(elsewhere) or np.median(elsewhere) >= policy.max_apart_correlation
    return True if found >= policy.min_lockstep_correlation and is_of_job else None


def _other_hosts(case: Case, columns: Ints) -> Iterator[Ints]:
    for its in case.by_host.values():
        if len(its) > 1 and not np.isin(its, columns).any():
            yield its


def _likeness(case: Case, logs: Floats, columns: Ints) -> float:
    """Return by how much less two of these ranks differ from step to step than one of them and another rank.

    What all ranks have in common, such as long steps, does not count. It is 1 for ranks that are always
    equal, and about 0 for those that have nothing in common; NaN if too little is known.

    Args:
        case: the run to be judged.
        logs: the logarithm of the times, steps x ranks.
        columns: the ranks.
    """
    others = _others(case, columns)
    within = _spread(case, logs, columns, np.roll(columns, 1))
    across = _spread(case, logs, np.repeat(columns, len(others)), np.tile(others, len(columns)))
    return 1 - within / across if across > 0 else float("nan")


def _others(case: Case, columns: Ints) -> Ints:
    """Return some ranks of the same roles that are none of these."""
    alike = [its for its in case.by_role.values() if np.isin(its, columns).any()]
    others = np.setdiff1d(np.concatenate(alike), columns)
    return others[np.linspace(0, len(others) - 1, min(len(others), _MOST_OTHERS)).astype(np.int64)]


def _spread(case: Case, logs: Floats, ones: Ints, others: Ints) -> float:
    """Return the variance of how two ranks differ, by its changes between steps; the median of the pairs."""
    apart = np.diff(logs[:, ones] - logs[:, others], axis=0)
    enough = (~np.isnan(apart)).sum(axis=0) >= case.policy.min_lockstep_steps
    found = variances(apart[:, enough])
    return float(np.median(found)) if len(found) else float("nan")

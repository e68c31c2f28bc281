"""Find ranks that act as one: they are slow in the same steps by the same amount.

Where tensor-parallel ranks reduce inside their forward pass, and this is not logged, all ranks of a group are
as slow as the slowest of it. Their times then rise and fall together from step to step, as do those of ranks
that stall together. The times of ranks that are slow for separate reasons do not. ``bonds.py`` tells the one
from the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from timing_logger.analysis.stragglers.case import Case
from timing_logger.analysis.stragglers.policy import Policy
from timing_logger.analysis.stragglers.slow.candidate import Candidate
from timing_logger.analysis.stragglers.slow.noise import MAD_TO_SIGMA
from timing_logger.analysis.stragglers.slow.peers import column_medians, log_ratios, peer_medians
from timing_logger.analysis.stragglers.who.party import Party
from timing_logger.analysis.tables import Floats, Ints


def parties(case: Case, found: Sequence[Candidate]) -> list[Party]:
    """Group each candidate with the ranks that it is in lockstep with.

    Args:
        case: the run to be judged.
        found: the candidates, the costliest first.

    Returns:
        The parties, in the order of their first candidates.
    """
    parted: list[Party] = []
    taken: set[int] = set()  # positions of candidates that are in the party of another
    ratios, least = _all_ratios(case), case.policy.min_shared_steps_share
    for at, candidate in enumerate(found):
        if at in taken:
            continue
        partners = _partners(ratios, candidate, case.policy) if candidate.may_be_suspected else []
        others = [i for i in range(at + 1, len(found)) if found[i].column in partners] if partners else []
        taken |= {i for i in others if _shared_steps(candidate, found[i]) >= least}
        parted.append(Party((candidate, *(_stand_in(candidate, column) for column in partners))))
    return parted


def _shared_steps(candidate: Candidate, other: Candidate) -> float:
    """Return which part of the slow steps of ``other`` are slow steps of the candidate."""
    return len(np.intersect1d(candidate.slow.steps, other.slow.steps)) / len(other.slow.steps)


def _stand_in(candidate: Candidate, column: int) -> Candidate:
    return replace(candidate, column=column)


def _partners(ratios: Floats, candidate: Candidate, policy: Policy) -> list[int]:
    """Return the columns of ranks of any role that are as slow as the candidate, and vary with it.

    Args:
        ratios: as :func:`_all_ratios` returns them.
        candidate: whose partners are looked for.
        policy: the numbers that decide.
    """
    alike = _as_slow(ratios, candidate, policy)
    at = int(np.searchsorted(alike, candidate.column))
    together = (
        correlations(ratios[:, alike], at, policy.min_lockstep_steps) >= policy.min_lockstep_correlation
    )
    return [int(column) for column in alike[together] if column != candidate.column]


def as_slow(case: Case, candidate: Candidate) -> Ints:
    """Return the columns of a candidate and the ranks of any role that are as slow where it is slow."""
    return _as_slow(_all_ratios(case), candidate, case.policy)


def _as_slow(ratios: Floats, candidate: Candidate, policy: Policy) -> Ints:
    levels = column_medians(ratios[candidate.slow.steps])
    own = levels[candidate.column]
    return np.flatnonzero(np.minimum(levels, own) >= policy.min_level_ratio * np.maximum(levels, own))


def _all_ratios(case: Case) -> Floats:
    """Return log(time / median of the rank's own peers), steps x ranks."""
    ratios = np.full(case.times.self_ms.shape, np.nan)
    for columns in case.by_role.values():
        own_ms = case.times.self_ms[:, columns]
        ratios[:, columns] = log_ratios(own_ms, peer_medians(own_ms))
    return ratios


def correlations(series: Floats, column: int, min_known: int) -> Floats:
    """Return the correlation of each column with a given one, from their differences between steps.

    It is computed from robust spreads, 1 - var(x - y) / (var(x) + var(y)). Differences do not depend on the
    level of a rank. The correlation is 0 where too little is known or nothing varies.

    Args:
        series: steps x ranks; NaN where unknown.
        column: the column that the others are compared with.
        min_known: the least number of known differences between steps.
    """
    differences = np.diff(series, axis=0)
    mine = differences[:, [column]]
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = variances(differences - mine)
        together = variances(np.where(np.isnan(mine), np.nan, differences)) + variances(
            np.where(np.isnan(differences), np.nan, mine)
        )
        found = 1 - apart / together
    known = (~np.isnan(differences - mine)).sum(axis=0)
    return np.where((known >= min_known) & np.isfinite(found), found, 0.0)


def variances(differences: Floats) -> Floats:
    """Return the robust variance of each column, from its absolute deviations from 0."""
    return (MAD_TO_SIGMA * column_medians(np.abs(differences))) ** 2

"""Find ranks that act as one because they wait for each other in something that is not logged.

Where tensor-parallel ranks reduce inside their forward pass, and this is not logged, all ranks of a group are
as slow as the slowest of it. Their times then rise and fall together from step to step. The times of ranks
that are slow for separate reasons do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.stragglers.candidates import Candidate
from timing_logger.analysis.stragglers.noise import MAD_TO_SIGMA
from timing_logger.analysis.stragglers.peers import column_medians, log_ratios, members, peer_medians
from timing_logger.analysis.stragglers.step_times import StepTimes
from timing_logger.analysis.tables import Floats

MIN_LOCKSTEP = 0.75
"""The least correlation from step to step at which two ranks are taken to wait for each other."""

MIN_SAME_LEVEL = 0.75
"""The least ratio of the levels of two ranks that wait for each other, as they are equally slow."""

_MIN_STEPS = 5
"""The least number of known differences between steps; in fewer, two ranks may look alike by chance."""


class Party(NamedTuple):
    """A candidate, or several that cannot be told apart and count as one.

    Attributes:
        candidates: one for each rank, the costliest first.
    """

    candidates: tuple[Candidate, ...]

    @property
    def first(self) -> Candidate:
        """The costliest candidate, which the others are in lockstep with."""
        return self.candidates[0]

    @property
    def is_alone(self) -> bool:
        """Whether the party has only one candidate."""
        return len(self.candidates) == 1

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns of the party's ranks, ascending."""
        return tuple(sorted(candidate.column for candidate in self.candidates))


def parties(times: StepTimes, roles: Mapping[int, str], found: Sequence[Candidate]) -> list[Party]:
    """Group each candidate with the ranks that it is in lockstep with.

    Args:
        times: the times of the run.
        roles: the role of each rank.
        found: the candidates, the costliest first.

    Returns:
        The parties, in the order of their first candidates.
    """
    parted: list[Party] = []
    taken: set[int] = set()  # positions of candidates that are in the party of another
    ratios = _all_ratios(times, roles)
    for at, candidate in enumerate(found):
        if at in taken:
            continue
        partners = _partners(ratios, candidate) if candidate.may_be_suspected else []
        others = [i for i in range(at + 1, len(found)) if found[i].column in partners] if partners else []
        taken |= {i for i in others if _in_same_steps(candidate, found[i])}
        parted.append(Party((candidate, *(_stand_in(candidate, column) for column in partners))))
    return parted


def _in_same_steps(candidate: Candidate, other: Candidate) -> bool:
    """Tell whether half of the slow steps of ``other`` are slow steps of the candidate."""
    shared = np.intersect1d(candidate.slow.steps, other.slow.steps)
    return 2 * len(shared) >= len(other.slow.steps)


def _stand_in(candidate: Candidate, column: int) -> Candidate:
    return replace(candidate, column=column)


def _partners(ratios: Floats, candidate: Candidate) -> list[int]:
    """Return the columns of ranks of any role that are as slow as the candidate, and vary with it.

    Args:
        ratios: as :func:`_all_ratios` returns them.
        candidate: whose partners are looked for.
    """
    levels = column_medians(ratios[candidate.slow.steps])
    own = levels[candidate.column]
    alike = np.flatnonzero(np.minimum(levels, own) >= MIN_SAME_LEVEL * np.maximum(levels, own))
    correlated = correlations(ratios[:, alike], int(np.searchsorted(alike, candidate.column)))
    return [int(column) for column in alike[correlated >= MIN_LOCKSTEP] if column != candidate.column]


def _all_ratios(times: StepTimes, roles: Mapping[int, str]) -> Floats:
    """Return log(time / median of the rank's own peers), steps x ranks."""
    ratios = np.full(times.self_ms.shape, np.nan)
    for columns in members(times.ranks, roles).values():
        own_ms = times.self_ms[:, columns]
        ratios[:, columns] = log_ratios(own_ms, peer_medians(own_ms))
    return ratios


def correlations(series: Floats, column: int) -> Floats:
    """Return the correlation of each column with a given one, from their differences between steps.

    It is computed from robust spreads, 1 - var(x - y) / (var(x) + var(y)). Differences do not depend on the
    level of a rank. The correlation is 0 where too little is known or nothing varies.

    Args:
        series: steps x ranks; NaN where unknown.
        column: the column that the others are compared with.
    """
    differences = np.diff(series, axis=0)
    mine = differences[:, [column]]
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = _variances(differences - mine)
        together = _variances(np.where(np.isnan(mine), np.nan, differences)) + _variances(
            np.where(np.isnan(differences), np.nan, mine)
        )
        found = 1 - apart / together
    known = (~np.isnan(differences - mine)).sum(axis=0)
    return np.where((known >= _MIN_STEPS) & np.isfinite(found), found, 0.0)


def _variances(differences: Floats) -> Floats:
    return (MAD_TO_SIGMA * column_medians(np.abs(differences))) ** 2

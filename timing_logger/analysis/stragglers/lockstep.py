"""Ranks that act as one, since they wait for each other in something that is not logged.

Where tensor-parallel ranks reduce inside their forward pass, and this is not logged, all of a group are as
slow as the slowest of it. Their times then rise and fall together from step to step, which the noise of ranks
that are slow each for a reason of its own does not.
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
"""The correlation of two ranks from step to step, beyond which they are taken to wait for each other."""

MIN_SAME_LEVEL = 0.75
"""Ranks that wait for each other are slow by the same amount: at least this part of each other's."""

_MIN_STEPS = 5
"""In fewer differences between steps two ranks may look alike by chance."""


class Party(NamedTuple):
    """A candidate, or several that are one thing to a verdict.

    Attributes:
        candidates: the costliest first; one for each rank.
    """

    candidates: tuple[Candidate, ...]

    @property
    def first(self) -> Candidate:
        return self.candidates[0]

    @property
    def is_alone(self) -> bool:
        return len(self.candidates) == 1

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted(candidate.column for candidate in self.candidates))


def parties(times: StepTimes, roles: Mapping[int, str], found: Sequence[Candidate]) -> list[Party]:
    """The candidates, each with those with whom it is in lockstep; in their order, the costliest first."""
    parted: list[Party] = []
    taken: set[int] = set()  # of candidates that are in the party of another
    for at, candidate in enumerate(found):
        if at in taken:
            continue
        partners = _partners(times, roles, candidate) if candidate.may_be_suspected else []
        taken |= {i for i, other in enumerate(found) if i > at and _is_same(candidate, other, partners)}
        parted.append(Party((candidate, *(_stand_in(candidate, column) for column in partners))))
    return parted


def _is_same(candidate: Candidate, other: Candidate, partners: Sequence[int]) -> bool:
    """Whether ``other`` is a partner, slow in the same steps."""
    shared = np.intersect1d(candidate.slow.steps, other.slow.steps)
    return other.column in partners and 2 * len(shared) >= len(other.slow.steps)


def _stand_in(candidate: Candidate, column: int) -> Candidate:
    return replace(candidate, column=column)


def _partners(times: StepTimes, roles: Mapping[int, str], candidate: Candidate) -> list[int]:
    """The columns of ranks of any role that are slow with it by the same amount, and vary with it."""
    ratios = _all_ratios(times, roles)
    levels = column_medians(ratios[candidate.slow.steps])
    own = levels[candidate.column]
    alike = np.flatnonzero(np.minimum(levels, own) >= MIN_SAME_LEVEL * np.maximum(levels, own))
    correlated = correlations(ratios[:, alike], int(np.searchsorted(alike, candidate.column)))
    return [int(column) for column in alike[correlated >= MIN_LOCKSTEP] if column != candidate.column]


def _all_ratios(times: StepTimes, roles: Mapping[int, str]) -> Floats:
    """log(time / median of its own peers), steps x ranks."""
    ratios = np.full(times.self_ms.shape, np.nan)
    for columns in members(times.ranks, roles).values():
        own_ms = times.self_ms[:, columns]
        ratios[:, columns] = log_ratios(own_ms, peer_medians(own_ms))
    return ratios


def correlations(series: Floats, column: int) -> Floats:
    """Of each column's differences between steps with those of one of them, as robust spreads tell it.

    Differences know of no level. 0 where too little is known or nothing varies.
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

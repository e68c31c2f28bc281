"""Score each rank and phase against the rank's peers, and against its own past."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.series.peers import column_medians, relative_scores
from timing_logger.analysis.stragglers.case import Judgement
from timing_logger.analysis.stragglers.policy import STANDARD, Policy
from timing_logger.analysis.stragglers.verdict import judgement_of
from timing_logger.analysis.stragglers.windows import phases_of
from timing_logger.analysis.tables import Floats, Schema, like, opened

_SCHEMA: Schema = {
    "rank": nw.Int64, "phase": nw.String, "labels": nw.String, "steps": nw.Int64, "median_ms": nw.Float64,
    "score": nw.Float64, "individual_score": nw.Float64, "flagged": nw.Boolean,
}  # fmt: skip


def scores(
    timings: IntoDataFrameT, *, roles: Mapping[int, object] | None = None, policy: Policy = STANDARD
) -> IntoDataFrameT:
    """Score each rank against its peers and against its own past, for each phase.

    Args:
        timings: as ``read_timings`` returns.
        roles: the role of each rank, see :func:`timing_logger.analysis.stragglers`.
        policy: the numbers that decide: ``min_past_steps`` are the 20 steps below, ``flagged_score`` 0.75.

    Returns:
        One row for each phase and rank; ``SELF_TIME``, all phases together, comes first.

    Columns:
        rank, phase, labels: as :func:`timing_logger.analysis.windows` has them.
        steps: number of steps in which the time is known.
        median_ms: median of the time over these steps.
        score: relative score, the least median of the role divided by the rank's own, in (0, 1]; NaN if
            the ranks look like those of different runs.
        individual_score: the least median of 20 successive steps in the past divided by that of the last
            20; above 1 if the rank is quicker than ever. NaN with fewer than 40 steps.
        flagged: whether either score is below 0.75.
    """
    return scores_of(judgement_of(timings, roles, policy=policy), opened(timings, COLUMNS_OF["stragglers"]))


def scores_of(judgement: Judgement, frame: nw.DataFrame[IntoDataFrameT]) -> IntoDataFrameT:
    """Compute :func:`scores` from the times of a judgement, in the library of ``frame``."""
    case, times, are_comparable = judgement.case, judgement.case.times, judgement.are_comparable
    found = [
        (times.ranks[column], phase, role, *row)
        for phase, phase_ms in phases_of(times)
        for role, columns in case.by_role.items()
        for column, row in zip(columns, _rows(phase_ms[:, columns], are_comparable, case.policy), strict=True)
    ]
    return like(frame, _SCHEMA, found)


def _rows(phase_ms: Floats, are_comparable: bool, policy: Policy) -> Iterator[tuple[object, ...]]:
    medians, bad = column_medians(phase_ms), policy.flagged_score
    relative = relative_scores(phase_ms) if are_comparable else np.full(len(medians), np.nan)
    for own_ms, median_ms, score in zip(phase_ms.T, medians, relative, strict=True):
        own_ms = own_ms[~np.isnan(own_ms)]
        individual = individual_score(own_ms, policy.min_past_steps)
        flagged = bool(score < bad or individual < bad)
        yield len(own_ms), float(median_ms), float(score), individual, flagged


def individual_score(own_ms: Floats, n_steps: int) -> float:
    """Divide the best past median by the current median, each of ``n_steps`` successive steps.

    Args:
        own_ms: the known times of one rank in ms, in the order of steps.
        n_steps: the number of steps of a median.

    Returns:
        The score; NaN if there are fewer than twice ``n_steps`` steps.
    """
    past, current = own_ms[:-n_steps], own_ms[-n_steps:]
    n_blocks = len(past) // n_steps
    if not n_blocks or not np.median(current) > 0:
        return float("nan")
    blocks = past[len(past) - n_blocks * n_steps :].reshape(n_blocks, n_steps)
    return float(np.median(blocks, axis=1).min() / np.median(current))

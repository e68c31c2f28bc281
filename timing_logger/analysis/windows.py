"""When is a rank slower than its peers? Windows of iterations, per rank and phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis._frames import Floats, Frame, like, opened
from timing_logger.analysis._peers import log_ratios, members, peer_medians, relative_scores
from timing_logger.analysis._roles import roles_of
from timing_logger.analysis._self_time import Integers
from timing_logger.analysis._slow_steps import slow_steps
from timing_logger.analysis._step_times import StepTimes, step_times
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.stragglers import judged
from timing_logger.analysis.verdict import Verdict

SELF_TIME = "SELF_TIME"
"""Stands for all phases of a rank together: what it spent on its own account."""

_SCHEMA = {
    "rank": nw.Int64, "phase": nw.String, "labels": nw.String, "kind": nw.String,
    "first_iteration": nw.Int64, "last_iteration": nw.Int64, "iterations": nw.Int64,
    "ratio": nw.Float64, "score": nw.Float64, "cost_ms": nw.Float64,
}  # fmt: skip


def windows(timings: IntoDataFrameT, *, roles: Mapping[int, Any] | None = None) -> IntoDataFrameT:
    """One row for each stretch of iterations in which a rank was slower than its peers; the costliest first.

    A stretch lies between change points of log(rank / peer median) and lasts 3 steps or more; single
    slow steps are a window only if a rank has far more of them than its peers. Nothing is removed as
    an outlier before. The ranks of one role are each other's peers; one alone in its role has none.

    Args:
        timings: as ``read_timings`` returns.
        roles: the role of each rank, see :func:`timing_logger.analysis.stragglers`.

    Columns:
        rank.
        phase: an operation of the rank's own work; ``UNLOGGED`` for time without any row; or
            ``SELF_TIME`` for all of them together.
        labels: the role of the rank, "" if none is stated.
        kind: ``persistent``; ``ongoing``, still slow at the end; ``bounded``; ``intermittent``.
        first_iteration, last_iteration: of the slow steps; counted steps where no iteration is recorded.
        iterations: how many slow steps are recorded.
        ratio: the median over these of the rank's time by the median of its peers in the same step.
        score: least median time of the role in these steps by that of the rank; below 0.75 is bad.
        cost_ms: what the rank spent in these steps beyond the median of its peers, in sum.
    """
    return cast("IntoDataFrameT", stragglers_and_windows(timings, roles=roles).windows)


class StragglersAndWindows(NamedTuple):
    """Two answers that stand on the same times.

    Attributes:
        verdict: as ``stragglers`` returns.
        windows: as :func:`windows` returns, a table in the library of the timings.
    """

    verdict: Verdict
    windows: Any


def stragglers_and_windows(
    timings: IntoDataFrameT, *, roles: Mapping[int, Any] | None = None
) -> StragglersAndWindows:
    """Both at the cost of one; the arguments are those of either."""
    times = step_times(timings)
    frame = opened(timings, COLUMNS_OF["stragglers"])
    return judged_with_windows(times, roles_of(timings, times.ranks, roles), frame)


def judged_with_windows(times: StepTimes, role_of: Mapping[int, str], frame: Frame) -> StragglersAndWindows:
    """Both answers on these times, the windows in the library of ``frame``."""
    times, verdict = judged(times, role_of)
    found = [
        row
        for role, columns in members(times.ranks, role_of).items()
        for phase, phase_ms in phases_of(times)
        for row in _rows(times, phase, phase_ms[:, columns], columns, role)
    ]
    table = like(frame, _SCHEMA, sorted(found, key=lambda row: (-row[-1], row)))
    return StragglersAndWindows(verdict, table)


def phases_of(times: StepTimes) -> Iterator[tuple[str, Floats]]:
    """The name and the times (steps x ranks) of each phase, beginning with all of them together."""
    yield SELF_TIME, times.self_ms
    yield from zip(times.phases, times.phase_ms, strict=True)


def _rows(
    times: StepTimes, phase: str, phase_ms: Floats, columns: Integers, role: str
) -> Iterator[tuple[Any, ...]]:
    baseline = peer_medians(phase_ms)
    for slow in slow_steps(log_ratios(phase_ms, baseline)):
        own_ms, peers_ms = phase_ms[slow.steps, slow.column], baseline[slow.steps, slow.column]
        iterations = times.iterations[slow.steps]
        yield (
            times.ranks[columns[slow.column]], phase, role, slow.kind,
            int(iterations[0]), int(iterations[-1]), len(iterations), float(np.exp(slow.level)),
            float(relative_scores(phase_ms[slow.steps])[slow.column]),
            float(np.maximum(own_ms - peers_ms, 0.0).sum()),
        )  # fmt: skip

"""Tables beside the verdict: when each rank was slower than its peers, by operation, and how it scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.accounting.part import map_own_stretches
from timing_logger.analysis.hangs.diagnosis import run_end_of
from timing_logger.analysis.rows.analysis import COLUMNS_OF, ByProcess
from timing_logger.analysis.rows.arrays import Floats, Frame, Ints, Schema
from timing_logger.analysis.rows.tables import like, nullable_integers, of_pandas, opened
from timing_logger.analysis.step_times.peers import column_medians, log_ratios, peer_medians, relative_scores
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Case, Judgement
from timing_logger.analysis.verdict.causes.search import HostCounters, given
from timing_logger.analysis.verdict.overview import (
    OVERVIEW,
    Summary,
    SummaryPart,
    map_summary,
    reduce_summary,
)
from timing_logger.analysis.verdict.typical_step import NO_STEP, StepOfRanks, typical_step
from timing_logger.analysis.verdict.verdict import (
    JudgementPart,
    map_judgement,
    reduce_judgement,
)
from timing_logger.analysis.verdict.who.slow_steps import slow_steps
from timing_logger.results.plain import StepRange
from timing_logger.results.policy import STANDARD, Policy
from timing_logger.results.verdict import Verdict

SELF_TIME = "SELF_TIME"
"""The name for all operations of a rank together: the time that it spent on its own account."""

_OF_WINDOWS: Schema = {
    "rank": nw.Int64, "operation": nw.String, "labels": nw.String, "kind": nw.String,
    "first_iteration": nw.Int64, "last_iteration": nw.Int64, "iterations": nw.Int64,
    "ratio": nw.Float64, "score": nw.Float64, "excess_ms": nw.Float64,
}  # fmt: skip


def windows(
    timings: IntoDataFrameT, *, roles: Mapping[int, object] | None = None, policy: Policy = STANDARD
) -> IntoDataFrameT:
    """Find the windows of iterations in which a rank was slower than its peers.

    A window lies between change points of log(rank / peer median) and lasts 3 steps or more; single
    slow steps are a window only if a rank has far more of them than its peers. No outliers are removed
    before. The ranks of one role are each other's peers. A rank that is alone in its role has no peers, and
    ranks of different runs are not peers: there are no windows then.

    Args:
        timings: as ``read_timings`` returns.
        roles: the role of each rank, see :func:`timing_logger.analysis.verdict`.
        policy: the numbers that decide.

    Returns:
        One row for each window, that of the greatest excess first.

    Columns:
        rank.
        operation: an operation of the rank's own work; ``UNLOGGED`` for time without any row; or
            ``SELF_TIME`` for all of them together.
        labels: the role of the rank, "" if none is stated.
        kind: ``persistent``; ``ongoing``, still slow at the end; ``bounded``; ``intermittent``.
        first_iteration, last_iteration: of the slow steps; counted steps where no iteration is recorded.
        first_epoch, last_epoch: epochs of these two iterations; only where iterations restart.
        iterations: number of slow steps that are recorded.
        ratio: median over the slow steps of the rank's time divided by the median of its peers in the same
            step.
        score: least median time of the role in the slow steps divided by that of the rank; below 0.75 is
            bad.
        excess_ms: sum of the time that the rank spent in the slow steps beyond the median of its peers. It is
            no cost: how much longer the run takes for it, the verdict tells.
    """
    return cast("IntoDataFrameT", stragglers_and_windows(timings, roles=roles, policy=policy).windows)


class StragglersAndWindows(NamedTuple):
    """The verdict on a run and its windows, computed from the same times.

    Attributes:
        verdict: as ``stragglers`` returns.
        windows: as :func:`windows` returns, a table in the library of the timings.
    """

    verdict: Verdict
    windows: Any


def stragglers_and_windows(
    timings: IntoDataFrameT,
    *,
    roles: Mapping[int, object] | None = None,
    policy: Policy = STANDARD,
    host: pd.DataFrame | None = None,
) -> StragglersAndWindows:
    """Compute ``stragglers`` and :func:`windows` at the cost of one of them, with the same arguments."""
    frame = opened(timings, COLUMNS_OF["stragglers"])
    judgement = reduce_judgement([map_judgement(timings)], roles, policy=policy, host=given(host))
    return verdict_and_windows(judgement, frame)


def verdict_and_windows(judgement: Judgement, frame: Frame) -> StragglersAndWindows:
    """Return the verdict and the windows of a judgement, the windows in the library of ``frame``."""
    case, verdict, are_comparable, _ = judgement
    times = case.times
    found = [
        window
        for role, columns in case.by_role.items()
        for operation, operation_ms in (operations_of(times) if are_comparable else ())
        for window in _rows(case, operation, operation_ms[:, columns], columns, role)
    ]
    found.sort(key=lambda window: (-window[0][-1], window[0]))
    table = like(frame, _OF_WINDOWS, [figures for figures, _ in found])
    if times.numbering.restarts:
        table = _with_epochs(table, [span for _, span in found])
    return StragglersAndWindows(verdict, table)


def _with_epochs(table: IntoDataFrameT, spans: Sequence[StepRange]) -> IntoDataFrameT:
    frame = nw.from_native(table, eager_only=True)
    epochs = np.array([span[2:] for span in spans], np.float64).reshape(-1, 2)
    first, last = (
        nullable_integers(frame, name, values)
        for name, values in zip(("first_epoch", "last_epoch"), epochs.T, strict=True)
    )
    before = list(_OF_WINDOWS)[: list(_OF_WINDOWS).index("iterations")]
    columns = [*before, "first_epoch", "last_epoch", *list(_OF_WINDOWS)[len(before) :]]
    return frame.with_columns(first, last).select(*columns).to_native()


def operations_of(times: StepTimes) -> Iterator[tuple[str, Floats]]:
    """Yield name and times in ms (steps x ranks) of each operation, first of all operations together."""
    yield SELF_TIME, times.self_ms
    yield from zip(times.operations, times.operation_ms, strict=True)


_Figures: TypeAlias = tuple[int, str, str, str, int | None, int | None, int, float, float, float]
"""A row of the table of windows, as ``_OF_WINDOWS`` says."""


def _rows(
    case: Case, operation: str, operation_ms: Floats, columns: Ints, role: str
) -> Iterator[tuple[_Figures, StepRange]]:
    """Yield a row for each window, and the range of its steps."""
    times, baseline = case.times, peer_medians(operation_ms)
    for slow in slow_steps(log_ratios(operation_ms, baseline), case.policy):
        own_ms, peers_ms = operation_ms[slow.steps, slow.column], baseline[slow.steps, slow.column]
        span = times.step_range(slow.steps)
        figures = (
            times.ranks[columns[slow.column]], operation, role, slow.kind,
            span.first_iteration, span.last_iteration, len(slow.steps), float(np.exp(slow.level)),
            float(relative_scores(operation_ms[slow.steps])[slow.column]),
            float(np.maximum(own_ms - peers_ms, 0.0).sum()),
        )  # fmt: skip
        yield figures, span


def _reduce(
    parts: Sequence[JudgementPart],
    *,
    roles: Mapping[int, object] | None = None,
    policy: Policy = STANDARD,
    host: HostCounters | None = None,
) -> StragglersAndWindows:
    return verdict_and_windows(reduce_judgement(parts, roles, policy=policy, host=host), of_pandas())


STRAGGLERS = ByProcess(COLUMNS_OF["stragglers"], map_judgement, _reduce, row_bytes=800)
"""The analysis :func:`stragglers_and_windows` in parts."""


def stragglers_beside(host: HostCounters) -> ByProcess[JudgementPart, StragglersAndWindows]:
    """Return the same analysis of a run of which host counters can be read."""
    return replace(STRAGGLERS, reduce=partial(_reduce, host=host))


# -- scores ----------------------------------------------------------------------------------------------

_OF_SCORES: Schema = {
    "rank": nw.Int64, "operation": nw.String, "labels": nw.String, "steps": nw.Int64, "median_ms": nw.Float64,
    "score": nw.Float64, "individual_score": nw.Float64, "flagged": nw.Boolean,
}  # fmt: skip


def scores(
    timings: IntoDataFrameT, *, roles: Mapping[int, object] | None = None, policy: Policy = STANDARD
) -> IntoDataFrameT:
    """Score each rank against its peers and against its own past, for each operation.

    Args:
        timings: as ``read_timings`` returns.
        roles: the role of each rank, see :func:`timing_logger.analysis.verdict`.
        policy: the numbers that decide: ``min_past_steps`` are the 20 steps below, ``flagged_score`` 0.75.

    Returns:
        One row for each operation and rank; ``SELF_TIME``, all operations together, comes first.

    Columns:
        rank, operation, labels: as :func:`timing_logger.analysis.windows` has them.
        steps: number of steps in which the time is known.
        median_ms: median of the time over these steps.
        score: relative score, the least median of the role divided by the rank's own, in (0, 1]; NaN if
            the ranks look like those of different runs.
        individual_score: the least median of 20 successive steps in the past divided by that of the last
            20; above 1 if the rank is quicker than ever. NaN with fewer than 40 steps.
        flagged: whether either score is below 0.75.
    """
    judgement = reduce_judgement([map_judgement(timings)], roles, policy=policy)
    return scores_of(judgement, opened(timings, COLUMNS_OF["stragglers"]))


def scores_of(judgement: Judgement, frame: nw.DataFrame[IntoDataFrameT]) -> IntoDataFrameT:
    """Compute :func:`scores` from the times of a judgement, in the library of ``frame``."""
    case, times = judgement.case, judgement.case.times
    found = [
        (times.ranks[column], operation, role, *row)
        for operation, operation_ms in operations_of(times)
        for role, columns in case.by_role.items()
        for column, row in zip(columns, _score_rows(operation_ms[:, columns], judgement), strict=True)
    ]
    return like(frame, _OF_SCORES, found)


def _score_rows(operation_ms: Floats, judgement: Judgement) -> Iterator[tuple[object, ...]]:
    policy = judgement.case.policy
    medians, bad = column_medians(operation_ms), policy.flagged_score
    relative = relative_scores(operation_ms) if judgement.are_comparable else np.full(len(medians), np.nan)
    for own_ms, median_ms, score in zip(operation_ms.T, medians, relative, strict=True):
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


def account_of_step(timings: IntoDataFrameT, iteration: int | None = None) -> IntoDataFrameT:
    """Account for each instant of one step, by default of a typical one of those in which time is lost.

    It is the account that :func:`timing_logger.analysis.account` sums, stretch by stretch: the ranks that the
    verdict names take more time than their peers in their slow steps, and half of that in steps that take
    less than the one chosen. Where it names none, the same holds of what the slowest rank of each step takes
    beyond the typical one; of a healthy run, a step of median length is chosen.

    Args:
        timings: as ``read_timings`` returns.
        iteration: another step; where iterations restart, its last epoch.

    Returns:
        One row for each stretch of time, by rank and time; the stretches of a rank follow each other without
        a gap. No row if no such step has its begin and end known on two ranks, on one time axis.

    Columns:
        rank, incarnation.
        iteration: that of the step.
        what, operation, waited_for: as in ``account``.
        start_ms, end_ms: when the stretch began and ended, in ms, from when the first rank began the step.
            A rank begins a step when it leaves the last communication of the step before.
    """
    frame = opened(timings, COLUMNS_OF["account"])
    step = typical_step(reduce_judgement([map_judgement(timings)], with_blocked=True), iteration)
    return NO_STEP.table(frame, []) if step is None else step.table(frame, [map_own_stretches(frame)])


class StragglersAndStep(NamedTuple):
    """What ``stragglers_and_windows`` returns, and a typical step."""

    verdict: Verdict
    windows: pd.DataFrame
    step: StepOfRanks | None


def stragglers_and_step(host: HostCounters) -> ByProcess[JudgementPart, StragglersAndStep]:
    """Return the analysis of a run of which host counters can be read."""
    return ByProcess(STRAGGLERS.columns, map_judgement, partial(_judged, host=host), STRAGGLERS.row_bytes)


def _judged(parts: Sequence[JudgementPart], *, host: HostCounters) -> StragglersAndStep:
    judgement = reduce_judgement(parts, host=host, with_blocked=True)
    return StragglersAndStep(*verdict_and_windows(judgement, of_pandas()), typical_step(judgement))


class SummaryAndStep(NamedTuple):
    """What ``overview`` returns, the ranks that the verdict names, and a typical step."""

    summary: Summary
    named: tuple[int, ...]
    step: StepOfRanks | None


class _Part(NamedTuple):
    summary: SummaryPart
    judgement: JudgementPart


def _map(timings: pd.DataFrame) -> _Part:
    judgement = map_judgement(timings, with_account=True)
    return _Part(map_summary(timings, judgement.last, with_account=False), judgement)


def _summarized(parts: Sequence[_Part]) -> SummaryAndStep:
    files = [file for part in parts for file in part.summary.files]
    end = run_end_of([part.summary.last for part in parts], files)
    judgement = reduce_judgement([part.judgement for part in parts], end=end, with_blocked=True)
    summary = reduce_summary([part.summary for part in parts], end, judgement.case.times.account)
    return SummaryAndStep(summary, judgement.verdict.ranks_to_look_at, typical_step(judgement))


SUMMARY_AND_STEP = ByProcess(
    {*COLUMNS_OF["overview"], *COLUMNS_OF["stragglers"]}, _map, _summarized,
    OVERVIEW.row_bytes + STRAGGLERS.row_bytes,
)  # fmt: skip
"""The analysis for both."""

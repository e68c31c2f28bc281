"""Analyses whose reports have the picture of a typical step beside what they tell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.accounting.part import map_own_stretches
from timing_logger.analysis.hangs.diagnosis import run_end_of
from timing_logger.analysis.rows.analysis import COLUMNS_OF, ByProcess
from timing_logger.analysis.rows.tables import of_pandas, opened
from timing_logger.analysis.verdict.causes.search import HostCounters
from timing_logger.analysis.verdict.overview import (
    OVERVIEW,
    Summary,
    SummaryPart,
    map_summary,
    reduce_summary,
)
from timing_logger.analysis.verdict.typical_step import NO_STEP, StepOfRanks, typical_step
from timing_logger.analysis.verdict.verdict import JudgementPart, map_judgement, reduce_judgement
from timing_logger.analysis.verdict.windows import STRAGGLERS, verdict_and_windows
from timing_logger.results.verdict import Verdict


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

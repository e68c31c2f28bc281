"""Analyses whose reports have the picture of a typical step beside what they tell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import pandas as pd

from timing_logger.analysis.analysis import ByProcess
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.hangs.diagnosis import run_end_of
from timing_logger.analysis.ranks.overview import OVERVIEW, Summary, SummaryPart, map_summary, reduce_summary
from timing_logger.analysis.stragglers.coinciding.search import HostCounters
from timing_logger.analysis.stragglers.result import Verdict
from timing_logger.analysis.stragglers.typical_step import StepOfRanks, typical_step
from timing_logger.analysis.stragglers.verdict import JudgementPart, map_judgement, reduce_judgement
from timing_logger.analysis.stragglers.windows import STRAGGLERS, verdict_and_windows
from timing_logger.analysis.tables import of_pandas


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

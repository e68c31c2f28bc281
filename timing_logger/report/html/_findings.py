"""What the analyses say of a run: asked once, drawn several times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from timing_logger.analysis import Summary, Verdict
from timing_logger.analysis.analysis import Analysis
from timing_logger.analysis.collectives.report_parts import COLLECTIVES, Collectives
from timing_logger.analysis.ranks.overlap import OVERLAP
from timing_logger.analysis.ranks.summary import OVERVIEW
from timing_logger.analysis.stragglers.windows import STRAGGLERS
from timing_logger.analysis.tables import opened
from timing_logger.record import COLUMNS
from timing_logger.report.html._timeline import Spans, Timeline, spans_of, timeline_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Processes:
    """What there is to say of ranks by themselves.

    Attributes:
        n_rows: of all of them.
        began: when the first row was recorded, in UTC; NaT if that is not known.
        summary, verdict, windows, overlap: as the analyses return them.
    """

    n_rows: int
    began: Any
    summary: Summary
    verdict: Verdict
    windows: pd.DataFrame
    overlap: pd.DataFrame
    timeline: Timeline


@dataclass(frozen=True)
class Findings(Collectives, Processes):
    """All that a page is drawn from."""

    @classmethod
    def of(cls, timings: pd.DataFrame) -> Findings:
        """Of all rows."""
        attrs = timings.attrs
        timings = opened(timings).to_native()  # with every column, for all that follows
        timings.attrs = attrs
        return cls.joined(PROCESSES.of(timings), COLLECTIVES.of(timings))

    @classmethod
    def joined(cls, processes: Processes, collectives: Collectives) -> Findings:
        return cls(**vars(processes), **vars(collectives))


class _Part(NamedTuple):
    n_rows: int
    began: Any
    overview: Any
    stragglers: Any
    overlap: Any
    spans: Spans


def _part(timings: pd.DataFrame) -> _Part:
    return _Part(
        n_rows=len(timings),
        began=timings["timestamp"].min(),
        overview=OVERVIEW.map(timings),
        stragglers=STRAGGLERS.map(timings),
        overlap=OVERLAP.map(timings),
        spans=spans_of(timings),
    )


def _whole(parts: Sequence[_Part]) -> Processes:
    n_rows, began, overview, stragglers, overlap, spans = map(list, zip(*parts, strict=True))
    del parts
    timeline = timeline_of(spans)
    spans.clear()  # the largest of all that is held
    verdict, windows = STRAGGLERS.reduce(stragglers)
    return Processes(
        n_rows=sum(n_rows),
        began=min((one for one in began if one == one), default=began[0]),
        summary=OVERVIEW.reduce(overview),
        verdict=verdict,
        windows=windows,
        overlap=OVERLAP.reduce(overlap),
        timeline=timeline,
    )


PROCESSES = Analysis(COLUMNS, _part, _whole)
"""What there is to say of ranks by themselves."""

FINDINGS = (PROCESSES, COLLECTIVES)
"""Whose answers are the arguments of ``Findings.joined``."""

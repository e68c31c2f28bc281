"""What the analyses say of a run: asked once, drawn several times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from timing_logger._questions import BlockQuestion, moves_bytes_or_is_work
from timing_logger.analysis import Summary, Verdict
from timing_logger.analysis._frames import opened
from timing_logger.analysis._in_parts import OVERLAP, OVERVIEW, STRAGGLERS, InParts
from timing_logger.analysis._report_parts import COLLECTIVES, LOOKS_AT, Collectives
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
        processes, collectives = _PROCESSES, COLLECTIVES
        attrs = timings.attrs
        timings = opened(timings).to_native()  # with every column, for all that follows
        timings.attrs = attrs
        return cls.joined(
            collectives.whole([collectives.part(timings)]), processes.whole([processes.part(timings)])
        )

    @classmethod
    def joined(cls, collectives: Collectives, processes: Processes) -> Findings:
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
        overview=OVERVIEW.part(timings),
        stragglers=STRAGGLERS.part(timings),
        overlap=OVERLAP.part(timings),
        spans=spans_of(timings),
    )


def _whole(parts: Sequence[_Part]) -> Processes:
    n_rows, began, overview, stragglers, overlap, spans = map(list, zip(*parts, strict=True))
    del parts
    timeline = timeline_of(spans)
    spans.clear()  # the largest of all that is held
    verdict, windows = STRAGGLERS.whole(stragglers)
    return Processes(
        n_rows=sum(n_rows),
        began=min((one for one in began if one == one), default=began[0]),
        summary=OVERVIEW.whole(overview),
        verdict=verdict,
        windows=windows,
        overlap=OVERLAP.whole(overlap),
        timeline=timeline,
    )


_PROCESSES: InParts[_Part, Processes] = InParts(_part, _whole)

FINDINGS = BlockQuestion(COLLECTIVES, LOOKS_AT, moves_bytes_or_is_work, _PROCESSES)
"""The two arguments of ``Findings.joined``."""

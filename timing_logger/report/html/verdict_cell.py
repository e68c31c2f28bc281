"""What a notebook shows of a verdict: its words, the suspects and a typical step, as a page of its own."""

from __future__ import annotations

from timing_logger.report.html._step import StepChart, TimeKinds, step_chart
from timing_logger.report.html._tables import FIRST
from timing_logger.report.html._verdict import suspects_table
from timing_logger.report.html.page import rendered, static_text
from timing_logger.results.plain import ShownStep
from timing_logger.results.verdict import Verdict
from timing_logger.words.verdict import headline, particulars, what_next

_WORDS_PX, _ROW_PX, _STEP_PX, _LANE_PX = 280, 32, 240, 31


def verdict_cell(verdict: Verdict) -> tuple[str, int]:
    """Draw a verdict, with the step that it has: return the page, and its height on a wide screen in pixels.

    Raises:
        ConfigurationError: Jinja2 is not installed.
    """
    chart, legend = _drawn(verdict.step) if verdict.step else (None, [])
    content = {
        "style": static_text("report.css"),
        "kind": verdict.verdict if verdict.judged else "unjudged",
        "headline": headline(verdict),
        "particulars": particulars(verdict),
        "next": what_next(verdict),
        "suspects": suspects_table(verdict, FIRST),
        "step": chart,
        "legend": legend,
    }
    height_px = (
        _WORDS_PX
        + _ROW_PX * len(verdict.suspects[:6])
        + (_STEP_PX + _LANE_PX * len(chart.lanes) if chart else 0)
    )
    return rendered("verdict_cell.html.jinja", content), height_px


def _drawn(step: ShownStep) -> tuple[StepChart, list[tuple[str, str]]]:
    """Return the chart of a step, and what its colours mean."""
    ms = step.stretches["end_ms"] - step.stretches["start_ms"]
    kinds = TimeKinds.of(step.stretches.assign(ms=ms))
    chart = step_chart(step, kinds)
    drawn = {part.kind for lane in chart.lanes for part in lane.parts}
    return chart, [(kind, name) for kind, name in kinds.names.items() if kind in drawn]

"""The page of a comparison: the result of ``compare_runs`` in the template."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from timing_logger.report.html._account import AccountBar, Segment
from timing_logger.report.html._comparison_charts import ChartAxis, forest, runs_chart
from timing_logger.report.html._tables import Table, Tick, table
from timing_logger.report.html.page import AnyPath, rendered, static_text, write_page
from timing_logger.results.comparison import Comparison, CourseOfSide, Courses, Difference
from timing_logger.words.comparison import (
    DIVIDED,
    cause_sentences,
    is_sure,
    of_what,
    sides_sentences,
    signed,
    told_of_comparison,
    unlike_sentences,
    what_differs,
    what_is_counted,
)
from timing_logger.words.units import UNKNOWN, count, size

_NAMES = "these runs", "against"


def write_comparison(found: Comparison, path: AnyPath, *, unusable: Sequence[str] = ()) -> None:
    """Write :func:`comparison_html` to a file, which is replaced if it exists.

    Args:
        found, unusable: as for :func:`comparison_html`.
        path: the file.

    Raises:
        ConfigurationError: Jinja2 is not installed.
        LogPathError: the file cannot be written, or must not be replaced: a folder, a device, a timing file.
            An existing file is then unchanged.
    """
    write_page(comparison_html(found, unusable=unusable), path)


def comparison_html(found: Comparison, *, unusable: Sequence[str] = ()) -> str:
    """Return a comparison as one HTML document without scripts and without references to other documents.

    It contains, in this order: the verdict, what the sides do not have in common and what explains the
    change; the differences with their intervals; the step in the course of the runs; its parts on both sides;
    each run as a point; and tables of everything. The same comparison gives the same text.

    Args:
        found: what ``compare_runs`` returns.
        unusable: what could not be used of a history, in words.

    Raises:
        ConfigurationError: Jinja2 is not installed.
    """
    headline, *further = told_of_comparison(found)
    return rendered(
        "comparison.html.jinja",
        {
            "style": f"{static_text('report.css')}\n{static_text('comparison.css')}",
            "title": _title(found),
            "sides": list(sides_sentences(found)),
            "verdict": found.verdict,
            "headline": headline,
            "further": further,
            "unlike": list(unlike_sentences(found)),
            "unusable": list(unusable),
            "causes": list(cause_sentences(found)),
            "divided": DIVIDED if any(one.does == "divided" for one in found.differences) else "",
            "forest": forest(found),
            "course": course_chart(found, _NAMES),
            "step_parts": step_parts(found, _NAMES),
            "runs": runs_chart(found, _NAMES),
            "differences": differences_table(found),
        },
    )


def _title(found: Comparison) -> str:
    here, against = len(found.here.runs), len(found.against.runs)
    return (
        f"{count(here, 'run')} against {count(against, 'run')}"
        if here == 1
        else f"{here:,} runs against {against:,}"
    )


# -- how long a step was in the course of the runs: a line for each side, and a band over its runs -------


_TOP, _BOTTOM = 12.0, 240.0


class CourseLine(NamedTuple):
    """The line of a side, and the outline of its band: points as SVG has them, in percent and pixels."""

    name: str
    line: str
    band: str


class CourseChart(NamedTuple):
    """The chart.

    Attributes:
        sides: both sides; empty where the runs have no stretches in common.
        x_ticks, y_ticks: the labels of the axes.
        since: where the sides begin to differ otherwise, in percent; None if that is not shown.
        unit: what is counted across: ``iteration``, ``round`` or ``step``.
        width: how many of these a stretch has.
        table: the times of each stretch.
    """

    sides: list[CourseLine]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    since: float | None
    unit: str
    width: int
    table: Table


def course_chart(found: Comparison, names: tuple[str, str]) -> CourseChart:
    """Return the chart of the course of both sides.

    Args:
        found: the comparison.
        names: of both sides.
    """
    courses = found.courses
    if courses is None:
        return CourseChart([], [], [], None, "", 0, table("", [], []))
    middles = [first + (courses.width - 1) / 2 for first in courses.first]
    x = ChartAxis.around([courses.first[0], courses.first[-1] + courses.width - 1], part=0.0)
    sides = courses.here, courses.against
    y = ChartAxis.around([ms for side in sides for ms in (*side.least_ms, *side.most_ms)], _BOTTOM, _TOP)
    lines = [_line(name, side, middles, x, y) for name, side in zip(names, sides, strict=True)]
    since = x.at(found.since.first) if found.since else None
    unit = what_is_counted(found)
    return CourseChart(
        lines, x.ticks(), y.ticks(), since, unit, courses.width, _courses_table(courses, names, unit)
    )


def _line(name: str, side: CourseOfSide, middles: list[float], x: ChartAxis, y: ChartAxis) -> CourseLine:
    across = [x.at(middle) for middle in middles]
    upper, lower = (
        [f"{at:g},{y.at(value):g}" for at, value in zip(across, ms, strict=True)]
        for ms in (side.most_ms, side.least_ms)
    )
    line = " ".join(f"{at:g},{y.at(ms):g}" for at, ms in zip(across, side.median_ms, strict=True))
    return CourseLine(name, line, " ".join([*upper, *reversed(lower)]))


def _courses_table(courses: Courses, names: tuple[str, str], unit: str) -> Table:
    heads = [f"{unit}s", *(f"{name}, {what} ms" for name in names for what in ("median", "least", "most"))]
    rows = []
    for place, first in enumerate(courses.first):
        last = first + courses.width - 1
        sides = [f"{ms[place]:.3f}" for side in (courses.here, courses.against) for ms in side]
        rows.append([f"{first:,}" if first == last else f"{first:,} to {last:,}", *sides])
    return table(f"Median step by stretch of {unit}s, of the runs of each side", heads, rows)


# -- the table of everything that was compared -----------------------------------------------------------


_HEADS = [
    "what", "of", "ms", "against", "change ms", "between", "sure", "rows", "against", "bytes", "against",
    "runs", "against",
]  # fmt: skip


def differences_table(found: Comparison) -> Table:
    """Return the table of all differences, the largest first."""
    caption = "All that was compared, of an average step of an average rank"
    return table(caption, _HEADS, [*map(_row, found.differences)])


def _row(one: Difference) -> list[str]:
    shift = one.shift
    between = _between(shift.low, shift.high)
    return [
        what_differs(one), of_what(one) or UNKNOWN, f"{one.ms:.3f}",
        f"{one.against_ms:.3f}", f"{shift.estimate:+.3f}", between, "yes" if is_sure(one) else UNKNOWN,
        *map(_count, (one.n_rows, one.against_rows)), *map(_bytes, (one.bytes, one.against_bytes)),
        f"{one.n_runs:,}", f"{one.n_against:,}",
    ]  # fmt: skip


def _between(low_ms: float, high_ms: float) -> str:
    return f"{signed(low_ms)} to {signed(high_ms)}" if math.isfinite(low_ms) else UNKNOWN


def _count(n: float) -> str:
    return f"{n:,.3g}" if n else UNKNOWN


def _bytes(n_bytes: float | None) -> str:
    return UNKNOWN if n_bytes is None else size(n_bytes)


# -- the parts of a step of both sides, one bar below the other, on one scale ----------------------------


_KINDS = {
    "own work": "work-0", "not timed": "not-timed", "transfer": "transfer", "waiting": "wait-0",
    "not matched": "not-matched",
}  # fmt: skip
"""The parts in the order in which a bar has them, with the class of their colour."""

_LEAST_SHARE = 0.002


class StepParts(NamedTuple):
    """The chart.

    Attributes:
        bars: one for each side; the last segment of the shorter one has no kind, and is what it lacks.
        legend: the class and the name of each colour.
        table: the times, with the intervals that the verdict goes by.
    """

    bars: list[AccountBar]
    legend: list[tuple[str, str]]
    table: Table


def step_parts(found: Comparison, names: tuple[str, str]) -> StepParts:
    """Return the chart of the parts of a step; without bars where the runs have no account.

    Args:
        found: the comparison.
        names: of both sides.
    """
    parts = {one.operation: one for one in found.differences if one.kind == "account"}
    sides = [
        {name: one.ms if here else one.against_ms for name, one in parts.items()} for here in (True, False)
    ]
    longest_ms = max((sum(side.values()) for side in sides), default=0.0)
    if not longest_ms > 0:
        return StepParts([], [], _parts_table(found, parts))
    bars = [_bar(name, side, longest_ms) for name, side in zip(names, sides, strict=True)]
    drawn = {segment.kind for bar in bars for segment in bar.segments}
    legend = [(kind, name) for name, kind in _KINDS.items() if kind in drawn]
    return StepParts(bars, legend, _parts_table(found, parts))


def _bar(name: str, ms: dict[str, float], longest_ms: float) -> AccountBar:
    segments = [
        Segment(kind, part, round(100 * ms[part] / longest_ms, 3), f"{ms[part]:.2f} ms")
        for part, kind in _KINDS.items()
        if ms.get(part, 0.0) > _LEAST_SHARE * longest_ms
    ]
    lacks = round(100 - sum(segment.length for segment in segments), 3)
    told = ", ".join(f"{segment.name} {segment.time}" for segment in segments)
    filled = [*segments, Segment("", "", lacks, "")] if lacks > 0 else segments
    return AccountBar(name, filled, told)


def _parts_table(found: Comparison, parts: dict[str, Difference]) -> Table:
    judged = {one.part: one for one in found.parts}
    rows = []
    for name in _KINDS:
        if (one := parts.get(name)) is None:
            continue
        part = judged.get(name)
        between = _between(part.low_ms, part.high_ms) if part else UNKNOWN
        sure = "yes" if part and part.is_shown else UNKNOWN
        rows.append(
            [name, f"{one.ms:.2f}", f"{one.against_ms:.2f}", f"{one.shift.estimate:+.2f}", between, sure]
        )
    heads = ["part of the step", "ms", "against", "change ms", "between, all four 99.5% sure", "shown"]
    return table("The parts of a step, as the verdict goes by them", heads, rows)

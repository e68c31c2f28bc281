"""How long a step was in the course of the runs: a line for each side, and a band over its runs."""

from __future__ import annotations

from typing import NamedTuple

from timing_logger.analysis.comparison.courses import CourseOfSide, Courses
from timing_logger.analysis.comparison.result import Comparison
from timing_logger.report.comparison_wording import what_is_counted
from timing_logger.report.html._tables import Table, table
from timing_logger.report.html.comparison._axis import Axis, Tick

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
    x = Axis.around([courses.first[0], courses.first[-1] + courses.width - 1], part=0.0)
    sides = courses.here, courses.against
    y = Axis.around([ms for side in sides for ms in (*side.least_ms, *side.most_ms)], _BOTTOM, _TOP)
    lines = [_line(name, side, middles, x, y) for name, side in zip(names, sides, strict=True)]
    since = x.at(found.since.first) if found.since else None
    unit = what_is_counted(found)
    return CourseChart(lines, x.ticks(), y.ticks(), since, unit, courses.width, _table(courses, names, unit))


def _line(name: str, side: CourseOfSide, middles: list[float], x: Axis, y: Axis) -> CourseLine:
    across = [x.at(middle) for middle in middles]
    upper, lower = (
        [f"{at:g},{y.at(value):g}" for at, value in zip(across, ms, strict=True)]
        for ms in (side.most_ms, side.least_ms)
    )
    line = " ".join(f"{at:g},{y.at(ms):g}" for at, ms in zip(across, side.median_ms, strict=True))
    return CourseLine(name, line, " ".join([*upper, *reversed(lower)]))


def _table(courses: Courses, names: tuple[str, str], unit: str) -> Table:
    heads = [f"{unit}s", *(f"{name}, {what} ms" for name in names for what in ("median", "least", "most"))]
    rows = []
    for place, first in enumerate(courses.first):
        last = first + courses.width - 1
        sides = [f"{ms[place]:.3f}" for side in (courses.here, courses.against) for ms in side]
        rows.append([f"{first:,}" if first == last else f"{first:,} to {last:,}", *sides])
    return table(f"Median step by stretch of {unit}s, of the runs of each side", heads, rows)

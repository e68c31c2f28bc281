"""The differences as points with their intervals, the largest first: a forest plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from timing_logger.report.html._axis import ChartAxis, Tick
from timing_logger.results import criteria
from timing_logger.results.comparison import Comparison, Difference
from timing_logger.words.comparison import a_step
from timing_logger.words.comparison_causes import is_sure, of_what, signed, what_differs

MOST_ROWS = 30
"""The most differences that are drawn: more are no longer seen together. The table has all."""

_FAR = 3.0
"""How many times as far as the farthest point, or the farthest end of a sure interval, the axis goes at most:
an interval of something that is all noise would leave no room for the others."""


class ForestRow(NamedTuple):
    """A difference.

    Attributes:
        what, of: what differs.
        at: where its point is, in percent of the width.
        begin, width: the same of its interval; no width where there is no interval.
        is_sure: whether it is beyond chance.
        is_cut: whether the interval goes on beyond the axis, to the left and to the right.
        value: the difference in words.
        says: all of it in words.
    """

    what: str
    of: str
    at: float
    begin: float
    width: float
    is_sure: bool
    is_cut: tuple[bool, bool]
    value: str
    says: str


class Forest(NamedTuple):
    """The chart.

    Attributes:
        rows: the step as a whole, then the differences.
        zero: where no difference is, in percent of the width.
        ticks: the labels of the axis, in ms.
        has_intervals: whether any row has an interval.
        sure, step_sure: the confidence of the intervals, and of that of the step.
        note: how many differences are not drawn; "" if all are.
    """

    rows: list[ForestRow]
    zero: float
    ticks: list[Tick]
    has_intervals: bool
    sure: str
    step_sure: str
    note: str


class _Shown(NamedTuple):
    """A row before there is an axis; in ms."""

    what: str
    of: str
    ms: float
    low_ms: float
    high_ms: float
    is_sure: bool

    @property
    def has_interval(self) -> bool:
        return math.isfinite(self.low_ms) and math.isfinite(self.high_ms)


def forest(found: Comparison) -> Forest:
    """Return the chart of the step and of the largest differences."""
    drawn = [one for one in found.differences if one.shift.estimate != 0][:MOST_ROWS]
    shown = [_of_step(found), *map(_of_difference, drawn)]
    axis = _axis(shown)
    left_out = len(found.differences) - len(drawn)
    note = (
        f"Of {len(found.differences):,} that were compared, the {len(drawn)} that differ most."
        if left_out
        else ""
    )
    return Forest(
        [_row(one, axis) for one in shown], axis.at(0.0), axis.ticks(signed=True),
        any(one.has_interval for one in shown), f"{100 * criteria.DIFFERENCE_CONFIDENCE:g}%",
        f"{100 * criteria.STEP_CONFIDENCE:g}%", note,
    )  # fmt: skip


def _of_step(found: Comparison) -> _Shown:
    step = found.step
    low_ms, high_ms = (step.against_ms * end for end in (step.low, step.high))
    is_sure = found.basis == "step"
    return _Shown(a_step(found), "as a whole", step.ms - step.against_ms, low_ms, high_ms, is_sure)


def _of_difference(one: Difference) -> _Shown:
    return _Shown(
        what_differs(one), of_what(one), one.shift.estimate, one.shift.low, one.shift.high, is_sure(one)
    )


def _axis(shown: Sequence[_Shown]) -> ChartAxis:
    """Return an axis that has 0, all points and all intervals that are sure, and of the others what fits."""
    sure = [end for one in shown if one.is_sure for end in (one.low_ms, one.high_ms)]
    must = [0.0, *(one.ms for one in shown), *filter(math.isfinite, sure)]
    farthest = _FAR * max(map(abs, must))
    others = [end for one in shown if one.has_interval for end in (one.low_ms, one.high_ms)]
    return ChartAxis.around([*must, *(min(max(end, -farthest), farthest) for end in others)])


def _row(one: _Shown, axis: ChartAxis) -> ForestRow:
    begin = width = 0.0
    if one.has_interval:
        begin = axis.at(one.low_ms)
        width = round(axis.at(one.high_ms) - begin, 3)
    is_cut = one.has_interval and one.low_ms < axis.low, one.has_interval and one.high_ms > axis.high
    return ForestRow(
        one.what, one.of, axis.at(one.ms), begin, width, one.is_sure, is_cut, f"{one.ms:+.2f} ms", _says(one)
    )


def _says(one: _Shown) -> str:
    told = f"{one.what}, {one.of}: {one.ms:+.2f} ms" if one.of else f"{one.what}: {one.ms:+.2f} ms"
    if one.has_interval:
        told = f"{told}, between {signed(one.low_ms)} and {signed(one.high_ms)} ms"
    return f"{told}, sure" if one.is_sure else told

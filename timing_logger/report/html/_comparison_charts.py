"""Charts of a comparison: the forest of differences, each run as a point, and the axis of both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from timing_logger.report.html._tables import Table, Tick, table
from timing_logger.results import criteria
from timing_logger.results.comparison import Comparison, Difference
from timing_logger.results.run_summary import RunSummary
from timing_logger.schema.record import escape_text
from timing_logger.words.comparison import a_step, is_sure, of_what, signed, what_differs
from timing_logger.words.units import UNKNOWN, as_duration, as_utc, or_unknown

_MOST_TICKS = 6
_LEAST_SPAN = 1e-9


class ChartAxis(NamedTuple):
    """A linear axis.

    Attributes:
        low, high: the values at its ends.
        start, end: the places of its ends, in percent of the width or in pixels.
    """

    low: float
    high: float
    start: float = 0.0
    end: float = 100.0

    @classmethod
    def around(
        cls, values: Sequence[float], start: float = 0.0, end: float = 100.0, part: float = 0.05
    ) -> ChartAxis:
        """Return the axis of some values, with a part of their span left free at both ends.

        Values that are all alike stand in the middle.
        """
        low, high = min(values), max(values)
        free = part * (high - low) or max(abs(high), 1.0) * 0.05
        return cls(low - free, high + free, start, end)

    def at(self, value: float) -> float:
        """Return the place of a value; what lies beyond an end is at that end."""
        span = max(self.high - self.low, _LEAST_SPAN)
        within = min(max((value - self.low) / span, 0.0), 1.0)
        return round(self.start + within * (self.end - self.start), 3)

    def ticks(self, signed: bool = False) -> list[Tick]:
        """Return the labels: round numbers, at most six."""
        span = self.high - self.low
        magnitude = 10.0 ** math.floor(math.log10(max(span, _LEAST_SPAN)))
        by = next(at for f in (0.1, 0.2, 0.5, 1, 2, 5) if span / (at := f * magnitude) <= _MOST_TICKS)
        numbers = range(math.ceil(self.low / by), math.floor(self.high / by) + 1)
        return [Tick(self.at(number * by), _label(number * by, signed)) for number in numbers]


def _label(value: float, signed: bool) -> str:
    shown = f"{value:+,.6g}" if signed else f"{value:,.6g}"
    return "0" if float(shown.replace(",", "")) == 0 else shown


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


MOST_POINTS = 200
"""The most runs of a side that are drawn, the newest: more lie on one another."""

_HIGH, _ROWS = 20.0, 4
"""How far a run is below the one before it, in pixels, and after how many runs it starts again at the top."""

_TOP, _OF_SIDE, _AXIS = 16.0, 100.0, 22.0


class RunPoint(NamedTuple):
    """A run: where it is, across in percent and down in pixels, and what is known of it in words."""

    x: float
    y: float
    says: str


class RunsOfSide(NamedTuple):
    """The runs of a side, with the place of their mean, and from where to where their lane goes."""

    name: str
    points: list[RunPoint]
    mean: float
    top: float
    bottom: float


class RunsChart(NamedTuple):
    """The chart.

    Attributes:
        sides: both sides; empty where what a step is differs between the runs.
        pairs: the points of runs that belong together; empty where none do.
        ticks: the labels of the axis, in ms.
        height: of the chart, in pixels.
        table: one row for each run.
        note: which runs are not drawn; "" if all are.
    """

    sides: list[RunsOfSide]
    pairs: list[tuple[RunPoint, RunPoint]]
    ticks: list[Tick]
    height: float
    table: Table
    note: str


def runs_chart(found: Comparison, names: tuple[str, str]) -> RunsChart:
    """Return the chart of all runs.

    Args:
        found: the comparison.
        names: of both sides.
    """
    sides = [side.runs[-MOST_POINTS:] for side in (found.here, found.against)]
    left_out = sum(len(side.runs) for side in (found.here, found.against)) - sum(map(len, sides))
    axis = ChartAxis.around([run.step_mean_ms for side in sides for run in side])
    means = found.step.ms, found.step.against_ms
    drawn = [
        _side(name, runs, mean, number, axis)
        for number, (name, runs, mean) in enumerate(zip(names, sides, means, strict=True))
    ]
    pairs = list(zip(*(side.points for side in drawn), strict=True)) if found.paired else []
    note = f"{left_out:,} older runs are not drawn; the table has all." if left_out else ""
    height = _TOP + len(drawn) * _OF_SIDE + _AXIS
    return RunsChart(drawn, pairs, axis.ticks(), height, _table(found, names), note)


def _side(name: str, runs: Sequence[RunSummary], mean_ms: float, number: int, axis: ChartAxis) -> RunsOfSide:
    top = _TOP + number * _OF_SIDE
    points = [
        RunPoint(axis.at(run.step_mean_ms), top + _HIGH * (1 + place % _ROWS), _run_in_words(run))
        for place, run in enumerate(runs)
    ]
    return RunsOfSide(name, points, axis.at(mean_ms), top, top + _OF_SIDE)


def _run_in_words(run: RunSummary) -> str:
    known = [f"{as_duration(run.step_mean_ms)} a step"]
    known += [f"recorded {as_utc(run.began_unix_ns)}"] if run.began_unix_ns is not None else []
    known += [f"run {escape_text(run.run_id)}"] if run.run_id else []
    known += [f"commit {escape_text(run.commit[:12])}"] if run.commit else []
    return ", ".join(known)


_HEADS = [
    "side", "recorded", "run", "commit", "hosts", "ranks", "steps", "mean ms", "median ms", "who is slow",
    "lost",
]  # fmt: skip


def _table(found: Comparison, names: tuple[str, str]) -> Table:
    rows = [
        [name, *_cells(run)]
        for name, side in zip(names, (found.here, found.against), strict=True)
        for run in side.runs
    ]
    return table("The runs", _HEADS, rows)


def _cells(run: RunSummary) -> Iterator[str]:
    yield as_utc(run.began_unix_ns)
    yield escape_text(run.run_id) or UNKNOWN
    yield escape_text(run.commit[:12]) or UNKNOWN
    yield escape_text(", ".join(run.hosts)) or UNKNOWN
    yield or_unknown(run.n_ranks)
    yield f"{run.n_steps:,}"
    yield f"{run.step_mean_ms:.3f}"
    yield f"{run.step_median_ms:.3f}"
    yield _slow(run)
    yield f"{run.n_lost:,}"


def _slow(run: RunSummary) -> str:
    said = run.verdict
    if said is None or not said.judged:
        return UNKNOWN
    ranks = f" {', '.join(map(str, said.ranks))}" if said.ranks else ""
    return f"{escape_text(said.verdict)}{ranks}"

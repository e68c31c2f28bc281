"""Each run as a point, by how long a step took in it: how far equal runs lie apart is seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from timing_logger.report.html._axis import ChartAxis, Tick
from timing_logger.report.html._tables import Table, table
from timing_logger.results.comparison import Comparison
from timing_logger.results.run_summary import RunSummary
from timing_logger.schema.record import escape_text
from timing_logger.words.units import UNKNOWN, as_duration, as_utc, or_unknown

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
        RunPoint(axis.at(run.step_mean_ms), top + _HIGH * (1 + place % _ROWS), _says(run))
        for place, run in enumerate(runs)
    ]
    return RunsOfSide(name, points, axis.at(mean_ms), top, top + _OF_SIDE)


def _says(run: RunSummary) -> str:
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

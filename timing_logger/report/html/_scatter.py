"""The chart of busbw against message size: points, axes and ceiling.

Across in percent of the width, so that the chart is as wide as the page; upwards in pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import pandas as pd

from timing_logger.analysis.rows.arrays import Record
from timing_logger.report._limits import POINTS_OF_MANY
from timing_logger.report.html._crowd import Crowd
from timing_logger.report.html._tables import (
    PageColumn,
    Table,
    Tick,
    byte_size,
    decimals,
    integer,
    significant,
    table_of,
    text,
)
from timing_logger.report.questions import SLOWEST_FOR_THEIR_SIZE, of_the_fastest, on_expectation
from timing_logger.schema.record import escape_text
from timing_logger.words.units import count, percent, size

LEFT, TOP, RIGHT, BOTTOM = 0.0, 14.0, 100.0, 320.0

_Speed: TypeAlias = "tuple[Record, float, bool]"
"""A row, one of its bandwidths in GB/s, and whether that is by transfer time."""

N_SHAPES = 6
"""The number of markers in the template."""


class Marker(NamedTuple):
    """One marker of the chart.

    ``shape`` is the number of its operation; the marker is filled if the time is without waiting
    (``is_transfer``).
    """

    x: float
    y: float
    shape: int
    is_transfer: bool
    says: str


class Scatter(NamedTuple):
    """Everything that the template draws; there are no points if no busbw is known.

    ``brief`` is a sentence in place of the chart where one row or none has a bandwidth; else "". ``left_out``
    is a sentence on points that are not drawn; "" if all are. ``expected`` has sentences on how much the run
    reached of what a benchmark did; none without one.
    """

    operations: list[str]
    points: list[Marker]
    ceiling: list[tuple[float, float]]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    table: Table
    brief: str = ""
    left_out: str = ""
    expected: Sequence[str] = ()


class _Axis(NamedTuple):
    """A logarithmic axis over whole decades."""

    low: int
    high: int
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> _Axis:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(low, max(high, low + 1), start, end)

    def at(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self.start + part * (self.end - self.start), 1)

    @property
    def decades(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def bandwidth_chart(bandwidth: pd.DataFrame, crowd: Crowd, benchmark: str = "") -> Scatter:
    """Return what is drawn of ``analysis.bandwidth``; with a benchmark it has what that reached beside it."""
    rows = bandwidth.to_dict("records")
    speeds: list[_Speed] = [
        (row, row[name], name != "busbw_gb_per_s")
        for row in rows
        for name in ("busbw_gb_per_s", "transfer_busbw_gb_per_s")
        if row[name] > 0 and row["message_size_bytes"] > 0
    ]
    drawn_table = _table(bandwidth, crowd)
    expected = list(on_expectation(bandwidth, benchmark))
    if not speeds or len(rows) == 1:
        return Scatter([], [], [], [], [], drawn_table, _brief(rows), expected=expected)
    left_out = ""
    if crowd.is_many and len(speeds) > POINTS_OF_MANY:
        left_out = (
            f"Of {len(speeds):,} points these are the {POINTS_OF_MANY // 2} slowest and as many of the "
            "fastest; those between are not drawn. timing-logger bandwidth --all has all."
        )
        speeds = _slowest_and_fastest(speeds)
    x_axis = _Axis.over([row["message_size_bytes"] for row, _, _ in speeds], LEFT, RIGHT)
    y_axis = _Axis.over([speed for _, speed, _ in speeds], BOTTOM, TOP)
    operations = list(dict.fromkeys(row["operation"] for row, _, _ in speeds))
    points = [
        Marker(
            x_axis.at(row["message_size_bytes"]), y_axis.at(speed),
            operations.index(row["operation"]) % N_SHAPES, is_transfer,
            _says(row, speed, is_transfer) + _of_expected(row, speed, benchmark),
        )
        for row, speed, is_transfer in speeds
    ]  # fmt: skip
    return Scatter(
        list(map(escape_text, operations)),
        points,
        _ceiling([row["size_class_bytes"] for row, _, _ in speeds], points),
        [Tick(x_axis.at(value), size(value)) for value in x_axis.decades],
        [Tick(y_axis.at(value), _plain(value)) for value in y_axis.decades],
        drawn_table,
        left_out=left_out,
        expected=expected,
    )


def _slowest_and_fastest(speeds: Sequence[_Speed]) -> list[_Speed]:
    """Return the slowest and the fastest, half each, in their order."""
    ascending = sorted(range(len(speeds)), key=lambda at: speeds[at][1])
    half = POINTS_OF_MANY // 2
    return [speeds[at] for at in sorted({*ascending[:half], *ascending[-half:]})]


def _brief(rows: Sequence[Record]) -> str:
    """Return a sentence on the only row; "" if there are several."""
    if len(rows) > 1:
        return ""
    figures = [figure for row in rows for figure in _figures(row)]
    if not figures:
        return "No operation has both bytes and a bandwidth."
    return f"{_of(rows[0])}, {count(rows[0]['count'], 'row')}: {', '.join(figures)}."


def _figures(row: Record) -> list[str]:
    return [
        f"{name} {significant(row[column])} GB/s{how}"
        for column, name, how in (
            ("algbw_gb_per_s", "algbw", ""),
            ("busbw_gb_per_s", "busbw", ""),
            ("transfer_busbw_gb_per_s", "busbw", " by transfer time, without waiting"),
        )
        if not math.isnan(row[column])
    ]


def _plain(value: float) -> str:
    """Return a power of ten without an exponent."""
    return f"{value:.12f}".rstrip("0").rstrip(".")


def _of(row: Record) -> str:
    return (
        f"{escape_text(row['operation'])} of {size(row['message_size_bytes'])} "
        f"in {escape_text(row['group']) or 'no group'}"
    )


def _says(row: Record, speed: float, is_transfer: bool) -> str:
    time = "transfer time, without waiting" if is_transfer else "time, waiting included"
    return f"{_of(row)}: busbw {significant(speed)} GB/s by {time}, {count(row['count'], 'row')}"


def _of_expected(row: Record, speed: float, benchmark: str) -> str:
    """Return, for a tooltip, how much of what a benchmark reached a speed is; "" if that is not known."""
    expected = row["expected_busbw_gb_per_s"] if benchmark else math.nan
    return "" if math.isnan(expected) else f", {speed / expected:.0%} of what {benchmark} reached"


def _ceiling(size_classes: Sequence[float], points: Sequence[Marker]) -> list[tuple[float, float]]:
    """Return the fastest point of each size class, of any operation and group."""
    fastest: dict[float, Marker] = {}
    for size_class, point in zip(size_classes, points, strict=True):
        if size_class not in fastest or point.y < fastest[size_class].y:
            fastest[size_class] = point
    return sorted((point.x, point.y) for point in fastest.values())


_EXPECTED = {
    "share_of_expected": PageColumn("of expected", percent),
    "expected_busbw_gb_per_s": PageColumn("expected busbw GB/s", significant),
}


def _table(bandwidth: pd.DataFrame, crowd: Crowd) -> Table:
    if crowd.is_many:
        bandwidth = bandwidth.iloc[of_the_fastest(bandwidth).argsort(kind="stable")]
    columns = {
        "operation": PageColumn("operation", text),
        "group": PageColumn("group", text),
        "group_size": PageColumn("ranks", integer),
        "count": PageColumn("rows", integer),
        "message_size_bytes": PageColumn("bytes", byte_size),
        **(_EXPECTED if "share_of_expected" in bandwidth else {}),
        "time_ms": PageColumn("time ms", decimals(3)),
        "algbw_gb_per_s": PageColumn("algbw GB/s", significant),
        "busbw_gb_per_s": PageColumn("busbw GB/s", significant),
        "transfer_ms": PageColumn("transfer ms", decimals(3)),
        "transfer_algbw_gb_per_s": PageColumn("its algbw GB/s", significant),
        "transfer_busbw_gb_per_s": PageColumn("its busbw GB/s", significant),
    }
    which = crowd.shown(SLOWEST_FOR_THEIR_SIZE, "bandwidth --all")
    return table_of(bandwidth, "Bandwidth by operation, group and class of sizes", columns, which)

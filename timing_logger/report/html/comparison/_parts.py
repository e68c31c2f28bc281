"""The parts of a step of both sides, one bar below the other, on one scale."""

from __future__ import annotations

import math
from typing import NamedTuple

from timing_logger.analysis.comparison.result import Comparison, Difference
from timing_logger.report.comparison_row_wording import signed
from timing_logger.report.html._account import AccountBar, Segment
from timing_logger.report.html._tables import Table, table

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
        return StepParts([], [], _table(found, parts))
    bars = [_bar(name, side, longest_ms) for name, side in zip(names, sides, strict=True)]
    drawn = {segment.kind for bar in bars for segment in bar.segments}
    legend = [(kind, name) for name, kind in _KINDS.items() if kind in drawn]
    return StepParts(bars, legend, _table(found, parts))


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


def _table(found: Comparison, parts: dict[str, Difference]) -> Table:
    judged = {one.part: one for one in found.parts}
    rows = []
    for name in _KINDS:
        if (one := parts.get(name)) is None:
            continue
        part = judged.get(name)
        between = (
            f"{signed(part.low_ms)} to {signed(part.high_ms)}" if part and math.isfinite(part.low_ms) else "-"
        )
        sure = "yes" if part and part.is_shown else "-"
        rows.append(
            [name, f"{one.ms:.2f}", f"{one.against_ms:.2f}", f"{one.shift.estimate:+.2f}", between, sure]
        )
    heads = ["part of the step", "ms", "against", "change ms", "between, all four 99.5% sure", "shown"]
    return table("The parts of a step, as the verdict goes by them", heads, rows)

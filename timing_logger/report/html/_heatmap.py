"""The heatmap of rank by iteration, binned to as many columns as a screen can show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from timing_logger.analysis.tables import Floats, Ints
from timing_logger.report._wording import process_name
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._heatmap_grid import Grid, Slow
from timing_logger.report.html._packing import packed

if TYPE_CHECKING:
    import pandas as pd

MANY_ROWS = 16
"""The number of rows beyond which those that the verdict names come first."""

_VIEWS = {
    "clock_free_wait_ms": (
        "Waiting for others",
        "in collectives that synchronise ranks, beyond the least time that any rank spent in the same one; "
        "the rank that the others wait for has least",
    ),
    "step_ms": ("Time of the step", "from the rank's first row of the iteration to its first of the next"),
    "compute_ms": ("Own work", "rows that need no other rank, without the time they were blocked"),
    "communication_ms": ("Communication", "time in which some communication was under way"),
    "exposed_ms": (
        "Exposed communication",
        "communication while the rank had no work of its own, or, where none is logged, while it was blocked",
    ),
    "waited_ms": ("Blocked in WAIT", "time in which somebody was blocked on an operation of its own row"),
}


class View(NamedTuple):
    """One quantity that the heatmap can show: its name, what it is, and its value in ms in each cell."""

    name: str
    explanation: str
    ms: Floats


class Heatmap(NamedTuple):
    """The input of the template, and the data for heatmap.js.

    Attributes:
        views: what can be shown, first what the verdict compared; empty if there is nothing to draw.
        per_column: the most steps that one column represents.
        named_first: whether the ranks that the verdict names come before the others.
        data: the data for heatmap.js; None if there is nothing to draw.
    """

    views: list[View]
    per_column: int
    named_first: bool
    data: Mapping[str, object] | None


def heatmap(findings: Findings) -> Heatmap:
    steps = findings.overlap[findings.overlap["iteration"].notna()]
    if steps.empty:
        return Heatmap([], 0, False, None)
    grid = Grid.of(steps)
    views = [view for view in _views(grid, findings, steps) if np.nansum(view.ms) > 0]
    slow = grid.slow(findings.verdict, findings.own)
    named_first = bool(slow["rows"]) and len(grid.rows) > MANY_ROWS
    order = _order(len(grid.rows), slow["rows"] if named_first else [])
    return Heatmap(views, grid.per_column, named_first, _data(grid, views, order, slow))


def _views(grid: Grid, findings: Findings, steps: pd.DataFrame) -> list[View]:
    waiting = findings.waits[findings.waits["iteration"].notna()]
    return [
        View(*_about_own(findings), grid.means_of_own(findings.own)),
        *(
            View(*about, grid.means_of(waiting if name == "clock_free_wait_ms" else steps, name))
            for name, about in _VIEWS.items()
        ),
    ]


def _about_own(findings: Findings) -> tuple[str, str]:
    source = (
        "the time between its communication, logged or not"
        if findings.own.from_gaps
        else "its rows of own work, without waiting for others"
    )
    name = "Own time (judged)" if findings.verdict.judged else "Own time"
    return name, f"what the verdict compares with the rank's peers: {source}"


def _order(n_rows: int, first: list[int]) -> Ints:
    """Return the rows in the order in which they are drawn: these first, then the others."""
    return np.array([*first, *(row for row in range(n_rows) if row not in first)], np.int64)


def _data(grid: Grid, views: list[View], order: Ints, slow: Slow) -> dict[str, object]:
    first, last = grid.edges()
    drawn_at = np.argsort(order)
    return {
        "rows": [process_name(*grid.rows[row]) for row in order],
        **grid.axis.packed("first", first),
        **grid.axis.packed("last", last),
        "views": [
            {"name": view.name, "ms": packed(view.ms.reshape(len(order), -1)[order], "float32")}
            for view in views
        ],
        "slow": {
            "rows": [int(drawn_at[row]) for row in slow["rows"]],
            "frames": [[int(drawn_at[row]), *ends] for row, *ends in slow["frames"]],
        },
    }

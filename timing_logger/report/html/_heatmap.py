"""The heatmap of rank by iteration, binned to as many columns as a screen can show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.table_types import Floats
from timing_logger.report._limits import BANDS, CELLS_OF_MANY, FEW_PROCESSES, HOST_ROWS
from timing_logger.report.html._crowd import OF_CHOSEN, Crowd
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._heatmap_grid import Grid, Slow
from timing_logger.report.html._heatmap_rows import Rows, each_process, worst_and_others
from timing_logger.report.html._packing import packed

MANY_ROWS = 16
"""The number of rows beyond which those that the verdict names come first."""

_MOST_ROWS_OF_MANY = FEW_PROCESSES + HOST_ROWS + len(BANDS)

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
        left_out: a sentence on ranks that have no row of their own; "" if all have one.
        grid: the cells, for what is drawn below them; None if there is nothing to draw.
        data: the data for heatmap.js; None if there is nothing to draw.
    """

    views: list[View]
    per_column: int
    named_first: bool
    left_out: str
    grid: Grid | None
    data: Mapping[str, object] | None


def heatmap(findings: Findings) -> Heatmap:
    steps = findings.overlap[findings.overlap["iteration"].notna()]
    if steps.empty:
        return Heatmap([], 0, False, "", None, None)
    crowd = findings.crowd
    grid = grid_of(steps, crowd)
    views = [view for view in _views(grid, findings, steps) if np.nansum(view.ms) > 0]
    slow = grid.slow(findings.verdict, findings.own)
    named_first = bool(slow["rows"]) and len(grid.rows) > MANY_ROWS
    rows = _rows(grid, crowd, views, slow["rows"] if named_first else [])
    return Heatmap(
        views, grid.per_column, named_first, _on_ranks_left_out(rows), grid, _data(grid, views, rows, slow)
    )


def grid_of(steps: pd.DataFrame, crowd: Crowd) -> Grid:
    """Return the cells for a table with a row for each process and step: fewer columns for many ranks."""
    return Grid.of(steps, CELLS_OF_MANY // _MOST_ROWS_OF_MANY if crowd.is_many else None)


def _rows(grid: Grid, crowd: Crowd, views: list[View], first: list[int]) -> Rows:
    if not crowd.is_many or len(grid.rows) <= FEW_PROCESSES:
        return each_process(grid.rows, first)
    judged_ms = views[0].ms.reshape(len(grid.rows), -1) if views else np.zeros((len(grid.rows), 1))
    return worst_and_others(grid.rows, crowd, judged_ms)


def _on_ranks_left_out(rows: Rows) -> str:
    """Return the sentence that says which ranks have no row of their own, and what stands for them."""
    if not len(rows.others):
        return ""
    named, others = len(rows.processes), len(rows.others)
    hosts = ""
    if rows.hosts:
        n_shown = len(rows.hosts)
        which = (
            "each host"
            if n_shown == rows.n_hosts
            else f"each of the {n_shown} slowest of {rows.n_hosts:,} hosts"
        )
        hosts = f"the mean of {which} and by "
    return (
        f"Of {named + others:,} ranks {named} have a row of their own: those that the verdict names, then "
        "those that others waited for longest, then those that took longest themselves. The other "
        f"{others:,} are shown by {hosts}bands: in each cell the longest of them all, the shortest, and "
        f"three between. {OF_CHOSEN}."
    )


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


def _data(grid: Grid, views: list[View], rows: Rows, slow: Slow) -> dict[str, object]:
    first, last = grid.edges()
    drawn_at = rows.drawn_at()
    return {
        "rows": rows.names,
        **({"sections": rows.sections} if rows.sections else {}),
        **grid.axis.packed("first", first),
        **grid.axis.packed("last", last),
        "views": [
            {"name": view.name, "ms": packed(rows.values(view.ms.reshape(len(grid.rows), -1)), "float32")}
            for view in views
        ],
        "slow": {
            "rows": [drawn_at[row] for row in slow["rows"] if row in drawn_at],
            "frames": [[drawn_at[row], *ends] for row, *ends in slow["frames"] if row in drawn_at],
        },
    }

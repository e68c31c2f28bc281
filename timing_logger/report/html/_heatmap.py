"""Rank by iteration, binned to as many columns as a screen can show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from timing_logger.report.html._findings import Findings
from timing_logger.report.html._packing import packed

if TYPE_CHECKING:
    import pandas as pd

MAX_COLUMNS = 1000
MAX_CELLS = 200_000
_MIN_COLUMNS = 100

_VIEWS = {
    "clock_free_wait_ms": (
        "Waiting for others",
        "in collectives that synchronise ranks, beyond the least time that any rank spent in the same one; "
        "the rank that the others wait for has least",
    ),
    "step_ms": ("Time of the step", "from the rank's first start to its last end in the iteration"),
    "compute_ms": ("Own work", "rows that need no other rank, without the time they were blocked"),
    "communication_ms": ("Communication", "time in which some communication was under way"),
    "exposed_ms": ("Exposed communication", "communication while the rank had no work of its own"),
    "waited_ms": ("Blocked in WAIT", "time in which somebody was blocked on an operation of its own row"),
}

Array = npt.NDArray[Any]


class Heatmap(NamedTuple):
    """What the template needs to know, and the data for heatmap.js.

    Attributes:
        views: name and explanation of each; empty if there is nothing to draw.
        per_column: the most iterations that one column stands for.
    """

    views: list[tuple[str, str]]
    per_column: int
    data: dict[str, Any] | None


def heatmap(findings: Findings) -> Heatmap:
    steps = findings.overlap[findings.overlap["iteration"].notna()]
    if steps.empty:
        return Heatmap([], 0, None)
    rows = sorted(set(zip(steps["rank"].tolist(), steps["incarnation"].tolist(), strict=True)))
    iterations = np.unique(steps["iteration"].to_numpy(np.int64))
    grid = _Grid(rows, iterations, _column_of(len(iterations), len(rows)))
    waiting = findings.waits[findings.waits["iteration"].notna()]
    views = {name: grid.means(waiting if name == "clock_free_wait_ms" else steps, name) for name in _VIEWS}
    shown = {name: cells for name, cells in views.items() if np.nansum(cells) > 0}
    return Heatmap([_VIEWS[name] for name in shown], grid.per_column, grid.data(shown, findings))


def _column_of(n_iterations: int, n_rows: int) -> Array:
    """The column of each iteration; columns stand for equally many."""
    n_columns = min(n_iterations, MAX_COLUMNS, max(_MIN_COLUMNS, MAX_CELLS // n_rows))
    return np.arange(n_iterations) * n_columns // n_iterations


class _Grid(NamedTuple):
    """Processes (rank, incarnation) x columns of iterations."""

    rows: list[tuple[int, int]]
    iterations: Array
    column: Array

    @property
    def per_column(self) -> int:
        return int(np.bincount(self.column).max())

    def means(self, table: pd.DataFrame, name: str) -> Array:
        """Of each cell the mean over its iterations of the sums in each; NaN where there are none."""
        at = np.searchsorted(self.iterations, table["iteration"].to_numpy(np.int64))
        process = _positions(self.rows, table)
        values = table[name].to_numpy(np.float64)
        known = ~np.isnan(values)
        steps, step_of = np.unique(process[known] * len(self.iterations) + at[known], return_inverse=True)
        sums = np.bincount(step_of, values[known], minlength=len(steps))
        n_columns = int(self.column[-1]) + 1
        cell = steps // len(self.iterations) * n_columns + self.column[steps % len(self.iterations)]
        n_cells = len(self.rows) * n_columns
        n_steps = np.bincount(cell, minlength=n_cells)
        totals = np.bincount(cell, sums, minlength=n_cells)
        return np.where(n_steps > 0, totals / np.maximum(n_steps, 1), np.nan)

    def data(self, views: dict[str, Array], findings: Findings) -> dict[str, Any]:
        edges = np.flatnonzero(np.diff(self.column, prepend=-1))
        last = np.append(edges[1:], len(self.iterations)) - 1
        verdict = findings.verdict
        several = len({rank for rank, _ in self.rows}) < len(self.rows)
        return {
            "rows": [f"rank {rank}, run {run}" if several else f"rank {rank}" for rank, run in self.rows],
            "first": packed(self.iterations[edges], "int32"),
            "last": packed(self.iterations[last], "int32"),
            "views": [
                {"name": _VIEWS[name][0], "ms": packed(cells, "float32")} for name, cells in views.items()
            ],
            "slow": {
                "rows": [i for i, (rank, _) in enumerate(self.rows) if rank in verdict.ranks],
                "first": verdict.first_iteration,
                "last": verdict.last_iteration,
            },
        }


def _positions(rows: list[tuple[int, int]], table: pd.DataFrame) -> Array:
    """Where in ``rows`` the process of each row of the table stands."""
    runs = 1 + max(run for _, run in rows)
    keys = np.array([rank * runs + run for rank, run in rows])
    wanted = table["rank"].to_numpy(np.int64) * runs + table["incarnation"].to_numpy(np.int64)
    positions: Array = np.searchsorted(keys, wanted)
    return positions

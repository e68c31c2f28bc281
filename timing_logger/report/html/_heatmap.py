"""The heatmap of rank by iteration, binned to as many columns as a screen can show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np

from timing_logger.analysis import Verdict
from timing_logger.analysis.grouping import any_row_of
from timing_logger.analysis.tables import Floats, Ints, dense_codes
from timing_logger.report.html._findings import Findings
from timing_logger.report.html._packing import Packed, packed

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
    "step_ms": ("Time of the step", "from the rank's first row of the iteration to its first of the next"),
    "compute_ms": ("Own work", "rows that need no other rank, without the time they were blocked"),
    "communication_ms": ("Communication", "time in which some communication was under way"),
    "exposed_ms": (
        "Exposed communication",
        "communication while the rank had no work of its own, or, where none is logged, while it was blocked",
    ),
    "waited_ms": ("Blocked in WAIT", "time in which somebody was blocked on an operation of its own row"),
}


class Heatmap(NamedTuple):
    """The input of the template, and the data for heatmap.js.

    Attributes:
        views: name and explanation of each view; empty if there is nothing to draw.
        per_column: the most steps that one column represents.
        data: the data for heatmap.js; None if there is nothing to draw.
    """

    views: list[tuple[str, str]]
    per_column: int
    data: Mapping[str, object] | None


def heatmap(findings: Findings) -> Heatmap:
    steps = findings.overlap[findings.overlap["iteration"].notna()]
    if steps.empty:
        return Heatmap([], 0, None)
    rows = sorted(set(zip(steps["rank"].tolist(), steps["incarnation"].tolist(), strict=True)))
    axis = _Axis.of(steps)
    grid = _Grid(rows, axis, _column_of(len(axis.steps), len(rows)))
    waiting = findings.waits[findings.waits["iteration"].notna()]
    views = {name: grid.means(waiting if name == "clock_free_wait_ms" else steps, name) for name in _VIEWS}
    shown = {name: cells for name, cells in views.items() if np.nansum(cells) > 0}
    return Heatmap([_VIEWS[name] for name in shown], grid.per_column, grid.data(shown, findings))


def _column_of(n_iterations: int, n_rows: int) -> Ints:
    """Return the column of each iteration; columns represent equal numbers of iterations."""
    n_columns = min(n_iterations, MAX_COLUMNS, max(_MIN_COLUMNS, MAX_CELLS // n_rows))
    return np.arange(n_iterations) * n_columns // n_iterations


class _Axis(NamedTuple):
    """The steps of the run in order.

    Attributes:
        steps: the numbers of the steps, ascending. Each is the index of its epoch times the number of
            iterations, plus the index of its iteration.
        epochs: the epochs, ascending; empty if iterations do not restart.
        iterations: the iterations, ascending.
    """

    steps: Ints
    epochs: Ints
    iterations: Ints

    @classmethod
    def of(cls, table: pd.DataFrame) -> _Axis:
        epochs = (
            np.unique(table["epoch"].fillna(0).to_numpy(np.int64))
            if "epoch" in table
            else np.zeros(0, np.int64)
        )
        axis = cls(np.zeros(0, np.int64), epochs, np.unique(table["iteration"].to_numpy(np.int64)))
        return axis._replace(steps=np.unique(axis.numbers(table)))

    def numbers(self, table: pd.DataFrame) -> Ints:
        numbers: Ints = np.searchsorted(self.iterations, table["iteration"].to_numpy(np.int64))
        if not len(self.epochs):
            return numbers
        epochs = np.searchsorted(self.epochs, table["epoch"].fillna(0).to_numpy(np.int64))
        return epochs * len(self.iterations) + numbers

    def position(self, epoch: int | None, iteration: int) -> int:
        number = int(np.searchsorted(self.iterations, iteration))
        if len(self.epochs):
            number += int(np.searchsorted(self.epochs, epoch or 0)) * len(self.iterations)
        return int(np.searchsorted(self.steps, number))

    def packed(self, name: str, steps: Ints) -> dict[str, Packed]:
        """Return the iterations of ``steps`` under ``name``, and their epochs if there are any."""
        epoch, iteration = np.divmod(steps, len(self.iterations))
        found = {name: packed(self.iterations[iteration], "float64")}
        if len(self.epochs):
            found[f"{name}_epoch"] = packed(self.epochs[epoch], "float64")
        return found


class _Slow(TypedDict):
    """The rows that the verdict names, and the first and last column in which they are slow."""

    rows: list[int]
    first: int | None
    last: int | None


class _Grid(NamedTuple):
    """The cells of the heatmap: processes (rank, incarnation) x columns of steps."""

    rows: list[tuple[int, int]]
    axis: _Axis
    column: Ints

    @property
    def per_column(self) -> int:
        return int(np.bincount(self.column).max())

    def means(self, table: pd.DataFrame, name: str) -> Floats:
        """Return for each cell the mean over its steps of the sum in each step; NaN if there are none."""
        at = np.searchsorted(self.axis.steps, self.axis.numbers(table))
        n_steps = len(self.axis.steps)
        process = _positions(self.rows, table)
        values = table[name].to_numpy(np.float64)
        known = ~np.isnan(values)
        step = process[known] * n_steps + at[known]
        step_of = dense_codes(step)
        steps = step[any_row_of(step_of)]
        sums = np.bincount(step_of, values[known], minlength=len(steps))
        n_columns = int(self.column[-1]) + 1
        cell = steps // n_steps * n_columns + self.column[steps % n_steps]
        n_cells = len(self.rows) * n_columns
        counts = np.bincount(cell, minlength=n_cells)
        totals = np.bincount(cell, sums, minlength=n_cells)
        return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)

    def data(self, views: dict[str, Floats], findings: Findings) -> dict[str, object]:
        edges = np.flatnonzero(np.diff(self.column, prepend=-1))
        last = np.append(edges[1:], len(self.axis.steps)) - 1
        several = len({rank for rank, _ in self.rows}) < len(self.rows)
        return {
            "rows": [f"rank {rank}, run {run}" if several else f"rank {rank}" for rank, run in self.rows],
            **self.axis.packed("first", self.axis.steps[edges]),
            **self.axis.packed("last", self.axis.steps[last]),
            "views": [
                {"name": _VIEWS[name][0], "ms": packed(cells, "float32")} for name, cells in views.items()
            ],
            "slow": self._slow(findings.verdict),
        }

    def _slow(self, verdict: Verdict) -> _Slow:
        """Return the rows that the verdict names, and the first and last column in which they are slow."""
        rows = [i for i, (rank, _) in enumerate(self.rows) if rank in verdict.ranks]
        if verdict.first_iteration is None or verdict.last_iteration is None:
            return {"rows": rows, "first": None, "last": None}
        ends = [
            self.axis.position(verdict.first_epoch, verdict.first_iteration),
            self.axis.position(verdict.last_epoch, verdict.last_iteration),
        ]
        first, last = (int(self.column[min(at, len(self.column) - 1)]) for at in ends)
        return {"rows": rows, "first": first, "last": last}


def _positions(rows: list[tuple[int, int]], table: pd.DataFrame) -> Ints:
    """Return the index in ``rows`` of the process of each row of the table."""
    runs = 1 + max(run for _, run in rows)
    keys = np.array([rank * runs + run for rank, run in rows])
    wanted = table["rank"].to_numpy(np.int64) * runs + table["incarnation"].to_numpy(np.int64)
    positions: Ints = np.searchsorted(keys, wanted)
    return positions

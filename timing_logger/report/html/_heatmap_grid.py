"""The cells of the heatmap: processes by columns, each of which stands for one step or for several."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

import numpy as np
import pandas as pd

from timing_logger.analysis.rows.arrays import Floats, Ints, dense_codes
from timing_logger.analysis.rows.grouping import any_row_of
from timing_logger.report.html._crowd import OwnTimes
from timing_logger.report.html._tables import Packed, packed
from timing_logger.results.plain import StepRange
from timing_logger.results.verdict import Verdict

MAX_COLUMNS = 1000
MAX_CELLS = 200_000
_MIN_COLUMNS = 100


class Slow(TypedDict):
    """The rows that the verdict names, and what is framed: row, first and last column of each frame."""

    rows: list[int]
    frames: list[list[int]]


class _Values(NamedTuple):
    """Times in ms, each with the row of its process and the position of its step on the axis."""

    process: Ints
    step: Ints
    ms: Floats


class Grid(NamedTuple):
    """The cells of the heatmap.

    Attributes:
        rows: the processes (rank, incarnation), ascending.
        axis: the steps.
        column: the column of each step.
        latest: ranks x steps: the row of the latest process of the rank that recorded the step; else -1.
    """

    rows: list[tuple[int, int]]
    axis: StepAxis
    column: Ints
    latest: Ints

    @classmethod
    def of(cls, steps: pd.DataFrame, most_columns: int | None = None) -> Grid:
        """Return the grid for a table with a row for each process and step.

        Args:
            steps: the table.
            most_columns: the most columns; None for as many as suit the number of processes.
        """
        rows = sorted(set(zip(steps["rank"].tolist(), steps["incarnation"].tolist(), strict=True)))
        axis = StepAxis.of(steps)
        process = _positions(rows, steps)
        ranks, rank_of_row = np.unique([rank for rank, _ in rows], return_inverse=True)
        latest = np.full((len(ranks), len(axis.steps)), -1)
        np.maximum.at(latest, (rank_of_row[process], axis.places_of(steps)), process)
        most_columns = most_columns or max(_MIN_COLUMNS, MAX_CELLS // len(rows))
        return cls(rows, axis, _column_of(len(axis.steps), most_columns), latest)

    @property
    def ranks(self) -> Ints:
        """The ranks, ascending."""
        return np.unique([rank for rank, _ in self.rows])

    @property
    def per_column(self) -> int:
        """The most steps that one column stands for."""
        return int(np.bincount(self.column).max())

    def edges(self) -> tuple[Ints, Ints]:
        """Return the first and the last step of each column."""
        first = np.flatnonzero(np.diff(self.column, prepend=-1))
        last = np.append(first[1:], len(self.axis.steps)) - 1
        return self.axis.steps[first], self.axis.steps[last]

    def in_words(self, column: int) -> str:
        """Return the steps of a column in words, as ``iterations 40 to 44``."""
        first, last = (int(step[column]) for step in self.edges())
        return self.axis.range_of(first, last).in_words()

    def process_of(self, table: pd.DataFrame) -> Ints:
        """Return the index in ``rows`` of the process of each row of a table."""
        return _positions(self.rows, table)

    def means_of(self, table: pd.DataFrame, name: str) -> Floats:
        """Return for each cell the mean over its steps of the sum in each step; NaN if there are none."""
        values = table[name].to_numpy(np.float64)
        known = ~np.isnan(values)
        process, step = self.process_of(table), self.axis.places_of(table)
        return self._means(_Values(process[known], step[known], values[known]))

    def means_of_own(self, own: OwnTimes) -> Floats:
        """Return the same of the times by step and rank; each is that of the latest process of the rank."""
        place = self.axis.places(own.iterations, own.epochs)
        step, column = np.nonzero(~np.isnan(own.ms) & (place >= 0)[:, None])
        rank = np.searchsorted(self.ranks, own.ranks)
        process = self.latest[rank[column], place[step]]
        known = process >= 0
        step, column = step[known], column[known]
        return self._means(_Values(process[known], place[step], own.ms[step, column]))

    def _means(self, values: _Values) -> Floats:
        n_steps, n_columns = len(self.axis.steps), int(self.column[-1]) + 1
        step = values.process * n_steps + values.step
        step_of = dense_codes(step)
        steps = step[any_row_of(step_of)]
        sums = np.bincount(step_of, values.ms, minlength=len(steps))
        cell = steps // n_steps * n_columns + self.column[steps % n_steps]
        n_cells = len(self.rows) * n_columns
        counts = np.bincount(cell, minlength=n_cells)
        totals = np.bincount(cell, sums, minlength=n_cells)
        return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)

    def slow(self, verdict: Verdict, own: OwnTimes) -> Slow:
        """Return the rows of the ranks that the verdict names or suspects, and their slow columns."""
        named = verdict.ranks_to_look_at
        rows = [row for rank in named for row, (of, _) in enumerate(self.rows) if of == rank]
        frames = [[row, *ends] for rank in named for row, ends in self._slow_columns(rank, verdict, own)]
        return {"rows": rows, "frames": frames}

    def _slow_columns(self, rank: int, verdict: Verdict, own: OwnTimes) -> list[tuple[int, tuple[int, int]]]:
        """Return the stretches of slow columns of each process of a rank."""
        if rank not in self.ranks:
            return []
        steps = self._slow_steps(rank, verdict, own)
        process = self.latest[int(np.searchsorted(self.ranks, rank)), steps]
        return [
            (int(row), ends)
            for row in np.unique(process[process >= 0])
            for ends in _stretches(self.column[steps[process == row]])
        ]

    def _slow_steps(self, rank: int, verdict: Verdict, own: OwnTimes) -> Ints:
        """Return the positions of the steps in which the rank is known to be slow.

        Of the ranks of a slow role only the range is known, which says little if they were slow now and then.
        """
        if rank in own.slow:
            chosen = own.slow[rank]
            place = self.axis.places(own.iterations[chosen], own.epochs[chosen])
            return place[place >= 0]
        first, last = verdict.first_iteration, verdict.last_iteration
        if first is None or last is None or verdict.window == "intermittent":
            return np.zeros(0, np.int64)
        epochs = np.array([verdict.first_epoch or 0, verdict.last_epoch or 0], np.float64)
        ends = self.axis.places(np.array([first, last]), epochs)
        return np.arange(ends[0], ends[1] + 1) if ends.min() >= 0 else np.zeros(0, np.int64)


def _column_of(n_steps: int, most: int) -> Ints:
    """Return the column of each step; columns represent equal numbers of steps."""
    n_columns = min(n_steps, MAX_COLUMNS, most)
    return np.arange(n_steps) * n_columns // n_steps


def _stretches(columns: Ints) -> list[tuple[int, int]]:
    """Return the first and last of each stretch of columns without a gap."""
    distinct = np.unique(columns)
    parts = np.split(distinct, np.flatnonzero(np.diff(distinct) > 1) + 1)
    return [(int(part[0]), int(part[-1])) for part in parts if len(part)]


def _positions(rows: list[tuple[int, int]], table: pd.DataFrame) -> Ints:
    """Return the index in ``rows`` of the process of each row of the table."""
    runs = 1 + max(run for _, run in rows)
    keys = np.array([rank * runs + run for rank, run in rows])
    wanted = table["rank"].to_numpy(np.int64) * runs + table["incarnation"].to_numpy(np.int64)
    positions: Ints = np.searchsorted(keys, wanted)
    return positions


# -- the axis of the heatmap: the steps of a run in order ------------------------------------------------


_NOWHERE = -1


class StepAxis(NamedTuple):
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
    def of(cls, table: pd.DataFrame) -> StepAxis:
        epochs = (
            np.unique(table["epoch"].fillna(0).to_numpy(np.int64))
            if "epoch" in table
            else np.zeros(0, np.int64)
        )
        axis = cls(np.zeros(0, np.int64), epochs, np.unique(table["iteration"].to_numpy(np.int64)))
        iteration, epoch = _of_rows(table)
        return axis._replace(steps=np.unique(axis._numbers(iteration, epoch)))

    def places_of(self, table: pd.DataFrame) -> Ints:
        """Return the position of the step of each row; -1 for a step that is not on the axis."""
        return self.places(*_of_rows(table))

    def places(self, iteration: Ints, epoch: Floats) -> Ints:
        """Return the positions of steps; -1 for a step that is not on the axis.

        Args:
            iteration: of each step.
            epoch: of each step; NaN where none is stated.
        """
        number = self._numbers(iteration, epoch)
        at = np.minimum(np.searchsorted(self.steps, number), len(self.steps) - 1)
        return np.where(self.steps[at] == number, at, _NOWHERE)

    def _numbers(self, iteration: Ints, epoch: Floats) -> Ints:
        numbers = _codes(self.iterations, iteration)
        if not len(self.epochs):
            return numbers
        of_epoch = _codes(self.epochs, np.nan_to_num(epoch).astype(np.int64))
        known = (numbers >= 0) & (of_epoch >= 0)
        return np.where(known, of_epoch * len(self.iterations) + numbers, _NOWHERE)

    def range_of(self, first: int, last: int) -> StepRange:
        """Return the range between two of ``steps``."""
        ends = np.array([first, last])
        epoch, iteration = np.divmod(ends, len(self.iterations))
        epochs = self.epochs[epoch].tolist() if len(self.epochs) else (None, None)
        return StepRange(*self.iterations[iteration].tolist(), *epochs)

    def packed(self, name: str, steps: Ints) -> dict[str, Packed]:
        """Return the iterations of ``steps`` under ``name``, and their epochs if there are any."""
        epoch, iteration = np.divmod(steps, len(self.iterations))
        found = {name: packed(self.iterations[iteration], "float64")}
        if len(self.epochs):
            found[f"{name}_epoch"] = packed(self.epochs[epoch], "float64")
        return found


def _of_rows(table: pd.DataFrame) -> tuple[Ints, Floats]:
    iteration = table["iteration"].to_numpy(np.int64)
    if "epoch" not in table:
        return iteration, np.full(len(iteration), np.nan)
    return iteration, table["epoch"].to_numpy(np.float64, na_value=np.nan)


def _codes(known: Ints, values: Ints) -> Ints:
    """Return the position of each value among the known ones, which are ascending; -1 for any other."""
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[at] == values, at, _NOWHERE)

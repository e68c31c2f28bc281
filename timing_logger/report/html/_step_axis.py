"""The axis of the heatmap: the steps of a run in order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.steps import StepRange
from timing_logger.analysis.table_types import Floats, Ints
from timing_logger.report.html._packing import Packed, packed

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

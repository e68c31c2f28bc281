"""Find the training step of each row.

Many training loops count iterations from 0 again in each epoch. An iteration then occurs once in each epoch,
so a step is known by its epoch and iteration. Where iterations never restart, a step is its iteration.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import numbers
from timing_logger.analysis.rows.epochs import Epochs, Meaning, epochs_of
from timing_logger.analysis.rows.grouping import greatest_of_each, least_of_each
from timing_logger.analysis.rows.table_types import Column, Floats, Frame, Ints
from timing_logger.analysis.rows.tables import nullable_integers
from timing_logger.results.plain import StepRange
from timing_logger.schema.record import LARGEST


class Numbering(NamedTuple):
    """The meaning of step numbers: how they are made of epochs and iterations.

    Attributes:
        epochs: the epochs, ascending, NaN last for rows that state none. Empty where iterations do not
            restart: then the number of a step is its iteration.
        least: the least iteration.
        per_epoch: by how much the number of a step grows from one epoch to the next.
        distinct: the iterations that occur, ascending, if they lie too far apart to count all between; then
            step numbers count these. Else empty.
        counted: whether the epochs are counted, not recorded.
    """

    epochs: Floats
    least: int = 0
    per_epoch: int = 1
    distinct: Floats = np.zeros(0)
    counted: bool = False

    @property
    def restarts(self) -> bool:
        """Whether iterations restart, so that epochs tell steps apart."""
        return len(self.epochs) > 0

    def iterations(self, steps: Ints) -> Ints:
        """Return the iteration of each step."""
        if not self.restarts:
            return steps
        place = steps % self.per_epoch
        return self.distinct[place].astype(np.int64) if len(self.distinct) else place + self.least

    def epochs_of(self, steps: Ints) -> Floats:
        """Return the epoch of each step; NaN where iterations do not restart, or no epoch is stated."""
        return self.epochs[steps // self.per_epoch] if self.restarts else np.full(len(steps), np.nan)

    def step_range(self, steps: Ints) -> StepRange:
        """Return the range from the first of these steps to the last."""
        ends = steps[[0, -1]]
        iterations = (int(iteration) for iteration in self.iterations(ends))
        return StepRange(*iterations, *(None if np.isnan(e) else int(e) for e in self.epochs_of(ends)))


class Steps(NamedTuple):
    """The step of each row.

    Attributes:
        number: the number of each row's step, which grows with time; NaN outside of any iteration.
        numbering: the meaning of these numbers.
    """

    number: Floats
    numbering: Numbering

    def columns(self, frame: Frame, rows: Ints) -> dict[str, Column]:
        """Return the column ``epoch`` for these rows, by name; nothing if iterations do not restart.

        Args:
            frame: the table; the column is made in its library.
            rows: positions of the rows.
        """
        if not self.numbering.restarts:
            return {}
        number = self.number[rows]
        epoch = np.full(len(rows), np.nan)
        inside = ~np.isnan(number)
        epoch[inside] = self.numbering.epochs_of(number[inside].astype(np.int64))
        return {"epoch": nullable_integers(frame, "epoch", epoch)}


def with_epoch(names: Sequence[str], present: Container[str]) -> list[str]:
    """Return the names of a result's columns, with ``epoch`` after ``iteration`` if it is ``present``."""
    beside = ["epoch"] if "epoch" in present else []
    return [column for name in names for column in [name, *(beside if name == "iteration" else [])]]


def steps_of(frame: Frame) -> Steps:
    """Find the step of each row of a table that ``opened`` returned.

    The table must have the columns that ``counted_passes`` needs.
    """
    return numbered(epochs_of(frame), numbers(frame, "iteration"))


def numbered(epochs: Epochs, iteration: Floats) -> Steps:
    """Number the steps of rows by their epochs and iterations (NaN outside of any iteration)."""
    inside = ~np.isnan(iteration)
    if epochs.meaning == Meaning.NOTHING or not inside.any():
        return Steps(iteration, Numbering(np.zeros(0)))
    counted, epoch = epochs.meaning == Meaning.TELL_AND_ARE_COUNTED, epochs.of_row
    if counted:  # a process whose iterations never restarted was in the first pass all the time
        epoch = np.where(np.isnan(epoch) & ~epochs.restarts, 0.0, epoch)
    number = np.full(len(iteration), np.nan)
    numbering, number[inside] = numbered_by_epoch(epoch[inside], iteration[inside], counted=counted)
    return Steps(number, numbering)


def numbered_by_epoch(epoch: Floats, iteration: Floats, *, counted: bool) -> tuple[Numbering, Ints]:
    """Number steps whose iterations restart.

    Args:
        epoch: of each step; NaN where none is stated.
        iteration: of each step.
        counted: whether the epochs are counted, not recorded.

    Returns:
        The meaning of the numbers, and the number of each step.
    """
    epochs, code = np.unique(epoch, return_inverse=True)
    least = int(iteration.min())
    per_epoch = int(iteration.max()) - least + 1
    if len(epochs) * per_epoch > LARGEST:
        distinct, place = np.unique(iteration, return_inverse=True)
        return Numbering(epochs, 0, len(distinct), distinct, counted=counted), code * len(distinct) + place
    number = code * per_epoch + (iteration - least).astype(np.int64)
    return Numbering(epochs, least, per_epoch, counted=counted), number


# -- compute how long each step of a process lasted: until its next step began ---------------------------


def iterations_since(iteration: Floats, process: Ints) -> Floats:
    """Return for each step the number of iterations since the step before it.

    It is NaN for the first step of a process, and where the iterations of a process restart: what lies
    between two epochs, such as a validation, is of no step. If the iterations of a process never increase,
    each epoch is a step, and the number is 1 where the iteration stays the same.

    Args:
        iteration: the recorded iteration of each step, in order of time within each process; NaN outside of
            any iteration.
        process: the number of each step's process.
    """
    since = np.full(len(iteration), np.nan)
    since[1:] = np.where(process[1:] == process[:-1], np.diff(iteration), np.nan)
    counts_up = np.bincount(process[since > 0], minlength=int(process.max(initial=-1)) + 1) > 0
    return np.where(since > 0, since, np.where((since == 0) & ~counts_up[process], 1.0, np.nan))


def durations_s(starts_s: Floats, ends_s: Floats, step: Ints, since: Floats) -> Floats:
    """Return the duration of each step in s: until the next one began, per iteration where some are missing.

    Where that is unknown, as for the last step, it is the time to the end of the step's last row; NaN if both
    are unknown.

    Args:
        starts_s, ends_s: the start and end of each row, in seconds.
        step: the number of each row's step, from 0.
        since: of each step the number of iterations since the step before, as ``iterations_since`` returns.
    """
    begins_s = least_of_each(starts_s, step, len(since))
    until_next_s = np.full(len(since), np.nan)
    until_next_s[:-1] = np.diff(begins_s) / since[1:]
    lasted_s = greatest_of_each(ends_s, step, len(since)) - begins_s
    return np.where(np.isnan(until_next_s), lasted_s, until_next_s)

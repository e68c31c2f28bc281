"""Which step of the training each row is of.

Many training loops count iterations from 0 again in each epoch. A number then names as many steps as there
are epochs, so the epoch is part of a step's name. Where numbers never restart, a step is its iteration.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from timing_logger.analysis.epochs import Epochs, Meaning, epochs_of
from timing_logger.analysis.tables import Floats, Frame, Ints, nullable_integers, numbers
from timing_logger.record import LARGEST


class StepRange(NamedTuple):
    """From which step to which; the epochs are None where iterations do not restart."""

    first_iteration: int
    last_iteration: int
    first_epoch: int | None = None
    last_epoch: int | None = None

    def in_words(self) -> str:
        """``iterations 40 to 60``, with the epochs where there are any."""
        first, last = self.first_iteration, self.last_iteration
        if self.first_epoch is None:
            return f"iterations {first} to {last}"
        if self.first_epoch == self.last_epoch:
            return f"iterations {first} to {last} of epoch {self.first_epoch}"
        return f"iteration {first} of epoch {self.first_epoch} to iteration {last} of epoch {self.last_epoch}"


class Numbering(NamedTuple):
    """What the numbers of steps mean.

    Attributes:
        epochs: ascending, NaN last for rows that state none; empty where iterations do not restart, and the
            number of a step is its iteration.
        least: the least iteration.
        per_epoch: by how much the number grows from an epoch to the next.
        distinct: ascending, the iterations that there are, if they lie too far apart to count all between;
            then numbers count these. Else empty.
        counted: whether the epochs are not recorded, but counted.
    """

    epochs: Floats
    least: int = 0
    per_epoch: int = 1
    distinct: Floats = np.zeros(0)
    counted: bool = False

    @property
    def restarts(self) -> bool:
        return len(self.epochs) > 0

    def iterations(self, steps: Ints) -> Ints:
        if not self.restarts:
            return steps
        place = steps % self.per_epoch
        return self.distinct[place].astype(np.int64) if len(self.distinct) else place + self.least

    def epochs_of(self, steps: Ints) -> Floats:
        """NaN where iterations do not restart, or none is stated."""
        return self.epochs[steps // self.per_epoch] if self.restarts else np.full(len(steps), np.nan)

    def step_range(self, steps: Ints) -> StepRange:
        """From the first of these steps to the last."""
        ends = steps[[0, -1]]
        iterations = (int(iteration) for iteration in self.iterations(ends))
        return StepRange(*iterations, *(None if np.isnan(e) else int(e) for e in self.epochs_of(ends)))


class Steps(NamedTuple):
    """The step of each row.

    Attributes:
        number: ascending with time; NaN for what is outside of any iteration.
        numbering: what it means.
    """

    number: Floats
    numbering: Numbering

    def columns(self, frame: Frame, rows: Ints) -> dict[str, nw.Series[Any]]:
        """What results have beside ``iteration``, for these rows of the table: the epoch, or nothing."""
        if not self.numbering.restarts:
            return {}
        number = self.number[rows]
        epoch = np.full(len(rows), np.nan)
        inside = ~np.isnan(number)
        epoch[inside] = self.numbering.epochs_of(number[inside].astype(np.int64))
        return {"epoch": nullable_integers(frame, "epoch", epoch)}


def with_epoch(names: Sequence[str], present: Container[str]) -> list[str]:
    """The names of a result's columns, with the epoch after the iteration if it is ``present``."""
    beside = ["epoch"] if "epoch" in present else []
    return [column for name in names for column in [name, *(beside if name == "iteration" else [])]]


def steps_of(frame: Frame) -> Steps:
    """The steps of a table that ``opened`` returned, with the columns that ``counted_passes`` needs."""
    return numbered(epochs_of(frame), numbers(frame, "iteration"))


def numbered(epochs: Epochs, iteration: Floats) -> Steps:
    """The steps of rows of which this is known."""
    if epochs.meaning == Meaning.NOTHING:
        return Steps(iteration, Numbering(np.zeros(0)))
    counted, epoch = epochs.meaning == Meaning.TELL_AND_ARE_COUNTED, epochs.of_row
    if counted:  # a process that never began anew was in the first pass all the time
        epoch = np.where(np.isnan(epoch) & ~epochs.restarts, 0.0, epoch)
    inside = ~np.isnan(iteration)
    number = np.full(len(iteration), np.nan)
    if inside.any():
        numbering, number[inside] = numbered_by_epoch(epoch[inside], iteration[inside], counted=counted)
        return Steps(number, numbering)
    return Steps(number, Numbering(np.zeros(0)))


def numbered_by_epoch(epoch: Floats, iteration: Any, *, counted: bool) -> tuple[Numbering, Ints]:
    """What numbers of these steps mean, and the numbers; of iterations that do restart."""
    epochs, code = np.unique(epoch, return_inverse=True)
    least = int(iteration.min())
    per_epoch = int(iteration.max()) - least + 1
    if len(epochs) * per_epoch > LARGEST:
        distinct, place = np.unique(iteration, return_inverse=True)
        return Numbering(epochs, 0, len(distinct), distinct, counted=counted), code * len(distinct) + place
    number = code * per_epoch + (iteration - least).astype(np.int64)
    return Numbering(epochs, least, per_epoch, counted=counted), number

"""The steps of a run that count: those after its warm-up, and how long they took."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.arrays import dense_codes, known, numbers, processes_of
from timing_logger.analysis.rows.epochs import epochs_of
from timing_logger.analysis.rows.grouping import any_row_of, least_of_each
from timing_logger.analysis.rows.intervals import wall_times_s
from timing_logger.analysis.rows.rounds import rounds_of
from timing_logger.analysis.rows.steps import iterations_since, numbered
from timing_logger.analysis.rows.table_types import Bools, Floats, Frame, Ints
from timing_logger.results import criteria
from timing_logger.results.run_summary import StepKind


class StepLength(NamedTuple):
    """How long the steps of a process were that count.

    Attributes:
        n_steps: how many they are.
        n_warm_up: how many before them were left out.
        mean_ms, median_ms: how long they took, each until the next one began; NaN if unknown.
    """

    n_steps: int
    n_warm_up: int
    mean_ms: float
    median_ms: float


class TakenSteps(NamedTuple):
    """How long each of the steps took that count, of all processes.

    Attributes:
        process: the number of its process.
        number: its iteration, or its round.
        place: its position among all steps of its process, from 0 on.
        ms: how long it took, until the next one began; NaN if unknown.
    """

    process: Ints
    number: Ints
    place: Ints
    ms: Floats

    @property
    def restarts(self) -> Bools:
        """Of each step, whether the numbers of its process ever stay or fall from one step to the next."""
        falls = np.zeros(int(self.process.max(initial=-1)) + 1, np.bool_)
        falls[self.process[1:][(np.diff(self.number) <= 0) & (np.diff(self.process) == 0)]] = True
        return falls[self.process]


class CountedSteps(NamedTuple):
    """The rows of some processes that count, and in which of their steps.

    Attributes:
        rows: positions of the rows that are of a step that counts.
        process: of each of these rows, the number of its process.
        step: of each of these rows, the position of its step among those of its process that count.
        lengths: of each process.
        taken: each step by itself; None where all rows are one step.
        kind: what a step is.
    """

    rows: Ints
    process: Ints
    step: Ints
    lengths: list[StepLength]
    taken: TakenSteps | None
    kind: StepKind


def counted_steps(frame: Frame) -> CountedSteps:
    """Return the rows of the steps that count, of a table that ``opened`` returned.

    A step is what was recorded as an iteration, in its epoch where iterations restart; where no process
    records any, a round of the collectives that repeat; where nothing repeats, all rows are one step.
    """
    process = processes_of(frame)
    epochs = epochs_of(frame)
    iteration = numbers(frame, "iteration")
    number = numbered(epochs, iteration).number
    if not np.isnan(number).all():
        return _counted(frame, process, number, iteration)
    number = rounds_of(frame, process)
    if not np.isnan(number).all():
        return _counted(frame, process, number, number)._replace(kind="rounds")
    return _whole_run(frame, process)


def _counted(frame: Frame, process: Ints, number: Floats, iteration: Floats) -> CountedSteps:
    inside = np.flatnonzero(~np.isnan(number))
    entry = dense_codes(process[inside], number[inside])
    one = inside[any_row_of(entry)]
    place = _place_in_process(process[one])
    n_steps = np.bincount(process[one], minlength=int(process.max(initial=-1)) + 1)
    n_warm_up = np.minimum(criteria.MAX_WARM_UP_STEPS, (criteria.WARM_UP_SHARE * n_steps).astype(np.int64))
    taken_ms = _taken_ms(frame, inside, entry, process[one], iteration[one])
    counts = place >= n_warm_up[process[one]]
    lengths = [
        _length(taken_ms[counts & (process[one] == at)], int(n - left), int(left))
        for at, (n, left) in enumerate(zip(n_steps.tolist(), n_warm_up.tolist(), strict=True))
    ]
    taken = TakenSteps(
        process[one][counts], iteration[one][counts].astype(np.int64), place[counts], taken_ms[counts]
    )
    kept = counts[entry]
    step = (place - n_warm_up[process[one]])[entry][kept]
    return CountedSteps(inside[kept], process[inside[kept]], step, lengths, taken, "iterations")


def _place_in_process(process: Ints) -> Ints:
    """Return the position of each step among those of its process, which come one after the other."""
    n_steps = np.bincount(process)
    return np.arange(len(process)) - (np.cumsum(n_steps) - n_steps)[process]


def _taken_ms(frame: Frame, inside: Ints, entry: Ints, process: Ints, iteration: Floats) -> Floats:
    """Return for each step the time until the next one began, per iteration; NaN for the last ones."""
    begins_s = least_of_each(numbers(frame, "start_counter")[inside], entry, len(process))
    found = np.full(len(process), np.nan)
    found[:-1] = 1e3 * np.diff(begins_s) / iterations_since(iteration, process)[1:]
    return found


def _length(taken_ms: Floats, n_steps: int, n_warm_up: int) -> StepLength:
    taken_ms = known(taken_ms)
    if not len(taken_ms):
        return StepLength(n_steps, n_warm_up, np.nan, np.nan)
    return StepLength(n_steps, n_warm_up, float(taken_ms.mean()), float(np.median(taken_ms)))


def _whole_run(frame: Frame, process: Ints) -> CountedSteps:
    wall_ms = (1e3 * wall_times_s(frame, process)).tolist()
    lengths = [StepLength(1, 0, one, one) for one in wall_ms]
    rows = np.arange(len(process))
    return CountedSteps(rows, process, np.zeros(len(process), np.int64), lengths, None, "run")

"""Find the training step of each row.

Many training loops count iterations from 0 again in each epoch. An iteration then occurs once in each epoch,
so a step is known by its epoch and iteration. Where iterations never restart, a step is its iteration.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.rows.analysis import EPOCH_OF_STEP, MEANING_OF_EPOCHS, PROCESS_RESTARTS
from timing_logger.analysis.rows.arrays import (
    Bools,
    Column,
    Floats,
    Frame,
    Ints,
    coded_text,
    dense_codes,
    each_text,
    numbers,
    processes_of,
)
from timing_logger.analysis.rows.grouping import any_row_of, greatest_of_each, least_of_each
from timing_logger.analysis.rows.intervals import thread_or_stream
from timing_logger.analysis.rows.operations import BACKEND, WAIT, base_operation
from timing_logger.analysis.rows.tables import nullable_integers
from timing_logger.results import criteria
from timing_logger.results.plain import StepRange
from timing_logger.schema.record import LARGEST


class Meaning(IntEnum):
    """What epochs are for in a run: the greatest value of its processes.

    Iterations restart in no process; or they do, and epochs tell steps apart; or epochs are also counted,
    since some process does not record them.
    """

    NOTHING = 0
    TELL_STEPS_APART = 1
    TELL_AND_ARE_COUNTED = 2


class Epochs(NamedTuple):
    """The epoch of each row's step, and what epochs are for.

    Attributes:
        of_row: one entry per row: the epoch of its step; NaN where none is known.
        restarts: one entry per row: whether iterations restart in its process.
        meaning: what epochs are for. They tell steps apart if iterations restart in some process. They are
            counted in processes that record at most one epoch, and whose iterations fall back.
    """

    of_row: Floats
    restarts: Bools
    meaning: Meaning


def epochs_of(frame: Frame) -> Epochs:
    """Find the epoch of each row's step, for a table that ``opened`` returned."""
    if EPOCH_OF_STEP in frame.columns:
        meaning = frame[MEANING_OF_EPOCHS].to_numpy()
        restarts = frame[PROCESS_RESTARTS].to_numpy()
        return Epochs(numbers(frame, EPOCH_OF_STEP), restarts, Meaning(int(meaning.max(initial=0))))
    recorded, iteration = numbers(frame, "epoch"), numbers(frame, "iteration")
    process = processes_of(frame)
    least, greatest = _ends(process, recorded)
    restarting = processes_that_restart(process, recorded, iteration)
    restarts = np.isin(process, restarting)
    epoch = _of_whole_iterations(process, recorded, iteration, _open(process, recorded, restarting))
    passes = counted_passes(frame, ~(least < greatest)[process])
    if passes is None:
        return Epochs(epoch, restarts, Meaning.TELL_STEPS_APART if len(restarting) else Meaning.NOTHING)
    counted = (np.bincount(process, passes) > 0)[process]
    epoch = np.where(counted, passes + np.nan_to_num(least)[process], epoch)
    return Epochs(epoch, restarts | counted, Meaning.TELL_AND_ARE_COUNTED)


def processes_that_restart(process: Ints, epoch: Floats, iteration: Floats) -> Ints:
    """Return the processes in which an epoch goes back to iterations that the epoch before had.

    Args:
        process: for each row the number of its process.
        epoch, iteration: of each row; NaN where unknown.

    Returns:
        The numbers of these processes, ascending.
    """
    rows = _where_anything_changes(process, epoch, iteration, ~np.isnan(epoch) & ~np.isnan(iteration))
    if not len(rows) or epoch[rows].min() == epoch[rows].max():
        return process[:0]
    key = dense_codes(process[rows], epoch[rows])
    least, greatest = _ends(key, iteration[rows])
    process_of_key = process[rows][any_row_of(key)]
    follows = process_of_key[1:] == process_of_key[:-1]
    # A single iteration that lies in two epochs is no restart; epochs of one iteration each are.
    goes_back = (least[1:] < greatest[:-1]) | (least[1:] <= least[:-1])
    return np.unique(process_of_key[1:][follows & goes_back])


def _ends(key: Ints, values: Floats) -> tuple[Floats, Floats]:
    """Return the least and the greatest value of each key; NaN for a key without any."""
    n_keys = int(key.max(initial=-1)) + 1
    return least_of_each(values, key, n_keys), greatest_of_each(values, key, n_keys)


def _where_anything_changes(process: Ints, epoch: Floats, iteration: Floats, wanted: Bools) -> Ints:
    """Return the first of each run of equal rows: few rows that hold all the information."""
    rows = np.flatnonzero(wanted)
    changes = [np.diff(values[rows], prepend=-1) != 0 for values in (process, epoch, iteration)]
    changed: Bools = np.logical_or.reduce(changes)
    if len(rows):
        changed[0] = True
    return rows[changed]


def _open(process: Ints, epoch: Floats, restarts: Ints) -> Bools:
    """Tell for each process whether rows of one iteration may state several epochs, though it is one step."""
    least, greatest = _ends(process, epoch)
    lacks_some = np.bincount(process[np.isnan(epoch)], minlength=len(least)) > 0
    found = (least < greatest) | (lacks_some & ~np.isnan(least))
    found[restarts] = False
    return found


def _of_whole_iterations(process: Ints, epoch: Floats, iteration: Floats, wanted: Bools) -> Floats:
    """Return the epochs with a single epoch for all rows of an iteration, in the ``wanted`` processes.

    It is the earlier epoch if an iteration lies in two. If no row of it states one, it is that of the
    iteration before, or else of the next one.
    """
    rows = np.flatnonzero(wanted[process] & ~np.isnan(iteration)) if wanted.any() else process[:0]
    if np.isnan(epoch[rows]).all():
        return epoch
    of_step = dense_codes(process[rows], iteration[rows])
    found: Floats = epoch.copy()
    earliest, _ = _ends(of_step, epoch[rows])
    found[rows] = _carried_on(earliest, process[rows][any_row_of(of_step)])[of_step]
    return found


def _carried_on(epoch: Floats, process: Ints) -> Floats:
    """Fill in the epoch of steps that state none: from the process's step before, or else the next one."""
    known, place = np.flatnonzero(~np.isnan(epoch)), np.arange(len(epoch))
    before = known[np.maximum(np.searchsorted(known, place, side="right") - 1, 0)]
    behind = known[np.minimum(np.searchsorted(known, place), len(known) - 1)]
    nearest = np.where((process[before] == process) & (before <= place), before, behind)
    return np.where(process[nearest] == process, epoch[nearest], np.nan)


# -- passes through the iterations, where no epoch is recorded ----------------------------------------
# The thread (on one clock) with most rows goes through iterations in order, so where its number falls by
# half of the range or more, the next pass begins. A smaller fall is no new pass: a batch may be fetched
# ahead. Other threads may be behind or ahead of it by some iterations, even when a pass has just begun: their
# rows belong to the pass whose iteration of this number was nearest in time.


_LATE = {WAIT, BACKEND}
"""Operations that may be recorded under an iteration that is over."""


def counted_passes(frame: Frame, wanted: Bools) -> Floats | None:
    """Count for each row how often iterations had restarted in its process before it.

    Args:
        frame: a table that ``opened`` returned.
        wanted: for each row whether its process is examined; counts of other rows are 0.

    Returns:
        The counts, one entry per row; None if iterations never restarted.
    """
    iteration = numbers(frame, "iteration")
    process = processes_of(frame)
    inside = ~np.isnan(iteration) & wanted
    falls = (np.diff(iteration[inside]) < 0) & (np.diff(process[inside]) == 0)  # of whatever threads
    falling = np.unique(process[inside][1:][falls])
    if not len(falling):
        return None
    in_time = each_text(coded_text(frame, "operation"), lambda name: base_operation(name) not in _LATE)
    lane = thread_or_stream(frame)
    start_s = numbers(frame, "start_counter")
    passes = np.zeros(len(frame))
    for one in falling:
        rows = np.flatnonzero(inside & (process == one))
        when = np.arange(len(rows), dtype=np.float64) if np.isnan(start_s[rows]).any() else start_s[rows]
        passes[rows] = _passes(iteration[rows], when, lane[rows], in_time[rows])
    return passes if passes.any() else None


def _passes(iteration: Floats, when: Floats, lane: Ints, in_time: Bools) -> Floats:
    """Return the pass of each row of one process."""
    if not in_time.any():
        return np.zeros(len(iteration))
    leading = np.flatnonzero(in_time & (lane == np.bincount(lane[in_time]).argmax()))
    leading = leading[np.argsort(when[leading], kind="stable")]
    led = iteration[leading]
    falls = np.diff(led, prepend=led[0]) <= -max(criteria.MIN_EPOCH_FALL_ITERATIONS, np.ptp(led) / 2)
    pass_of_leading = np.cumsum(falls).astype(np.float64)
    if not falls.any():
        return np.zeros(len(iteration))
    place = dense_codes(iteration).astype(np.float64)  # the order of iterations is all that is needed of them
    passes = _nearest(place, when, place[leading], when[leading], pass_of_leading)
    passes[leading] = pass_of_leading
    return passes


def _nearest(
    iteration: Floats, when: Floats, led_iteration: Floats, led_when: Floats, led_pass: Floats
) -> Floats:
    """Return for each row the pass under way, or one beside it whose step of this number was nearer in time.

    Iterations are numbered from 0 here, in their order. Arguments that begin with ``led`` are of the rows of
    the leading thread, in order of time.
    """
    per_pass = iteration.max() + 1
    led_step = np.maximum.accumulate(led_pass * per_pass + led_iteration)
    begins = led_when[np.flatnonzero(np.diff(led_pass, prepend=-1))]
    under_way = np.maximum(np.searchsorted(begins, when, side="right") - 1, 0)
    nearest, least = under_way.astype(np.float64), np.full(len(when), np.inf)
    for candidate in (under_way, under_way - 1, under_way + 1):
        step = candidate * per_pass + iteration
        at = np.minimum(np.searchsorted(led_step, step), len(led_step) - 1)
        distance = np.where(led_step[at] == step, np.abs(when - led_when[at]), np.inf)
        nearest = np.where(distance < least, candidate, nearest)
        least = np.minimum(distance, least)
    return nearest


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

"""Which epoch the step of each row is of: asked of each process by itself, whatever others there are.

So what is found in one process's rows is what is found in the rows of all.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from timing_logger.analysis.columns import EPOCH_OF_STEP, MEANING_OF_EPOCHS, PROCESS_RESTARTS
from timing_logger.analysis.passes import counted_passes
from timing_logger.analysis.tables import Bools, Floats, Frame, Ints, dense_codes, numbers


class Meaning(IntEnum):
    """What epochs are for in a run: the greatest of what they are for in its processes."""

    NOTHING = 0
    TELL_STEPS_APART = 1
    TELL_AND_ARE_COUNTED = 2


class Epochs(NamedTuple):
    """The epoch of each row's step, and what they are for.

    Attributes:
        of_row: NaN where none is known.
        restarts: whether iterations restart in the row's process.
        meaning: they tell steps apart where iterations restart in some process. They are counted in processes
            that record one at most, and whose iterations fall back.
    """

    of_row: Floats
    restarts: Bools
    meaning: Meaning


def epochs_of(frame: Frame) -> Epochs:
    """The epochs of a table that ``opened`` returned."""
    if EPOCH_OF_STEP in frame.columns:
        meaning = frame[MEANING_OF_EPOCHS].to_numpy()
        restarts = frame[PROCESS_RESTARTS].to_numpy()
        return Epochs(numbers(frame, EPOCH_OF_STEP), restarts, Meaning(int(meaning.max(initial=0))))
    recorded, iteration = numbers(frame, "epoch"), numbers(frame, "iteration")
    process = dense_codes(frame["rank"].to_numpy(), frame["incarnation"].to_numpy())
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
    """Those in which an epoch goes back to iterations that the one before had."""
    rows = _where_anything_changes(process, epoch, iteration, ~np.isnan(epoch) & ~np.isnan(iteration))
    if not len(rows) or epoch[rows].min() == epoch[rows].max():
        return process[:0]
    key = dense_codes(process[rows], epoch[rows])
    least, greatest = _ends(key, iteration[rows])
    process_of_key = np.zeros(len(least), np.int64)
    process_of_key[key] = process[rows]
    follows = process_of_key[1:] == process_of_key[:-1]
    # A single iteration that lies in two epochs is no restart; epochs of one iteration each are.
    goes_back = (least[1:] < greatest[:-1]) | (least[1:] <= least[:-1])
    found: Ints = np.unique(process_of_key[1:][follows & goes_back])
    return found


def _ends(key: Ints, values: Floats) -> tuple[Floats, Floats]:
    """The least and the greatest of each key's values; NaN without any."""
    ends = np.full((2, int(key.max(initial=-1)) + 1), np.nan)
    np.fmin.at(ends[0], key, values)
    np.fmax.at(ends[1], key, values)
    return ends[0], ends[1]


def _where_anything_changes(process: Ints, epoch: Floats, iteration: Floats, wanted: Bools) -> Ints:
    """The first of each run of equal rows: a small part, and all that there is to know of them."""
    rows = np.flatnonzero(wanted)
    changes = [np.diff(values[rows], prepend=-1) != 0 for values in (process, epoch, iteration)]
    changed: Bools = np.logical_or.reduce(changes)
    if len(rows):
        changed[0] = True
    return rows[changed]


def _open(process: Ints, epoch: Floats, restarts: Ints) -> Bools:
    """Of which processes rows of one iteration might state several epochs, though it is one step."""
    least, greatest = _ends(process, epoch)
    lacks_some = np.bincount(process[np.isnan(epoch)], minlength=len(least)) > 0
    found = (least < greatest) | (lacks_some & ~np.isnan(least))
    found[restarts] = False
    return found


def _of_whole_iterations(process: Ints, epoch: Floats, iteration: Floats, wanted: Bools) -> Floats:
    """The same epochs, but one for all rows of an iteration of the processes that are ``wanted``.

    The earlier one, if it lies in two; if it states none, that of the iteration before it, or else behind it.
    """
    rows = np.flatnonzero(wanted[process] & ~np.isnan(iteration)) if wanted.any() else process[:0]
    if np.isnan(epoch[rows]).all():
        return epoch
    of_step = dense_codes(process[rows], iteration[rows])
    process_of_step = np.zeros(of_step.max() + 1, np.int64)
    process_of_step[of_step] = process[rows]
    found: Floats = epoch.copy()
    found[rows] = _carried_on(_ends(of_step, epoch[rows])[0], process_of_step)[of_step]
    return found


def _carried_on(epoch: Floats, process: Ints) -> Floats:
    """With the epoch of the process's step before where one states none, or else of that behind."""
    known, place = np.flatnonzero(~np.isnan(epoch)), np.arange(len(epoch))
    before = known[np.maximum(np.searchsorted(known, place, side="right") - 1, 0)]
    behind = known[np.minimum(np.searchsorted(known, place), len(known) - 1)]
    nearest = np.where((process[before] == process) & (before <= place), before, behind)
    return np.where(process[nearest] == process, epoch[nearest], np.nan)

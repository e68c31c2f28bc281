"""Count the passes through the iterations, where no epoch is recorded, from the order of rows in time.

The thread (on one clock) with most rows goes through iterations in order, so where its number falls by half
of the range or more, the next pass begins. A smaller fall is no new pass: a batch may be fetched ahead. Other
threads may be behind or ahead of it by some iterations, even when a pass has just begun: their rows belong to
the pass whose iteration of this number was nearest in time.
"""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.arrays import coded_text, dense_codes, each_text, numbers, processes_of
from timing_logger.analysis.blocking import thread_or_stream
from timing_logger.analysis.operations import BACKEND, WAIT, base_operation
from timing_logger.analysis.table_types import Bools, Floats, Frame, Ints

_LATE = {WAIT, BACKEND}
"""Operations that may be recorded under an iteration that is over."""

_LEAST_FALL = 2
"""The least fall of the iteration at which a new pass begins; a row that is behind by one is only late."""


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
    falling = _where_it_falls(iteration[inside], process[inside])
    if not len(falling):
        return None
    in_time = each_text(coded_text(frame, "operation"), lambda name: base_operation(name) not in _LATE)
    lane = thread_or_stream(frame)
    start_s = numbers(frame, "start_counter")
    passes = np.zeros(len(frame))
    for one in falling:
        rows = np.flatnonzero(inside & (process == one))
        passes[rows] = _passes(iteration[rows], _when(start_s[rows]), lane[rows], in_time[rows])
    return passes if passes.any() else None


def _where_it_falls(iteration: Floats, process: Ints) -> Ints:
    """Return the processes in which the iteration falls from a row to the next, of whatever threads."""
    falls = (np.diff(iteration) < 0) & (np.diff(process) == 0)
    return np.unique(process[1:][falls])


def _when(start_s: Floats) -> Floats:
    """Return the starts of rows, or the order of recording if not every start is known."""
    return np.arange(len(start_s), dtype=np.float64) if np.isnan(start_s).any() else start_s


def _passes(iteration: Floats, when: Floats, lane: Ints, in_time: Bools) -> Floats:
    """Return the pass of each row of one process."""
    if not in_time.any():
        return np.zeros(len(iteration))
    leading = np.flatnonzero(in_time & (lane == np.bincount(lane[in_time]).argmax()))
    leading = leading[np.argsort(when[leading], kind="stable")]
    led = iteration[leading]
    falls = np.diff(led, prepend=led[0]) <= -max(_LEAST_FALL, np.ptp(led) / 2)
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

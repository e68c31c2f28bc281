"""Compute how long each step of a process lasted: until its next step began."""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.grouping import greatest_of_each, least_of_each
from timing_logger.analysis.table_types import Floats, Ints


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

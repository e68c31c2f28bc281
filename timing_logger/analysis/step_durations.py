"""How long a step of one process lasted: until its next one began."""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.tables import Bools, Floats, Ints


def first_starts_s(start_s: Floats, step: Ints, wanted: Bools, n_steps: int) -> Floats:
    """When the first of the ``wanted`` rows of each step began; NaN where that is unknown."""
    begins_s = np.full(n_steps, np.nan)
    np.fmin.at(begins_s, step[wanted], start_s[wanted])
    return begins_s


def iterations_since(iteration: Floats, process: Ints) -> Floats:
    """For each step how many iterations after the step before it was; NaN for the first of a process.

    And NaN where a process counts from the beginning again: what lies between two epochs, a validation say,
    is of no step. Unless it never does anything else: then each epoch is a step.

    Args:
        iteration: as recorded, of steps in order of time within each process; NaN outside of any.
        process: of each step.
    """
    since = np.full(len(iteration), np.nan)
    since[1:] = np.where(process[1:] == process[:-1], np.diff(iteration), np.nan)
    counts_up = np.bincount(process[since > 0], minlength=int(process.max(initial=-1)) + 1) > 0
    return np.where(since > 0, since, np.where((since == 0) & ~counts_up[process], 1.0, np.nan))


def durations_s(begins_s: Floats, ends_s: Floats, since: Floats) -> Floats:
    """The duration of each step: until the next one began, per iteration where some are not recorded.

    To the end of its last row where that is not known, as of the last step of all; NaN if neither is.

    Args:
        begins_s, ends_s: when its first row began, and its last ended.
        since: as ``iterations_since`` returns.
    """
    until_next_s = np.full(len(begins_s), np.nan)
    until_next_s[:-1] = np.diff(begins_s) / since[1:]
    return np.where(np.isnan(until_next_s), ends_s - begins_s, until_next_s)

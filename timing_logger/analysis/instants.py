"""When the operation of each row began and ended, and how long it took; and how long each process ran."""

from __future__ import annotations

import numpy as np

from timing_logger.analysis.grouping import greatest_of_each, least_of_each
from timing_logger.analysis.operations import goes_on
from timing_logger.analysis.tables import Bools, Floats, Frame, Ints, coded_text, each_text, numbers


def instants(frame: Frame) -> tuple[Floats, Floats, Floats]:
    """Return ``start_s``, ``end_s`` and ``clock_uncertainty_s`` of each row, in seconds.

    A table without these columns gives the ranks' own counters as if they were on one time axis, and an
    unknown uncertainty (NaN).
    """
    unknown = np.full(len(frame), np.nan)
    if not {"start_s", "end_s"} <= set(frame.columns):
        return numbers(frame, "start_counter"), numbers(frame, "end_counter"), unknown
    has_uncertainty = "clock_uncertainty_s" in frame.columns
    uncertainty = numbers(frame, "clock_uncertainty_s") if has_uncertainty else unknown
    return numbers(frame, "start_s"), numbers(frame, "end_s"), uncertainty


def covers_issue_alone(frame: Frame) -> Bools:
    """Tell for each row whether it covers only the call that issued a non-blocking operation.

    The timed communicators and process groups see such operations end, and number them. A row without
    ``seq`` was timed by hand around the call, and the operation goes on after it.
    """
    in_background = each_text(coded_text(frame, "operation"), goes_on)
    return in_background & np.isnan(numbers(frame, "seq"))


def durations_ms(frame: Frame) -> Floats:
    """Return how long the operation of each row took, in ms; NaN where the row covers only its issue."""
    return np.where(covers_issue_alone(frame), np.nan, numbers(frame, "elapsed_ms"))


def wall_times_s(frame: Frame, process: Ints) -> Floats:
    """Return the time from the first start of each process to its last end, in seconds; NaN if unknown.

    Args:
        frame: a table that ``opened`` returned.
        process: for each row the number of its process, from 0.
    """
    n_processes = process.max(initial=-1) + 1
    last_s = greatest_of_each(numbers(frame, "end_counter"), process, n_processes)
    return last_s - least_of_each(numbers(frame, "start_counter"), process, n_processes)

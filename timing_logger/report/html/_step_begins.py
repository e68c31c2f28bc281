"""When each step of a process began, and how long each kind of pause lasted in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.arrays import coded_text, dense_codes, numbers, processes_of
from timing_logger.analysis.grouping import least_of_each
from timing_logger.analysis.intervals import union_lengths
from timing_logger.analysis.operations import BACKEND, PAUSES, base_operation
from timing_logger.analysis.steps import steps_of
from timing_logger.analysis.table_types import Floats
from timing_logger.analysis.tables import opened


class StepBegins(NamedTuple):
    """What a strip of causes needs of each step; arrays have an entry for each row of ``overlap``.

    Attributes:
        begin_s: when the step began, on the axis of its process (``start_counter``); NaN if unknown.
        pauses_ms: for each operation of ``PAUSES`` that is recorded, for how long some thread of the process
            was in one.
    """

    begin_s: Floats
    pauses_ms: Mapping[str, Floats]


def step_begins(timings: pd.DataFrame) -> StepBegins:
    """Return it of whole processes, such as those of one file."""
    frame = opened(timings)
    step = dense_codes(processes_of(frame), steps_of(frame).number)  # as ``overlap`` numbers its rows
    n_steps = int(step.max(initial=-1)) + 1
    start_s, end_s = numbers(frame, "start_counter"), numbers(frame, "end_counter")
    operation, names = coded_text(frame, "operation")
    told = np.array([base_operation(name) != BACKEND for name in names], bool)[operation]
    pauses_ms = {}
    for name in set(names) & set(PAUSES):
        its = operation == names.index(name)
        pauses_ms[name] = 1e3 * union_lengths(step[its], start_s[its], end_s[its], n_steps)
    return StepBegins(least_of_each(start_s[told], step[told], n_steps), pauses_ms)


def joined_begins(parts: Sequence[StepBegins]) -> StepBegins:
    """Return it of all processes: a pause that some of them never made lasted 0 ms there."""
    kinds = [name for name in PAUSES if any(name in part.pauses_ms for part in parts)]
    of_kind = {
        name: np.concatenate([part.pauses_ms.get(name, np.zeros(len(part.begin_s))) for part in parts])
        for name in kinds
    }
    return StepBegins(np.concatenate([part.begin_s for part in parts]), of_kind)

"""Reduce the rows of whole processes to their times by step, and to the rows of communication."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.accounting.part import CommunicationPart, Spent, map_account, map_communication
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.arrays import coded_text, dense_codes, each_text, processes_of
from timing_logger.analysis.rows.epochs import epochs_of
from timing_logger.analysis.rows.grouping import any_row_of, n_earlier_alike
from timing_logger.analysis.rows.operations import needs_no_other_rank
from timing_logger.analysis.rows.rounds import rounds_of
from timing_logger.analysis.rows.steps import Numbering, steps_of
from timing_logger.analysis.rows.table_types import Floats, Frame, Ints
from timing_logger.analysis.rows.tables import opened
from timing_logger.analysis.step_times.process_steps import ProcessSteps, process_steps
from timing_logger.analysis.step_times.work_rows import WorkRows
from timing_logger.schema.record import DEVICE_CLOCK


class StepTimesPart(NamedTuple):
    """What the step times of a run need of some of its processes.

    Attributes:
        steps: the times of the processes by step, in the order of rank and incarnation.
        communication: their lines of control, and rows of communication.
        spent: how these lines spent the time in which they were not blocked; None if no account is asked for.
        numbering: what the numbers of their steps mean.
        operations: names of their operations.
        has_iterations: whether iterations are recorded; else steps are counted from 0.
        on_device: whether rows of own work are on the device's clock.
    """

    steps: ProcessSteps
    communication: CommunicationPart
    spent: Spent | None
    numbering: Numbering
    operations: list[str]
    has_iterations: bool
    on_device: bool

    def without_steps(self) -> StepTimesPart:
        """Return the part as if its processes had recorded no step."""
        return self._replace(steps=self.steps.without_steps())


def map_step_times(
    timings: IntoDataFrameT, *, with_account: bool = False, with_gaps: bool = False
) -> StepTimesPart:
    """Reduce the rows of whole processes, such as those of one file, to what the step times need.

    Args:
        timings: the rows.
        with_account: whether the account of the run is asked for, too.
        with_gaps: whether ``StepTimes.in_gaps_ms`` is asked for of all own work.
    """
    frame = opened(timings, COLUMNS_OF["stragglers"])
    process = processes_of(frame)
    has_iterations = frame["iteration"].count() > 0
    number, numbering = steps_of(frame)
    if not has_iterations:
        number = _counted(process, frame)
    entry, steps = _entries(process, number, epochs_of(frame).of_row)
    rows = WorkRows.of(frame, process, entry)
    ranks = frame["rank"].to_numpy().astype(np.int64)[any_row_of(process)]
    found = process_steps(rows, ranks, steps, numbering.iterations(steps[1]), with_gaps=with_gaps)
    n_steps = found.n_steps
    place = np.where(entry >= 0, entry - (np.cumsum(n_steps) - n_steps)[process], -1)
    communication, spent = (
        map_account(frame, place) if with_account else (map_communication(frame, process, place), None)
    )
    return StepTimesPart(
        found, communication, spent, numbering, rows.operations, has_iterations, _works_on_device(frame)
    )


def _entries(process: Ints, number: Floats, epoch: Floats) -> tuple[Ints, tuple[Ints, Ints, Floats]]:
    """Number the steps of each process that occur, from 0 and in order of processes and steps.

    Args:
        process, number, epoch: of each row, the last two NaN outside of any step.

    Returns:
        For each row the number of its step of its process, -1 outside of any; and for each of these the
        process, the number of the step, and its epoch.
    """
    inside = np.flatnonzero(~np.isnan(number))
    entry = np.full(len(number), -1)
    entry[inside] = dense_codes(process[inside], number[inside])
    one = inside[any_row_of(entry[inside])]
    return entry, (process[one], number[one].astype(np.int64), epoch[one])


def _counted(process: Ints, frame: Frame) -> Floats:
    """Return the round of each row; in a process without rounds the number of earlier rows of its kind."""
    number = rounds_of(frame, process)
    has_rounds = np.bincount(process, ~np.isnan(number)) > 0
    kind = dense_codes(process, coded_text(frame, "operation")[0], coded_text(frame, "layer_name")[0])
    earlier = n_earlier_alike(kind, np.arange(len(kind), dtype=np.float64))
    return np.where(has_rounds[process], number, earlier)


def _works_on_device(frame: Frame) -> bool:
    own = each_text(coded_text(frame, "operation"), needs_no_other_rank)
    on_device = each_text(coded_text(frame, "clock"), DEVICE_CLOCK.__eq__)
    return bool((own & on_device).any())

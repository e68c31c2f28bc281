"""Reduce the rows of whole processes to their times by step, and to the rows of communication."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.accounting.part import CommunicationPart, Spent, map_account, map_communication
from timing_logger.analysis.arrays import coded_text, dense_codes, each_text, processes_of
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.analysis.epochs import epochs_of
from timing_logger.analysis.grouping import n_earlier_alike, rows_of_each
from timing_logger.analysis.operations import needs_no_other_rank
from timing_logger.analysis.rounds import rounds_of
from timing_logger.analysis.step_times.rank_steps import RankSteps, WorkRows, rank_steps
from timing_logger.analysis.steps import Numbering, steps_of
from timing_logger.analysis.table_types import Bools, Floats, Frame, Ints
from timing_logger.analysis.tables import opened
from timing_logger.record import DEVICE_CLOCK


class StepTimesPart(NamedTuple):
    """What the step times of a run need of some of its processes.

    Attributes:
        processes: the times of each process by step, in the order of rank and incarnation.
        epochs: for each process the epoch of each of its steps; NaN where none is known.
        communication: their lines of control, and rows of communication.
        spent: how these lines spent the time in which they were not blocked; None if no account is asked for.
        numbering: what the numbers of their steps mean.
        operations: names of their operations.
        has_iterations: whether iterations are recorded; else steps are counted from 0.
        on_device: whether rows of own work are on the device's clock.
    """

    processes: list[RankSteps]
    epochs: list[Floats]
    communication: CommunicationPart
    spent: Spent | None
    numbering: Numbering
    operations: list[str]
    has_iterations: bool
    on_device: bool

    def without_steps(self) -> StepTimesPart:
        """Return the part as if its processes had recorded no step."""
        processes = [steps.without_steps() for steps in self.processes]
        return self._replace(processes=processes, epochs=[epochs[:0] for epochs in self.epochs])


def map_step_times(timings: IntoDataFrameT, *, with_account: bool = False) -> StepTimesPart:
    """Reduce the rows of whole processes, such as those of one file, to what the step times need.

    Args:
        timings: the rows.
        with_account: whether the account of the run is asked for, too.
    """
    frame = opened(timings, COLUMNS_OF["stragglers"])
    rank = frame["rank"].to_numpy().astype(np.int64)
    process = processes_of(frame)
    has_iterations = frame["iteration"].count() > 0
    number, numbering = steps_of(frame)
    if not has_iterations:
        number = _counted(process, frame)
    rows, epoch = WorkRows.of(frame, number), epochs_of(frame).of_row
    found, epochs, place = [], [], np.full(len(frame), -1)
    for chosen in rows_of_each(process):
        steps = rank_steps(rows.only(chosen), int(rank[chosen][0]), numbering)
        found.append(steps)
        at = _places(number[chosen], steps.iterations)
        epochs.append(_epoch_of_each(at, epoch[chosen], len(steps.iterations)))
        place[chosen] = at
    communication, spent = (
        map_account(frame, place) if with_account else (map_communication(frame, process, place), None)
    )
    return StepTimesPart(
        found, epochs, communication, spent, numbering, rows.operations, has_iterations,
        _works_on_device(frame, rows),
    )  # fmt: skip


def _counted(process: Ints, frame: Frame) -> Floats:
    """Return the round of each row; in a process without rounds the number of earlier rows of its kind."""
    number = rounds_of(frame, process)
    has_rounds = np.bincount(process, ~np.isnan(number)) > 0
    kind = dense_codes(process, coded_text(frame, "operation")[0], coded_text(frame, "layer_name")[0])
    earlier = n_earlier_alike(kind, np.arange(len(kind), dtype=np.float64))
    return np.where(has_rounds[process], number, earlier)


def _places(number: Floats, iterations: Ints) -> Ints:
    """Return the position of each row's step among the steps of its process; -1 outside of any step."""
    inside = ~np.isnan(number)
    place = np.full(len(number), -1)
    place[inside] = np.searchsorted(iterations, number[inside])
    return place


def _epoch_of_each(place: Ints, epoch: Floats, n_steps: int) -> Floats:
    """Return the epoch of each step of a process: that of any of its rows."""
    found = np.full(n_steps, np.nan)
    found[place[place >= 0]] = epoch[place >= 0]
    return found


def _works_on_device(frame: Frame, rows: WorkRows) -> bool:
    on_device: Bools = each_text(coded_text(frame, "clock"), DEVICE_CLOCK.__eq__)
    return bool((rows.operations_are(needs_no_other_rank) & on_device).any())

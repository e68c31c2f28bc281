"""Rows -> what each rank did and how long it waited, step by step: the arrays that judgements stand on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import narwhals as nw
import numpy as np
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis._collective_waits import Waits, clock_free_waits
from timing_logger.analysis._frames import (
    Floats,
    Frame,
    dense_codes,
    new_column,
    numbers,
    opened,
)
from timing_logger.analysis._rank_steps import NUMBERS, TEXT, Meetings, RankSteps, rank_steps, renamed
from timing_logger.analysis._self_time import Integers, is_own_work
from timing_logger.analysis._steps import Numbering, Span, numbered_by_epoch, steps_of
from timing_logger.analysis.columns import COLUMNS_OF
from timing_logger.record import DEVICE_CLOCK

UNLOGGED = "UNLOGGED"
"""The phase of the time for which a rank has no row, neither of work nor of communication."""

MIN_COVERAGE = 0.8
"""Rows of own work are a rank's self time if on every rank they cover this part of the time it was
not communicating."""


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Times by step and rank, in ms; NaN where unknown.

    Attributes:
        ranks: ascending.
        iterations: of the training, ascending. Where none is recorded, steps counted from 0; where they
            restart, numbers of steps.
        numbering: what these numbers mean.
        on_device: whether rows of own work are on the device's clock, where waits are part of them.
        phases: names of the operations that are a rank's own work; ``UNLOGGED`` last, if looked at.
        phase_ms: phases x steps x ranks. A rank that took part in a step without the phase has 0.
        self_ms: steps x ranks, time on the rank's own account, of all phases together.
        waits: in collectives that synchronise ranks, each steps x ranks.
        gap_ms: steps x ranks, time in which the rank was not communicating, logged or not.
        from_gaps: whether ``self_ms`` is ``gap_ms``, and not the rows of own work.
        has_iterations: whether iterations are recorded.
    """

    ranks: list[int]
    iterations: Integers
    phases: list[str]
    phase_ms: Floats
    self_ms: Floats
    waits: Waits
    gap_ms: Floats
    from_gaps: bool
    has_iterations: bool
    numbering: Numbering
    on_device: bool = False

    def span(self, steps: Integers) -> Span:
        """From the first to the last of the steps at these positions."""
        return self.numbering.span(self.iterations[steps])

    @property
    def rows_suffice(self) -> bool:
        """Whether rows of own work cover, on every rank, most of the time without communication."""
        work_ms = self.phase_ms.sum(axis=0)
        known = ~np.isnan(work_ms) & ~np.isnan(self.gap_ms)
        covered, spent = np.where(known, (work_ms, self.gap_ms), 0.0).sum(axis=1)
        return bool((covered >= MIN_COVERAGE * spent).all())

    def by_gaps(self) -> StepTimes:
        """The same steps, with the time between communication as self time."""
        unlogged_ms = np.maximum(self.gap_ms - self.phase_ms.sum(axis=0), 0.0)
        return replace(
            self,
            phases=[*self.phases, UNLOGGED],
            phase_ms=np.concatenate([self.phase_ms, unlogged_ms[None]]),
            self_ms=np.where(self.gap_ms > 0, self.gap_ms, np.nan),
            from_gaps=True,
        )


def step_times(timings: IntoDataFrameT) -> StepTimes:
    """The arrays of a table of timings. Of several incarnations, the latest that took the step counts."""
    return whole_step_times([part_of_step_times(timings)])


class PartOfStepTimes(NamedTuple):
    """What the times need of some of the processes: per process and step, and per collective.

    Attributes:
        processes: by rank and incarnation.
        epochs: for each process those of its steps; NaN where none is known.
        numbering: what the numbers of their steps mean.
        names: the distinct texts of each column of ``TEXT``, over these processes.
        has_iterations: whether iterations are recorded; else steps are counted from 0.
        on_device: whether rows of own work are on the device's clock.
    """

    processes: list[RankSteps]
    epochs: list[Floats]
    numbering: Numbering
    names: dict[str, list[str]]
    has_iterations: bool
    on_device: bool

    def without_steps(self) -> PartOfStepTimes:
        """The same, as if its processes had recorded no step."""
        processes = [steps.without_steps() for steps in self.processes]
        return self._replace(processes=processes, epochs=[epochs[:0] for epochs in self.epochs])


def part_of_step_times(timings: IntoDataFrameT) -> PartOfStepTimes:
    """Of the rows of whole processes, such as one file's."""
    frame = opened(timings, COLUMNS_OF["stragglers"])
    has_iterations = frame["iteration"].count() > 0
    number, numbering = steps_of(frame)
    frame = frame.select(*TEXT, *NUMBERS, "epoch", "rank", "incarnation")
    if numbering.restarts:
        frame = frame.with_columns(new_column(frame, "iteration", number))
    names = {name: sorted(frame[name].unique().to_list()) for name in TEXT}
    found, epochs = [], []
    for rank, incarnation in _processes(frame):
        rows = _rows_of(frame, rank, incarnation)
        found.append(rank_steps(rows, rank, names, has_iterations=has_iterations))
        epochs.append(_epochs(rows, found[-1].iterations, numbering))
    on_device = DEVICE_CLOCK in names["clock"] and _works_on_device(frame)
    return PartOfStepTimes(found, epochs, numbering, names, has_iterations, on_device)


def _processes(frame: Frame) -> list[tuple[int, int]]:
    return sorted(frame.select("rank", "incarnation").unique().iter_rows()) if len(frame) else []


def _epochs(rows: Frame, steps: Integers, numbering: Numbering) -> Floats:
    """The epoch of each step; of one that lies in two, as iterations do not restart, its first row's."""
    if numbering.restarts:
        return numbering.epochs_of(steps)
    step, epoch = numbers(rows, "iteration"), numbers(rows, "epoch")
    known = ~np.isnan(step) & ~np.isnan(epoch)
    found = np.full(len(steps), np.nan)
    found[np.searchsorted(steps, step[known][::-1])] = epoch[known][::-1]
    return found


def _works_on_device(frame: Frame) -> bool:
    on_device = frame.filter(nw.col("clock") == DEVICE_CLOCK)
    return any(map(is_own_work, on_device["operation"].unique().to_list()))


def whole_step_times(parts: Sequence[PartOfStepTimes]) -> StepTimes:
    """The times of all processes, whose parts come in ascending order; those of all their rows."""
    has_iterations = any(part.has_iterations for part in parts)
    if has_iterations:  # what is outside of any iteration is of no step, and its count is no iteration
        parts = [part if part.has_iterations else part.without_steps() for part in parts]
    operations, groups = (
        sorted({n for part in parts for n in part.names[x]}) for x in ("operation", "group")
    )
    numbering, number = _numbered_together(parts)
    found = [_among_all(steps, next(number), part, groups) for part in parts for steps in part.processes]
    if not found:
        return _nothing(has_iterations)
    times = _assembled(found, list(filter(is_own_work, operations)), has_iterations, numbering)
    return replace(times, on_device=any(part.on_device for part in parts))


def _numbered_together(parts: Sequence[PartOfStepTimes]) -> tuple[Numbering, Iterator[Integers]]:
    """What the numbers of all steps mean, and those of each process's steps."""
    iterations = [part.numbering.iterations(steps.iterations) for part in parts for steps in part.processes]
    if not any(part.numbering.restarts for part in parts):
        return Numbering(np.zeros(0)), iter(iterations)
    epochs = np.concatenate([epoch for part in parts for epoch in part.epochs])
    counted = any(part.numbering.counted for part in parts)
    if counted:  # a process that never began anew was in the first pass all the time
        epochs = np.nan_to_num(epochs, nan=0.0)
    numbering, number = numbered_by_epoch(epochs, np.concatenate(iterations), counted=counted)
    return numbering, iter(np.split(number, np.cumsum([len(those) for those in iterations])[:-1]))


def _among_all(steps: RankSteps, number: Integers, part: PartOfStepTimes, groups: Sequence[str]) -> RankSteps:
    among_all = {name: i for i, name in enumerate(groups)}
    place = np.array([among_all[name] for name in part.names["group"]], np.int64)
    return renamed(steps, number, place, len(groups))


def _nothing(has_iterations: bool) -> StepTimes:
    none = np.zeros((0, 0))
    return StepTimes(
        [], np.zeros(0, np.int64), [], np.zeros((0, 0, 0)), none, Waits(none, none), none,
        from_gaps=False, has_iterations=has_iterations, numbering=Numbering(np.zeros(0)),
    )  # fmt: skip


def _rows_of(frame: Frame, rank: int, incarnation: int) -> Frame:
    return frame.filter((nw.col("rank") == rank) & (nw.col("incarnation") == incarnation))


def _assembled(
    found: Sequence[RankSteps], phases: list[str], has_iterations: bool, numbering: Numbering
) -> StepTimes:
    ranks = sorted({steps.rank for steps in found})
    iterations = np.unique(np.concatenate([steps.iterations for steps in found]))
    phase_ms = np.full((len(phases), len(iterations), len(ranks)), np.nan)
    gap_ms = np.full(phase_ms.shape[1:], np.nan)
    for steps in found:
        at, column = np.searchsorted(iterations, steps.iterations), ranks.index(steps.rank)
        gap_ms[at, column] = steps.gap_ms
        for i, phase in enumerate(phases):
            phase_ms[i, at, column] = steps.work_ms.get(phase, 0.0)
    self_ms = phase_ms.sum(axis=0)
    return StepTimes(
        ranks, iterations, phases, phase_ms, np.where(self_ms > 0, self_ms, np.nan),
        _waits(found, ranks, iterations), gap_ms, from_gaps=False, has_iterations=has_iterations,
        numbering=numbering,
    )  # fmt: skip


def _waits(found: Sequence[RankSteps], ranks: list[int], iterations: Integers) -> Waits:
    """Clock-free waits, summed by step and rank (steps x ranks); NaN where the rank met nobody."""
    met = Meetings(*map(np.concatenate, zip(*(steps.meetings for steps in found), strict=True)))
    columns = np.repeat(
        [ranks.index(steps.rank) for steps in found], [len(steps.meetings.instances) for steps in found]
    )
    cells = np.searchsorted(iterations, met.iterations) * len(ranks) + columns
    instances = dense_codes(_runs(found), met.instances)
    waits = clock_free_waits(instances, met.durations_ms, met.group_sizes)
    shape = (len(iterations), len(ranks))
    return Waits(_cell_sums(cells, waits.own_ms, shape), _cell_sums(cells, waits.others_ms, shape))


def _runs(found: Sequence[RankSteps]) -> Integers:
    """For each meeting, which run of its rank it was in: a restarted job numbers its collectives anew."""
    ranks = [steps.rank for steps in found]
    run_of_process = [i - ranks.index(rank) for i, rank in enumerate(ranks)]
    return np.repeat(run_of_process, [len(steps.meetings.instances) for steps in found])


def _cell_sums(cells: Integers, values: Floats, shape: tuple[int, int]) -> Floats:
    """NaN in cells of which nothing is known."""
    here = ~np.isnan(values)
    sums = np.bincount(cells[here], values[here], minlength=shape[0] * shape[1])
    counts = np.bincount(cells[here], minlength=shape[0] * shape[1])
    summed: Floats = np.where(counts > 0, sums, np.nan).reshape(shape)
    return summed

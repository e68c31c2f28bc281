"""Compute the times of each rank by step, its own work and its waits: the input of all judgements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.accounting.account import account_table
from timing_logger.analysis.accounting.lines import AccountLines
from timing_logger.analysis.accounting.part import AccountPart
from timing_logger.analysis.accounting.run import AccountOfRun, BlockedStretches, blocked_stretches, spent_of
from timing_logger.analysis.rows.arrays import Floats, Ints
from timing_logger.analysis.rows.operations import PAUSES, needs_no_other_rank
from timing_logger.analysis.rows.steps import Numbering, numbered_by_epoch
from timing_logger.analysis.rows.tables import of_pandas
from timing_logger.analysis.step_times.process_steps import (
    ProcessSteps,
    StepTimesPart,
    joined_steps,
    map_step_times,
)
from timing_logger.analysis.step_times.transfers import (
    Communication,
    Places,
    Played,
    Shape,
    Transfers,
    Waits,
    placed,
    played_of,
    transfers_by_step,
    waits_by_step,
    wall_ms,
)
from timing_logger.analysis.step_times.workload import NOTHING_STATED, Workload, workload_of
from timing_logger.reading.named_ranks import stated_world_size
from timing_logger.results import criteria
from timing_logger.results.plain import UNLOGGED, StepRange


@dataclass(frozen=True, eq=False)
class StepTimes:
    """The times of a run by step and rank, in ms; NaN where unknown.

    Attributes:
        ranks: the rank of each column, ascending.
        iterations: the iteration of each step, ascending. Where none is recorded, steps are counted from 0;
            where iterations restart, these are numbers of steps.
        operations: names of the operations that are a rank's own work; ``UNLOGGED`` last, if included.
        operation_ms: operations x steps x ranks. A rank that took part in a step without the operation has 0.
        self_ms: steps x ranks, time on the rank's own account, of all operations together.
        waits: how long ranks waited, and others for them, each array steps x ranks.
        gap_ms: steps x ranks, time in which the rank was not communicating, logged or not.
        in_gaps_ms: steps x ranks for each operation of ``PAUSES`` that is recorded, and of all other own work
            if that was asked for, how long it lasted in that time.
        blocked_ms: steps x ranks, how long the rank was blocked in communication.
        transfers: transfer times of collectives and messages, without waiting.
        from_gaps: whether ``self_ms`` is ``gap_ms``, and not the rows of own work.
        has_iterations: whether iterations are recorded.
        numbering: what the numbers in ``iterations`` mean.
        on_device: whether rows of own work are on the device's clock, where waits are part of them.
        workload: how much ranks had to do.
        unlogged_ms: for each rank the time without any row, by the operations before and after it.
        played: the run as a program that can be played again.
        wall_ms: how long the run lasted on the rank that was there longest; NaN if unknown.
        recorded_every: how many iterations a recorded step stands for: 10 where every 10th is recorded.
        begins_s, ends_s: steps x ranks, when the first row of the step began and its last communication
            ended, in seconds, on the time axis of the rank's instants.
        account: the account of the run, as ``account`` returns it; None where it was not asked for.
        blocked: what ranks did while they were blocked in communication, stretch by stretch; None where that
            was not asked for.
    """

    ranks: list[int]
    iterations: Ints
    operations: list[str]
    operation_ms: Floats
    self_ms: Floats
    waits: Waits
    gap_ms: Floats
    in_gaps_ms: Mapping[str, Floats]
    blocked_ms: Floats
    transfers: Transfers
    from_gaps: bool
    has_iterations: bool
    numbering: Numbering
    workload: Workload = NOTHING_STATED
    on_device: bool = False
    unlogged_ms: Sequence[Mapping[tuple[str, str], float]] = ()
    played: Played | None = None
    wall_ms: float = float("nan")
    recorded_every: int = 1
    begins_s: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    ends_s: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    account: pd.DataFrame | None = None
    blocked: BlockedStretches | None = None

    def step_range(self, steps: Ints) -> StepRange:
        """Return the range from the first to the last of the steps at these positions."""
        return self.numbering.step_range(self.iterations[steps])

    def ranks_of(self, columns: Iterable[int]) -> tuple[int, ...]:
        """Return the ranks of these columns, in their order."""
        return tuple(self.ranks[column] for column in columns)

    def rows_cover(self, share: float) -> bool:
        """Tell whether rows of own work cover this share of the time without communication on every rank."""
        work_ms = self.operation_ms.sum(axis=0)
        known = ~np.isnan(work_ms) & ~np.isnan(self.gap_ms)
        covered, spent = np.where(known, (work_ms, self.gap_ms), 0.0).sum(axis=1)
        return bool((covered >= share * spent).all())

    @property
    def pauses(self) -> list[str]:
        """The operations of ``PAUSES`` that are recorded."""
        return [operation for operation in PAUSES if operation in self.in_gaps_ms]

    @property
    def not_timed_ms(self) -> Floats:
        """How long each rank was neither in communication nor in a row of own work, steps x ranks."""
        not_timed: Floats = np.maximum(self.gap_ms - np.nansum(self.operation_ms, axis=0), 0.0)
        return not_timed

    def by_gaps(self) -> StepTimes:
        """Return the same steps with the time between communication as self time."""
        return replace(
            self,
            operations=[*self.operations, UNLOGGED],
            operation_ms=np.concatenate([self.operation_ms, self.not_timed_ms[None]]),
            self_ms=np.where(self.gap_ms > 0, self.gap_ms, np.nan),
            from_gaps=True,
        )

    def without_pauses(self, operation: str) -> StepTimes:
        """Return the same steps as if one kind of pause had not been, but in the first step of each rank.

        In its first step a program warms up: what it compiles and imports then, it has to.

        Args:
            operation: that of the pauses, one of ``pauses``.
        """
        number, operation_ms = self.operations.index(operation), self.operation_ms.copy()
        is_first = np.cumsum(~np.isnan(operation_ms[number]), axis=0) == 1
        paused_ms = np.where(is_first, 0.0, np.nan_to_num(operation_ms[number]))
        operation_ms[number] -= paused_ms
        self_ms = self.self_ms - paused_ms
        return replace(
            self, operation_ms=operation_ms, self_ms=np.where(self_ms > 0, self_ms, np.nan),
            gap_ms=np.maximum(self.gap_ms - np.where(is_first, 0.0, self.in_gaps_ms[operation]), 0.0),
        )  # fmt: skip

    @property
    def run_ms(self) -> float:
        """How long the run lasted, in ms: from the first row to the last on the rank that was there longest.

        Processes of a rank that follow each other count together, without the time between them. Without
        instants in the rows, it is ``slowest_ms``.
        """
        return self.wall_ms if self.wall_ms > 0 else self.slowest_ms

    @property
    def slowest_ms(self) -> float:
        """The sum of the steps, in ms, each as long as its slowest rank works."""
        return float(np.nansum(np.fmax.reduce(self.self_ms, axis=1, initial=np.nan)))

    def share_of_run(self, cost_ms: float) -> float:
        """Return a cost, over the steps recorded, as a fraction of the run; 0 if its length is unknown."""
        length_ms = self.run_ms
        return self.recorded_every * cost_ms / length_ms if length_ms > 0 else 0.0


def step_times(timings: IntoDataFrameT) -> StepTimes:
    """Compute the times by step and rank of a table of timings.

    If several incarnations of a rank took a step, the latest counts.
    """
    files = getattr(timings, "attrs", {}).get("files", [])
    return reduce_step_times([map_step_times(timings)], stated_world_size(files))


def reduce_step_times(
    parts: Sequence[StepTimesPart], world_size: int | None = None, *, with_blocked: bool = False
) -> StepTimes:
    """Compute the times by step and rank from the parts of all processes, as from all their rows at once.

    Args:
        parts: as ``map_step_times`` returned them, in ascending order of their processes; they are emptied.
        world_size: the number of ranks in the run; None if unknown.
        with_blocked: whether ``blocked`` is asked for, too.
    """
    if any(
        part.has_iterations for part in parts
    ):  # parts without iterations have no steps: their counts of rows are no iterations
        parts = [part if part.has_iterations else part.without_steps() for part in parts]
    numbering, number = _numbered_together(parts)
    steps = joined_steps([part.steps for part in parts])._replace(iterations=number)
    parts = [part._replace(steps=part.steps.without_steps()) for part in parts]  # they are not needed twice
    return _assembled(steps, parts, numbering, world_size, with_blocked=with_blocked)


def _numbered_together(parts: Sequence[StepTimesPart]) -> tuple[Numbering, Ints]:
    """Return what the numbers of all steps mean, and the numbers of the steps of all processes."""
    iterations = np.concatenate([part.numbering.iterations(part.steps.iterations) for part in parts])
    if not any(part.numbering.restarts for part in parts):
        return Numbering(np.zeros(0)), iterations
    counted = any(part.numbering.counted for part in parts)
    epochs = np.concatenate([_known_epochs(part.steps) if counted else part.steps.epochs for part in parts])
    return numbered_by_epoch(epochs, iterations, counted=counted)


def _known_epochs(steps: ProcessSteps) -> Floats:
    """Return the epochs where they are counted: who restarts never was in the first pass all the time."""
    states_some = np.bincount(steps.process, ~np.isnan(steps.epochs), minlength=len(steps.ranks)) > 0
    return np.where(states_some[steps.process], steps.epochs, 0.0)


def _assembled(
    steps: ProcessSteps,
    parts: Sequence[StepTimesPart],
    numbering: Numbering,
    world_size: int | None,
    *,
    with_blocked: bool,
) -> StepTimes:
    has_iterations = any(part.has_iterations for part in parts)
    operations = sorted({name for part in parts for name in part.operations if needs_no_other_rank(name)})
    ranks, column = np.unique(steps.ranks, return_inverse=True)
    iterations = np.unique(steps.iterations)
    shape = Shape(len(iterations), len(ranks))
    places = Places(ranks, column, np.searchsorted(iterations, steps.iterations), steps.n_steps, shape)
    at = places.steps, column[steps.process]

    def by_step_and_rank(values: Floats, blank: float = np.nan) -> Floats:
        whole = np.full(shape, blank)
        whole[at] = values  # of several processes of a rank in one step, the last one counts
        return whole

    operation_ms = np.zeros((len(operations), *shape))
    for i, name in enumerate(operations):
        operation_ms[i] = by_step_and_rank(steps.work_ms.get(name, np.zeros(len(steps.process))))
    in_gaps_ms = {operation: by_step_and_rank(ms, 0.0) for operation, ms in steps.in_gaps_ms.items()}
    gap_ms, blocked_ms = map(by_step_and_rank, (steps.gap_ms, steps.blocked_ms))
    begins_s, ends_s = map(by_step_and_rank, (steps.begins_s, steps.ends_s))
    workload = workload_of(steps.workload, by_step_and_rank)
    self_ms = operation_ms.sum(axis=0)
    unlogged_ms = list(dict(zip(column.tolist(), steps.unlogged_ms, strict=True)).values())
    recorded_every = _recorded_every(steps.stands_for) if has_iterations else 1
    del steps  # from here on all is in the arrays, and the rows of communication need the memory
    communication, lines = placed(
        [part.communication for part in parts], places, world_size, by_step=has_iterations
    )
    waits, transfers = waits_by_step(communication), transfers_by_step(communication)
    account = _account(parts, lines, communication)
    tied, step = communication.rows, communication.step
    blocked = blocked_stretches(lines, tied.axis, communication.blocked) if with_blocked else None
    del communication  # the program needs the memory of what lines did while they were blocked
    return StepTimes(
        ranks.tolist(), iterations, operations, operation_ms, np.where(self_ms > 0, self_ms, np.nan), waits,
        gap_ms, in_gaps_ms, blocked_ms, transfers, from_gaps=False, has_iterations=has_iterations,
        numbering=numbering, workload=workload, unlogged_ms=unlogged_ms,
        on_device=any(part.on_device for part in parts),
        played=played_of(tied, step, lines, places), wall_ms=wall_ms(lines), recorded_every=recorded_every,
        begins_s=begins_s, ends_s=ends_s, account=account, blocked=blocked,
    )  # fmt: skip


def _account(
    parts: Sequence[StepTimesPart], lines: AccountLines, communication: Communication
) -> pd.DataFrame | None:
    with_spent = [AccountPart(part.communication, part.spent) for part in parts if part.spent is not None]
    if len(with_spent) < len(parts):
        return None
    run = AccountOfRun(lines, spent_of(with_spent), communication.rows, communication.blocked)
    return cast("pd.DataFrame", account_table(run, of_pandas()))


def _recorded_every(stands_for: Floats) -> int:
    """Return what most steps stand for; 1 where they follow no rule."""
    stands_for = stands_for[~np.isnan(stands_for)]
    if not len(stands_for):
        return 1
    usual = int(np.median(stands_for))
    return usual if np.mean(stands_for == usual) > criteria.FOLLOWS_RULE_SHARE else 1

"""One step of a run, stretch by stretch: a typical one of those in which time is lost."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.accounting.lines import NO_RANK
from timing_logger.analysis.accounting.part import WHAT, LineStretches, map_own_stretches
from timing_logger.analysis.accounting.run import BlockedStretches
from timing_logger.analysis.rows.analysis import COLUMNS_OF
from timing_logger.analysis.rows.arrays import Floats, Ints, Schema
from timing_logger.analysis.rows.tables import like, nullable_integers, of_pandas, opened, taken
from timing_logger.analysis.step_times.peers import peer_medians, row_medians
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.case import Judgement
from timing_logger.results import criteria
from timing_logger.results.plain import ShownStep

_WAITING = WHAT.index("waiting")

_MOST_SHOWN, _MOST_NAMED = 16, 6
"""All ranks of a step are shown if they are no more than this; else so many of those that are named, and of
the others the one that waited least, the one in the middle, and the one that waited most."""

_SCHEMA: Schema = {
    "rank": nw.Int64, "incarnation": nw.Int64, "iteration": nw.Int64, "what": nw.String,
    "operation": nw.String, "start_ms": nw.Float64, "end_ms": nw.Float64,
}  # fmt: skip
_COLUMNS = "rank", "incarnation", "iteration", "what", "operation", "waited_for", "start_ms", "end_ms"


class Windows(NamedTuple):
    """When ranks were in a step, on their clocks; the ranks ascend."""

    rank: Ints
    begin_s: Floats
    end_s: Floats

    def cut(self, stretches: LineStretches) -> tuple[LineStretches, Ints]:
        """Return what lies in the step, cut where it begins and ends, and the positions of its stretches."""
        column = np.minimum(np.searchsorted(self.rank, stretches.rank), len(self.rank) - 1)
        begin_s, end_s = self.begin_s[column], self.end_s[column]
        inside = (stretches.end_s > begin_s) & (stretches.start_s < end_s)
        kept = np.flatnonzero(inside & (self.rank[column] == stretches.rank))
        start_s = np.maximum(stretches.start_s[kept], begin_s[kept])
        return stretches.only(kept)._replace(
            start_s=start_s, end_s=np.minimum(stretches.end_s[kept], end_s[kept])
        ), kept


class StepOfRanks(NamedTuple):
    """One step of a run: when each rank was in it, and what it did while it was blocked.

    Attributes:
        iteration, epoch: of the step; the epoch is NaN where iterations do not restart.
        loses_time: whether it was chosen for the time that is lost in it.
        windows: from the end of the last communication of the step before to that of this one, of each rank
            that took the step. Where the step before was not recorded, it begins with its first row.
        ahead_s: by how much the common time axis is ahead of the clock of each rank.
        blocked: the stretches in which ranks were blocked.
    """

    iteration: int
    epoch: float
    loses_time: bool
    windows: Windows
    ahead_s: Floats
    blocked: LineStretches

    @property
    def ranks(self) -> list[int]:
        """The ranks that took the step, ascending."""
        ranks: list[int] = self.windows.rank.tolist()
        return ranks

    @property
    def waits(self) -> pd.DataFrame:
        """How long each rank waited, and for whom, as in :class:`ShownStep`."""
        its = self.blocked.only(self.blocked.what == _WAITING)
        each = pd.DataFrame({
            "rank": its.rank, "waited_for": its.waited_for, "ms": 1e3 * (its.end_s - its.start_s)
        })  # fmt: skip
        summed: pd.DataFrame = each.groupby(["rank", "waited_for"], as_index=False)["ms"].sum()
        return summed

    def shown(self, ranks: Sequence[int], own: Sequence[LineStretches]) -> ShownStep:
        """Return what is shown of the step.

        Args:
            ranks: the ranks that are shown.
            own: how processes spent the time in which they were not blocked, at least those of ``ranks``.
        """
        return ShownStep(
            self.iteration, self.epoch, self.loses_time, len(self.ranks), list(ranks),
            self.table(of_pandas(), own, ranks), self.waits,
        )  # fmt: skip

    def table(
        self,
        frame: nw.DataFrame[IntoDataFrameT],
        own: Sequence[LineStretches],
        ranks: Collection[int] | None = None,
    ) -> IntoDataFrameT:
        """Return what ranks did, as :func:`account_of_step` does.

        Args:
            frame: a table of the library that the result is of.
            own: how their processes spent the time in which they were not blocked, of all steps.
            ranks: those that are asked for; None for all.
        """
        its = LineStretches.joined([*(self.windows.cut(one)[0] for one in own), self.blocked])
        its = its.only(np.isin(its.rank, self.ranks if ranks is None else list(ranks)))
        its = its.only(np.lexsort((its.start_s, its.rank)))
        first_s = (self.windows.begin_s + self.ahead_s).min(initial=np.inf)
        ahead_s = (self.ahead_s - first_s)[np.searchsorted(self.windows.rank, its.rank)]
        names = [*its.operations, ""]
        columns = (
            its.rank.tolist(),
            its.incarnation.tolist(),
            [self.iteration] * len(its.rank),
            [WHAT[what] for what in its.what.tolist()],
            [names[operation] for operation in its.operation.tolist()],
            (1e3 * (its.start_s + ahead_s)).tolist(),
            (1e3 * (its.end_s + ahead_s)).tolist(),
        )
        found = nw.from_native(like(frame, _SCHEMA, list(zip(*columns, strict=True))), eager_only=True)
        for_whom = np.where(its.waited_for == NO_RANK, np.nan, its.waited_for)
        return (
            found.with_columns(nullable_integers(found, "waited_for", for_whom)).select(*_COLUMNS).to_native()
        )


def shown_in_table(step: StepOfRanks, named: Sequence[int], timings: IntoDataFrameT) -> ShownStep:
    """Return what is shown of a step of a run whose rows are in one table.

    Args:
        step: the step.
        named: the ranks that the verdict names.
        timings: all rows of the run, or of those of its ranks that may be shown.
    """
    frame = opened(timings, COLUMNS_OF["account"])
    ranks = ranks_to_show(step, named)
    are_shown = np.isin(frame["rank"].to_numpy(), ranks)
    its = frame if are_shown.all() else taken(frame, frame.columns, np.flatnonzero(are_shown))
    return step.shown(ranks, [map_own_stretches(its)])


def ranks_to_show(step: StepOfRanks, named: Sequence[int]) -> list[int]:
    """Return the ranks of a step that are shown: all of a few, else those that are named, and some others."""
    ranks = set(step.ranks)
    if len(ranks) <= _MOST_SHOWN:
        return step.ranks
    chosen = [rank for rank in named if rank in ranks][:_MOST_NAMED]
    ms = step.waits.groupby("rank")["ms"].sum()
    others = sorted(ranks.difference(chosen), key=lambda rank: (ms.get(rank, 0.0), rank))
    return sorted({*chosen, others[0], others[len(others) // 2], others[-1]})


def typical_step(judgement: Judgement, iteration: int | None = None) -> StepOfRanks | None:
    """Choose a step of a run: one like which half of the lost time is lost, in longer and in shorter ones.

    That is time which the ranks that the verdict names take beyond their peers in their slow steps; where it
    names none, what the slowest rank of each step takes beyond the typical one. In a healthy run it is a step
    of median length.

    Args:
        judgement: the judgement, with ``blocked``.
        iteration: which step to take instead; of several epochs the last.

    Returns:
        The step; None if none has its begin and end known on two ranks or more, on one time axis.
    """
    times = judgement.case.times
    begin_s = _begins_s(times)
    known = ~np.isnan(begin_s) & (times.ends_s > begin_s)
    n_known = known.sum(axis=1)
    usable = n_known >= max(2, int(n_known.max(initial=0)) // 2)
    if iteration is not None:
        usable &= times.numbering.iterations(times.iterations) == iteration
    elif usable[1:].any():
        usable[:1] = False  # when the first step began is not known, and it is seldom like the others
    if times.blocked is None or not usable.any():
        return None
    lost_ms = np.where(usable, _lost_ms(judgement), 0.0)
    loses_time = iteration is None and bool(lost_ms.any())
    length_s = row_medians(times.ends_s - begin_s)
    step = _losing(lost_ms, length_s) if loses_time else _of_median_length(np.where(usable, length_s, np.nan))
    its = np.flatnonzero(known[step])
    windows = Windows(np.array(times.ranks, np.int64)[its], begin_s[step, its], times.ends_s[step, its])
    return _of_ranks(times, times.blocked, step, windows, loses_time=loses_time)


def _begins_s(times: StepTimes) -> Floats:
    """Return when steps begin: with the end of the one before, unless some were not recorded in between."""
    before_s = np.full_like(times.ends_s, np.nan)
    before_s[1:] = times.ends_s[:-1]
    follows = np.diff(times.iterations, prepend=-2) == 1
    return np.where(follows[:, None], before_s, times.begins_s)


def _lost_ms(judgement: Judgement) -> Floats:
    """Return how much time each step loses to what the verdict tells of; 0 where it tells of nothing."""
    times, verdict = judgement.case.times, judgement.verdict
    lost_ms = np.zeros(len(times.iterations))
    if named := [rank for rank in verdict.ranks_to_look_at if rank in judgement.slow]:
        column, slow = times.ranks.index(named[0]), judgement.slow[named[0]]
        lost_ms[slow] = (times.self_ms - peer_medians(times.self_ms))[slow, column]
    elif verdict.verdict in ("role", "diffuse", "suspect"):
        lost_ms = np.fmax.reduce(times.self_ms, axis=1, initial=np.nan) - row_medians(times.self_ms)
    elif verdict.verdict == "communication":
        lost_ms = row_medians(times.blocked_ms)
    return np.maximum(np.nan_to_num(lost_ms), 0.0)


def _losing(lost_ms: Floats, length_s: Floats) -> int:
    """Return the step up to which half of the time is lost, from the one that loses least on.

    Of steps that lose about as much, it is the one whose length is most like that of all that lose time.
    """
    order = np.argsort(lost_ms, kind="stable")
    until = np.cumsum(lost_ms[order]) / lost_ms.sum()
    first, last = np.searchsorted(until, criteria.TYPICAL_STEP_QUANTILES)
    alike = order[first : last + 1]
    unlike_s = abs(length_s[alike] - np.nanmedian(length_s[lost_ms > 0]))
    return int(alike[np.nanargmin(unlike_s)])


def _of_median_length(length_s: Floats) -> int:
    known = np.flatnonzero(~np.isnan(length_s))
    return int(known[np.argsort(length_s[known], kind="stable")[len(known) // 2]])


def _of_ranks(
    times: StepTimes, blocked: BlockedStretches, step: int, windows: Windows, *, loses_time: bool
) -> StepOfRanks | None:
    number = times.iterations[[step]]
    its, kept = windows.cut(blocked.stretches)
    rank, ahead_s = its.rank, blocked.ahead_s[kept]
    if len(np.unique(blocked.axis[kept])) != 1:
        return None
    met = np.isin(windows.rank, rank)
    windows = Windows._make(values[met] for values in windows)
    return StepOfRanks(
        int(times.numbering.iterations(number)[0]), float(times.numbering.epochs_of(number)[0]), loses_time,
        windows, np.array([np.median(ahead_s[rank == one]) for one in windows.rank.tolist()]), its,
    )  # fmt: skip


_NOBODY = Windows(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
NO_STEP = StepOfRanks(0, float("nan"), False, _NOBODY, np.zeros(0), LineStretches.none())
"""In place of a step where none can be told."""

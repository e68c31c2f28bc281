"""The rows that the figure of a few iterations draws: which iterations, of which ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrameT

from timing_logger.analysis.arrays import numbers
from timing_logger.analysis.epochs import Meaning, epochs_of
from timing_logger.analysis.steps import StepRange
from timing_logger.analysis.stragglers.typical_step import StepOfRanks, ranks_to_show, typical_step
from timing_logger.analysis.table_types import Bools, Floats, Frame
from timing_logger.analysis.tables import opened, taken
from timing_logger.report._limits import MOST_BARS, at_distances
from timing_logger.report.figures._tables import in_pandas, judged


class Chosen(NamedTuple):
    """The rows of a few iterations.

    Attributes:
        rows: these rows, in pandas, with every column that analyses need.
        steps: which iterations they are of.
        n_ranks: the number of all ranks that have rows in these iterations.
    """

    rows: pd.DataFrame
    steps: StepRange
    n_ranks: int


class _Picked(NamedTuple):
    """The steps that are shown, the epoch NaN where iterations do not restart; the ranks, None for all."""

    first: float
    last: float
    epoch: float
    ranks: list[int] | None


def chosen_rows(timings: IntoDataFrameT, first: int | None, last: int | None) -> Chosen | None:
    """Choose the rows of some iterations.

    Args:
        timings: as ``read_timings`` returns.
        first, last: the ends of the range; the other one is the same if only one is given. None for the
            iterations around a typical one of those in which time is lost.

    Returns:
        The rows, of many ranks those of the ones that a step is drawn of; None if no row has an iteration.
    """
    frame = opened(timings)
    iteration, epoch = numbers(frame, "iteration"), _epochs(frame)
    if np.isnan(iteration).all():
        return None
    picked = _picked(timings, frame, iteration, epoch, first, last)
    wanted = _in_steps(iteration, epoch, picked)
    rank = frame["rank"].to_numpy()
    n_ranks = len(np.unique(rank[wanted]))
    if picked.ranks is not None:
        wanted &= np.isin(rank, picked.ranks)
    rows = in_pandas(taken(frame, frame.columns, np.flatnonzero(wanted)).to_native())
    in_epoch = None if np.isnan(picked.epoch) else int(picked.epoch)
    return Chosen(rows, StepRange(int(picked.first), int(picked.last), in_epoch, in_epoch), n_ranks)


def _epochs(frame: Frame) -> Floats:
    """Return the epoch of each row; NaN in all of them where iterations do not restart."""
    epochs = epochs_of(frame)
    return np.full(len(frame), np.nan) if epochs.meaning == Meaning.NOTHING else epochs.of_row


def _picked(
    timings: Any, frame: Frame, iteration: Floats, epoch: Floats, first: int | None, last: int | None
) -> _Picked:
    ranks = np.unique(frame["rank"].to_numpy()).tolist()
    is_given = not (first is None and last is None)
    if is_given and len(ranks) <= MOST_BARS:
        return _given(iteration, epoch, first, last, None)
    judgement = judged(timings)
    step = typical_step(judgement, first if last is None or first is not None else last)
    shown = _shown(step, judgement.verdict.ranks_to_look_at, ranks)
    if is_given:
        return _given(iteration, epoch, first, last, shown)
    return _around(iteration, epoch, step, shown)


def _shown(step: StepOfRanks | None, named: tuple[int, ...], ranks: list[int]) -> list[int] | None:
    """Return the ranks that are shown; None for all of a few."""
    if len(ranks) <= MOST_BARS:
        return None
    return at_distances(ranks, MOST_BARS) if step is None else ranks_to_show(step, named)


def _given(
    iteration: Floats, epoch: Floats, first: int | None, last: int | None, ranks: list[int] | None
) -> _Picked:
    """Return the steps that were asked for; where iterations restart, of the last epoch that has them."""
    ends = [end for end in (first, last) if end is not None]
    its = epoch[(iteration >= ends[0]) & (iteration <= ends[-1])]
    latest = np.fmax.reduce(its, initial=np.nan)
    return _Picked(ends[0], ends[-1], float(latest), ranks)


def _around(iteration: Floats, epoch: Floats, step: StepOfRanks | None, ranks: list[int] | None) -> _Picked:
    """Return a typical step, or else the one in the middle, with the recorded ones before and after it."""
    of_epoch = float(np.fmax.reduce(epoch, initial=np.nan)) if step is None else step.epoch
    its = iteration if np.isnan(of_epoch) else iteration[epoch == of_epoch]
    known = np.unique(its[~np.isnan(its)])
    at = len(known) // 2 if step is None else int(np.searchsorted(known, step.iteration))
    return _Picked(known[max(at - 1, 0)], known[min(at + 1, len(known) - 1)], of_epoch, ranks)


def _in_steps(iteration: Floats, epoch: Floats, picked: _Picked) -> Bools:
    inside = (iteration >= picked.first) & (iteration <= picked.last)
    return inside if np.isnan(picked.epoch) else inside & (epoch == picked.epoch)

"""What a run does at one moment: each rank, the verdict on the last seconds, and whether it hangs."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.hangs.diagnosis import run_end_of
from timing_logger.analysis.hangs.last_rows import last_rows
from timing_logger.analysis.rows.files import File, laid_end_to_end
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.verdict import map_judgement, reduce_judgement
from timing_logger.live.digest import ProcessPlace
from timing_logger.live.window import Window
from timing_logger.reading.named_ranks import lacking
from timing_logger.results.run_end import RunEnd
from timing_logger.results.verdict import Verdict

_UNKNOWN = float("nan")
_NOTHING = 0.0, 0.0, 0.0
"""What a rank recorded in the window, where it is not known in what time it did."""


class RankNow(NamedTuple):
    """What one rank did in the window.

    Attributes:
        rank, incarnation: of the process.
        written: number of rows in the whole file, by its sidecar, which is behind, or the number of rows that
            were read if this is larger; None if neither is known.
        rows_per_s, iterations_per_s: rates in the window; NaN without rows, and where no source told when
            they were.
        iteration: the latest iteration; None if there is none.
        epoch: epoch of that iteration, if it is recorded; else None.
        communication_share, waited_share: fractions of the rank's time in the window, 0 to 1; NaN if unknown.
        dropped: number of records lost so far; None if unknown.
        unfinished: number of calls that are open.
        silent_s: time in s since the file was last written to, on the wall clock.
        closed: whether the logger was closed.
    """

    rank: int
    incarnation: int
    written: int | None
    rows_per_s: float
    iterations_per_s: float
    iteration: int | None
    epoch: int | None
    communication_share: float
    waited_share: float
    dropped: int | None
    unfinished: int
    silent_s: float
    closed: bool


class Snapshot(NamedTuple):
    """The state of a run at one moment.

    Attributes:
        ranks: what each rank did in the window, in ascending order of ranks.
        verdict: the verdict on the window.
        window_s: the time that the window spans, in seconds; NaN if of no rank it is told when its rows were.
        end: whether the run ended or hangs.
        files: the file of each rank, with its ``rank``, ``incarnation`` and ``sidecar``, as far as that is
            known.
    """

    ranks: list[RankNow]
    verdict: Verdict
    window_s: float
    end: RunEnd
    files: Sequence[File] = ()

    @property
    def is_over(self) -> bool:
        """Whether all ranks have closed their files, and none that is to record has yet to begin."""
        return all(now.closed for now in self.ranks) and all(lack.by_choice for lack in lacking(self.files))


def snapshot_of(window: Window) -> Snapshot:
    """Judge the last seconds of a run."""
    now, now_s = window.now(), time.time()
    timings, files = now.timings, now.timings.attrs["files"]
    end = run_end_of(now.last or [last_rows(timings)], files, now_s)
    without_instants = laid_end_to_end(files)
    window_s = _window_s(timings, {rank for rank, _ in without_instants})
    part = map_judgement(timings)
    now = now._replace(timings=timings[:0].copy())
    del timings  # of many ranks the rows take much memory, and the judgement needs some
    found = reduce_judgement([part], None, end, host=now.host)
    shares = _Shares.of(found.case.times)
    counted = zip(*(figures.tolist() for figures in now.counted), strict=True)
    ranks = [
        _rank_now(process, figures if process.key[:2] not in without_instants else _NOTHING, shares, now_s)
        for process, figures in zip(now.processes, counted, strict=True)
    ]
    return Snapshot(ranks, found.verdict, window_s, end, files)


def _window_s(timings: pd.DataFrame, without_instants: Collection[int]) -> float:
    """Return the time that rows span, of the ranks (one process each) whose instants are known."""
    told = ~timings["rank"].isin(without_instants)
    if not told.any():
        return _UNKNOWN if len(timings) else 0.0
    return float(timings["end_s"][told].max() - timings["start_s"][told].min())


class _Shares(NamedTuple):
    """The fractions of the time of each rank in which it communicated, and in which it waited, 0 to 1."""

    communicated: dict[int, float]
    waited: dict[int, float]

    @classmethod
    def of(cls, times: StepTimes) -> _Shares:
        spent_ms = times.gap_ms + times.blocked_ms
        known = ~np.isnan(spent_ms)
        all_ms = np.where(known, spent_ms, 0.0).sum(axis=0)
        all_ms[all_ms == 0.0] = np.nan
        communicated, waited = (
            dict(zip(times.ranks, np.where(known, np.nan_to_num(ms), 0.0).sum(axis=0) / all_ms, strict=True))
            for ms in (times.blocked_ms, times.waits.own_ms)
        )
        return cls(communicated, waited)


def _rank_now(
    process: ProcessPlace, counted: tuple[float, float, float], shares: _Shares, now_s: float
) -> RankNow:
    n_rows, n_iterations, wall_s = counted
    counters = process.sidecar.get("counters", {})
    return RankNow(
        rank=process.rank,
        incarnation=process.incarnation,
        written=process.written,
        rows_per_s=n_rows / wall_s if wall_s > 0 else _UNKNOWN,
        iterations_per_s=n_iterations / wall_s if wall_s > 0 else _UNKNOWN,
        iteration=process.iteration,
        epoch=process.epoch,
        communication_share=float(shares.communicated.get(process.rank, _UNKNOWN)),
        waited_share=float(shares.waited.get(process.rank, _UNKNOWN)),
        dropped=counters.get("dropped"),
        unfinished=process.unfinished,
        silent_s=max(0.0, now_s - process.changed_unix_s),
        closed=process.sidecar.get("closed") is True,
    )

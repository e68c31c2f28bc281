"""Watch a run in progress: by the digests of other hosts where these write some, else by its timing files.

A look returns what each rank does, the verdict on the last seconds, and whether the run hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis.hangs.diagnosis import run_end_of
from timing_logger.analysis.hangs.last_rows import last_rows
from timing_logger.analysis.hangs.sidecar_state import N_GROUPS
from timing_logger.analysis.rows.files import File, laid_end_to_end
from timing_logger.analysis.step_times.step_times import StepTimes
from timing_logger.analysis.verdict.verdict import map_judgement, reduce_judgement
from timing_logger.live.collector import Collector
from timing_logger.live.digest import Digest, Key, ProcessPlace
from timing_logger.live.digest_folder import DigestFolder
from timing_logger.live.newest_files import NewestFiles
from timing_logger.live.window import Window
from timing_logger.reading.named_ranks import lacking
from timing_logger.results import criteria
from timing_logger.results.run_end import RunEnd
from timing_logger.results.verdict import Verdict
from timing_logger.schema.defaults import MONITOR_WINDOW_S


class Watcher:
    """Follow the newest timing file of each rank in a folder. Reading takes no lock and changes nothing.

    Args:
        folder: the folder that holds ``timing-rank*.csv``, now or later.
        window_s: length of the window, back from the newest row, in seconds.
        is_wanted: tells of a process by its sidecar whether it is followed.
        elsewhere: returns new digests of hosts that do not share the folder, if there are such hosts.
        files: finds the files in the folder, where others look for them, too.
    """

    def __init__(
        self,
        folder: Path,
        window_s: float = MONITOR_WINDOW_S,
        is_wanted: Callable[[dict[str, Any]], bool] = lambda sidecar: True,
        elsewhere: Callable[[], Iterable[Digest]] = list,
        files: NewestFiles | None = None,
    ) -> None:
        self._is_wanted = is_wanted
        self._collector = Collector(folder, is_wanted=self._is_read, files=files)
        self._digests = DigestFolder(folder)
        self._written_unix_s: dict[str, float] = {}
        self._elsewhere, self._looks_without = elsewhere, 0
        self._window, self._groups = Window(window_s), ToldGroups()

    def snapshot(self) -> Snapshot:
        """Read what was added since the last snapshot, and judge.

        Raises:
            NoTimingFilesError: there is no timing file (yet).
            NotATimingFileError: a file has another header.
        """
        for digest in self._digests.read():
            self._written_unix_s[digest.source] = digest.unix_s
            self._window.add(self._groups.completed(digest))
        self._window.add(self._collector.digest())
        self._hear_elsewhere()
        return snapshot_of(self._window)

    def timings(self) -> pd.DataFrame:
        """Return the rows that the last snapshot is of, as ``read_timings`` would: of many steps some."""
        return self._window.now().timings

    def _hear_elsewhere(self) -> None:
        """Take in digests from elsewhere, if ranks are missing that may not just be late to begin."""
        processes = self._window.processes
        world_size = max((one.sidecar.get("world_size") or 0 for one in processes), default=0)
        if self._looks_without < criteria.LOOKS_UNTIL_MISSING:
            self._looks_without = self._looks_without + 1 if world_size > len(processes) else 0
            return
        for digest in self._elsewhere():
            self._window.add(self._groups.completed(digest))

    def _is_read(self, sidecar: dict[str, Any]) -> bool:
        return (
            self._is_wanted(sidecar)
            and time.time() - self._written_unix_s.get(sidecar.get("host", ""), 0.0) > criteria.GONE_AFTER_S
        )


# -- what a run does at one moment -----------------------------------------------------------------------


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
    def named(self) -> frozenset[int]:
        """The ranks that the verdict names, or that the others wait for in a hang, or that are gone."""
        end = self.end
        return frozenset({*self.verdict.ranks_to_look_at, *end.culprits, *end.circle, *end.gone})

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
    shares = _shares(found.case.times)
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


def _shares(times: StepTimes) -> dict[int, tuple[float, float]]:
    """Return the fractions of the time of each rank in which it communicated, and waited, 0 to 1."""
    spent_ms = times.gap_ms + times.blocked_ms
    known = ~np.isnan(spent_ms)
    all_ms = np.where(known, spent_ms, 0.0).sum(axis=0)
    all_ms[all_ms == 0.0] = np.nan
    communicated_and_waited = (
        np.where(known, np.nan_to_num(ms), 0.0).sum(axis=0) / all_ms
        for ms in (times.blocked_ms, times.waits.own_ms)
    )
    return dict(zip(times.ranks, zip(*communicated_and_waited, strict=True), strict=True))


def _rank_now(
    process: ProcessPlace,
    counted: tuple[float, float, float],
    shares: Mapping[int, tuple[float, float]],
    now_s: float,
) -> RankNow:
    n_rows, n_iterations, wall_s = counted
    communicated, waited = shares.get(process.rank, (_UNKNOWN, _UNKNOWN))
    return RankNow(
        rank=process.rank,
        incarnation=process.incarnation,
        written=process.written,
        rows_per_s=n_rows / wall_s if wall_s > 0 else _UNKNOWN,
        iterations_per_s=n_iterations / wall_s if wall_s > 0 else _UNKNOWN,
        iteration=process.iteration,
        epoch=process.epoch,
        communication_share=float(communicated),
        waited_share=float(waited),
        dropped=process.sidecar.get("counters", {}).get("dropped"),
        unfinished=process.unfinished,
        silent_s=max(0.0, now_s - process.changed_unix_s),
        closed=process.sidecar.get("closed") is True,
    )


# -- what digests tell in turn of the groups of a process, as long as it stands still --------------------
# Then its counts stay as they are, so those of earlier digests are right. Of a process that goes on, only the
# counts of the newest digest are. A digest that is lost costs time: its groups have their turn again.


class ToldGroups:
    """What was told of the groups of processes that are in more than a digest has room for."""

    def __init__(self) -> None:
        self._told: dict[Key, tuple[Any, dict[tuple[Any, Any], dict[str, Any]]]] = {}

    def completed(self, digest: Digest) -> Digest:
        """Return the next digest of a host with what those before it told of the groups."""
        return digest._replace(processes=[self._completed(process) for process in digest.processes])

    def _completed(self, process: ProcessPlace) -> ProcessPlace:
        n_groups = process.sidecar.get(N_GROUPS)
        if n_groups is None:
            self._told.pop(process.key, None)
            return process
        groups = self._told_of(process)
        sidecar = {**process.sidecar, "groups": groups}
        if sidecar.get("last_stall"):
            sidecar["last_stall"] = {**sidecar["last_stall"], "groups": groups}
        if len(groups) >= n_groups:
            del sidecar[N_GROUPS]
        return process._replace(sidecar=sidecar)

    def _told_of(self, process: ProcessPlace) -> list[dict[str, Any]]:
        progressed_counter_ns = process.sidecar.get("last_progress_counter_ns")
        before, groups = self._told.get(process.key, (None, {}))
        groups = groups if before == progressed_counter_ns else {}
        groups.update({(one["group"], one["size"]): one for one in process.sidecar["groups"]})
        self._told[process.key] = progressed_counter_ns, groups
        return list(groups.values())

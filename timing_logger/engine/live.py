"""Watch a run in progress: summarize its last moments from the ends of its files."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from timing_logger.analysis import COLUMNS_OF, RunEnd, Verdict, summarize_ranks
from timing_logger.analysis.hangs.diagnosis import run_end_of
from timing_logger.analysis.hangs.last_rows import last_rows, only_last_rows
from timing_logger.analysis.steps import StepRange, steps_of
from timing_logger.analysis.stragglers.verdict import judgement_of
from timing_logger.analysis.tables import opened
from timing_logger.errors import NotATimingFileError, NoTimingFilesError
from timing_logger.reading.inflight import without_replaced
from timing_logger.reading.living import as_it_stands
from timing_logger.run_info import TimingFile, check_is_file, read_sidecar

WINDOW_S = 30.0
"""The length of the window, back from the newest row of the run, in seconds."""

_FIRST_LOOK_BYTES = 2**22
_LOOK_BYTES = 2**26
_BEGIN_BYTES = 512  # the header, and the time stamps of the first rows


class RankNow(NamedTuple):
    """What one rank did in the window.

    Attributes:
        rank, incarnation: of the process.
        written: number of rows in the whole file, by its sidecar, which is behind, or the number of rows that
            were read if this is larger; None if neither is known.
        rows_per_s, iterations_per_s: rates in the window; NaN without rows.
        iteration: the latest iteration; None if there is none.
        epoch: epoch of that iteration, where iterations restart; else None.
        communication_share, waited_share: fractions of the rank's time in the window, 0 to 1; NaN if unknown.
        dropped: number of records lost so far; None if unknown.
        unfinished: number of calls that are open, or of rows in the window without a known end if more.
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
        window_s: the time that the window spans, in seconds.
        end: whether the run ended or hangs.
    """

    ranks: list[RankNow]
    verdict: Verdict
    window_s: float
    end: RunEnd


class Watcher:
    """Follow the newest timing file of each rank in a folder. Reading takes no lock and changes nothing.

    Args:
        folder: the folder that holds ``timing-rank*.csv``, now or later.
        window_s: length of the window, back from the newest row, in seconds.
    """

    def __init__(self, folder: Path, window_s: float = WINDOW_S) -> None:
        self._folder = folder
        self._window_s = window_s
        self._tails: dict[TimingFile, _Tail] = {}

    def snapshot(self) -> Snapshot:
        """Read what was added since the last snapshot.

        Raises:
            NoTimingFilesError: there is no timing file (yet).
            NotATimingFileError: a file has another header.
        """
        newest = self._newest()
        tails = [self._tails.setdefault(name, _Tail(name)) for name in newest]
        for tail in tails:
            tail.read(newest[tail.name])
        window = _window_of(tails, self._window_s)
        whole = summarize_ranks(window).set_index("rank")
        now, latest = time.time(), _latest_steps(window)
        ranks = [_rank_now(tail, window, whole, latest, now) for tail in tails]
        end = _end_of(tails, window, now)
        verdict = judgement_of(window, None, end).verdict
        return Snapshot(ranks, verdict, float(whole["wall_s"].max()) if len(whole) else 0.0, end)

    def _newest(self) -> dict[TimingFile, dict[int, Path]]:
        """Return the newest file of each rank, by rank, with its parts by their numbers."""
        if not self._folder.is_dir():
            raise NoTimingFilesError(f"folder: {str(self._folder)!r} is not a folder with timing files.")
        found: dict[TimingFile, dict[int, Path]] = defaultdict(dict)
        for path in self._folder.iterdir():
            if name := TimingFile.parse(path.name):
                found[name.first][name.part] = path
        if not found:
            raise NoTimingFilesError(f"folder: no timing file in {str(self._folder)!r} (yet).")
        newest = {name.rank: name for name in _of_latest_run(found)}
        return {name: found[name] for name in newest.values()}


def _of_latest_run(found: dict[TimingFile, dict[int, Path]]) -> list[TimingFile]:
    """Return, in order, the files of the run that began last, and of its world that was started first."""
    stated = {name: read_sidecar(next(iter(parts.values()))) or {} for name, parts in sorted(found.items())}
    latest = max(stated.values(), key=lambda sidecar: sidecar.get("started_unix_ns") or 0)
    runs = {sidecar.get("run_id") or "" for sidecar in stated.values()} - {""}
    of_run = [name for name in stated if len(runs) < 2 or stated[name].get("run_id") == latest.get("run_id")]
    first = min(stated[name].get("world") or "" for name in of_run)
    return [name for name in of_run if (stated[name].get("world") or "") == first]


@dataclass
class _Tail:
    """The rows read from the end of one file, which may have several parts."""

    name: TimingFile
    ends: dict[int, _End] = field(default_factory=dict)
    n_read: int = 0
    rows: pd.DataFrame = field(default_factory=lambda: no_rows())
    last: pd.DataFrame = field(default_factory=lambda: no_rows())
    changed_s: float = 0.0
    sidecar: dict[str, Any] = field(default_factory=dict)

    def read(self, parts: dict[int, Path]) -> None:
        """Read the whole lines that were added; at the first time, only the end of a long file."""
        if any(number not in parts or end.is_replaced() for number, end in self.ends.items()):
            self.ends, self.rows, self.last, self.n_read = {}, no_rows(), no_rows(), 0
        for number in self._to_read(parts):
            self._take_in(self.ends.setdefault(number, _End(parts[number])))
        last = max(parts)
        self.ends = {last: self.ends[last]}  # all other parts are complete, and were read
        self.changed_s = parts[last].stat().st_mtime
        self.sidecar = as_it_stands(read_sidecar(parts[last]), parts[last]) or {}

    def _to_read(self, parts: dict[int, Path]) -> list[int]:
        """Return the parts to read: for the first snapshot the last few, then those not read to the end."""
        if self.ends:
            return sorted(number for number in parts if number >= min(self.ends))
        chosen: list[int] = []
        n_bytes = 0
        for number in sorted(parts, reverse=True):
            if n_bytes < _FIRST_LOOK_BYTES:
                chosen.insert(0, number)
                n_bytes += parts[number].stat().st_size
        return chosen

    def _take_in(self, end: _End) -> None:
        from timing_logger.reading.csv_lines import UnknownHeader, parse_timings

        while added := end.added():
            try:
                frame = parse_timings(end.header + added).frame
            except UnknownHeader as error:
                raise NotATimingFileError(f"folder: {error.of(end.path)}") from None
            self.n_read += len(frame)
            frame = frame.assign(rank=self.name.rank, incarnation=self.name.incarnation)
            self.rows = without_replaced(pd.concat([self.rows, frame], ignore_index=True))
            known = pd.concat([self.last, frame], ignore_index=True)
            self.last = only_last_rows(without_replaced(known))

    def forget_before(self, instant: pd.Timestamp) -> None:
        """Drop the rows from before an instant."""
        self.rows = self.rows[~(self.rows["timestamp"] < instant)].reset_index(drop=True)


def no_rows() -> pd.DataFrame:
    """Return the table of a process that has recorded nothing."""
    from timing_logger.reading.csv_lines import parse_timings

    none = pd.array([], "int64")
    empty: pd.DataFrame = parse_timings(b"").frame.assign(rank=none, incarnation=none)
    return empty


@dataclass
class _End:
    """The end of one part of a file, from the position up to which it was read."""

    path: Path
    header: bytes = b""
    offset: int = 0
    begin: bytes = b""

    def is_replaced(self) -> bool:
        """Tell whether another file now has this name: a folder may be emptied for another run."""
        begin = self._begin_now()
        replaced = not begin.startswith(self.begin)
        self.begin = begin
        return replaced

    def _begin_now(self) -> bytes:
        check_is_file("folder", self.path)
        with self.path.open("rb") as file:
            return file.read(_BEGIN_BYTES)

    def added(self) -> bytes:
        """Read the whole lines that were added since the last call; b"" if there are none."""
        self.begin = self.begin or self._begin_now()
        with self.path.open("rb") as file:
            if not self.header:
                self.header = file.readline()
                if not self.header.endswith(b"\n"):
                    self.header = b""
                    return b""
                size = self.path.stat().st_size
                self.offset = max(len(self.header), size - _FIRST_LOOK_BYTES)
                if self.offset > len(self.header):
                    file.seek(self.offset)
                    self.offset += len(file.readline())
            file.seek(self.offset)
            data = file.read(_LOOK_BYTES)
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        return whole


def _window_of(tails: Sequence[_Tail], window_s: float) -> pd.DataFrame:
    """Return the rows of all ranks in the last ``window_s`` seconds of the run."""
    newest = max((tail.rows["timestamp"].max() for tail in tails if len(tail.rows)), default=pd.NaT)
    for tail in tails:
        tail.forget_before(newest - pd.Timedelta(seconds=window_s))
    window = pd.concat([tail.rows for tail in tails], ignore_index=True)
    window.attrs["files"] = [
        {"rank": tail.name.rank, "incarnation": tail.name.incarnation, "sidecar": tail.sidecar or None}
        for tail in tails
    ]
    return window


def _end_of(tails: Sequence[_Tail], window: pd.DataFrame, now_s: float) -> RunEnd:
    """Find which ranks hang, by the last rows of each file, some of which are older than the window."""
    return run_end_of([last_rows(tail.last) for tail in tails], window.attrs["files"], now_s)


def _latest_steps(window: pd.DataFrame) -> dict[int, StepRange]:
    """Return the latest step of each rank that has rows in an iteration."""
    frame = opened(window, COLUMNS_OF["overview"])
    number, numbering = steps_of(frame)
    rank = frame["rank"].to_numpy()
    ranks = np.unique(rank[~np.isnan(number)])
    latest = {int(one): np.nanmax(number[rank == one]) for one in ranks}
    return {one: numbering.step_range(np.array([step], np.int64)) for one, step in latest.items()}


def _rank_now(
    tail: _Tail, window: pd.DataFrame, whole: pd.DataFrame, latest: dict[int, StepRange], now_s: float
) -> RankNow:
    counters = tail.sidecar.get("counters", {})
    rows = window[window["rank"] == tail.name.rank]
    at = latest.get(tail.name.rank)
    unknown = float("nan")
    figures = whole.reindex([tail.name.rank]).iloc[0]  # unknown without rows
    wall_s = float(figures["wall_s"])
    return RankNow(
        rank=tail.name.rank,
        incarnation=tail.name.incarnation,
        written=max(filter(None, (counters.get("written"), tail.n_read)), default=counters.get("written")),
        rows_per_s=len(rows) / wall_s if wall_s > 0 else unknown,
        iterations_per_s=float(figures["iterations"]) / wall_s if wall_s > 0 else unknown,
        iteration=at.last_iteration if at else None,
        epoch=at.last_epoch if at else None,
        communication_share=float(figures["communication_share"]),
        waited_share=float(figures["waited_ms"]) / (1000 * wall_s) if wall_s > 0 else unknown,
        dropped=counters.get("dropped"),
        unfinished=max(int(rows["elapsed_ms"].isna().sum()), _n_open(tail.sidecar)),
        silent_s=max(0.0, now_s - tail.changed_s),
        closed=tail.sidecar.get("closed") is True,
    )


def _n_open(sidecar: dict[str, Any]) -> int:
    return 0 if sidecar.get("closed") else len(sidecar.get("open_calls", []))

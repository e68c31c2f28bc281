"""Make digests of the timing files of a host, or of a whole folder, while they grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from timing_logger.analysis.hangs.last_rows import last_rows
from timing_logger.analysis.rows.arrays import Floats
from timing_logger.errors import NotATimingFileError
from timing_logger.live.digest import CounterRows, Digest, ProcessPlace, RowArrays
from timing_logger.live.newest_files import FoundFile, NewestFiles, Parts
from timing_logger.live.sampled_steps import most_rows, of_fewer_rows
from timing_logger.live.tails import FollowedFile, Tail, no_rows
from timing_logger.reading.host_rows import COUNTED, counters_in
from timing_logger.schema.timing_files import HOST, TimingFile

_US_PER_S = 1e6  # timestamps are in us


class Collector:
    """Follow the newest timing file of each rank in a folder. Reading takes no lock and changes nothing.

    Args:
        folder: the folder that holds ``timing-rank*.csv``, now or later.
        name: that of the digests: of the host, where they are of one.
        is_wanted: tells of a process by its sidecar whether it is followed.
        files: finds the files in the folder, where others look for them, too.
    """

    def __init__(
        self,
        folder: Path,
        name: str = "",
        is_wanted: Callable[[dict[str, Any]], bool] = lambda sidecar: True,
        files: NewestFiles | None = None,
    ) -> None:
        self._files = files or NewestFiles(folder)
        self._name = name
        self._is_wanted = is_wanted
        self._tails: dict[TimingFile, Tail] = {}
        self._counters: dict[TimingFile, CounterTail] = {}
        self._number = 0

    def digest(self) -> Digest:
        """Read what was added since the last digest.

        Raises:
            NoTimingFilesError: there is no timing file (yet).
            NotATimingFileError: a file has another header.
        """
        wanted = [one for one in self._files.found() if self._is_wanted(one.sidecar)]
        self._tails = {one.name: self._tails.get(one.name) or Tail(one.name) for one in wanted}
        tails = list(self._tails.values())
        for tail, one in zip(tails, wanted, strict=True):
            tail.read(one.parts, self._files.sidecars)
        taken = [tail.taken() for tail in tails]
        processes = [_process(tail, rows) for tail, rows in zip(tails, taken, strict=True)]
        rows = RowArrays.of(pd.concat([no_rows(), *taken], ignore_index=True))
        last = [last_rows(tail.last) for tail in tails]
        self._number += 1
        counters = self._counted(wanted)
        digest = Digest(self._name, self._number - 1, time.time(), 1, processes, rows, last, counters)
        return of_fewer_rows(digest, most_rows(processes))

    def _counted(self, files: Sequence[FoundFile]) -> CounterRows:
        self._counters = {one.name: self._counters.get(one.name) or CounterTail() for one in files}
        found = ((one.name, self._counters[one.name].added(one.parts)) for one in files)
        return CounterRows.joined([
            CounterRows(np.full(len(values), name.rank), np.full(len(values), name.incarnation), values)
            for name, values in found
        ])  # fmt: skip


def _process(tail: Tail, taken: pd.DataFrame) -> ProcessPlace:
    counters = tail.sidecar.get("counters", {})
    open_calls = () if tail.sidecar.get("closed") else tail.sidecar.get("open_calls", ())
    iterations = taken["iteration"].to_numpy(np.float64, na_value=np.nan)
    return ProcessPlace(
        rank=tail.name.rank,
        incarnation=tail.name.incarnation,
        generation=tail.generation,
        sidecar=tail.sidecar,
        n_rows=len(taken),
        n_iterations=len(np.unique(iterations[~np.isnan(iterations)])),
        since_s=float(taken["start_counter"].min()) if len(taken) else float("nan"),
        until_s=float(taken["end_counter"].max()) if len(taken) else float("nan"),
        wall_offset_s=_wall_offset_s(taken),
        iteration=tail.iteration,
        epoch=tail.epoch,
        written=max(filter(None, (counters.get("written"), tail.n_read)), default=counters.get("written")),
        counted=tail.is_counted,
        unfinished=max(tail.n_unfinished, len(open_calls)),
        changed_unix_s=tail.changed_s,
    )


def _wall_offset_s(rows: pd.DataFrame) -> float:
    unix_s = rows["timestamp"].astype("int64").to_numpy() / _US_PER_S
    offset_s = unix_s - rows["start_counter"].to_numpy()
    known = offset_s[rows["timestamp"].notna().to_numpy() & ~np.isnan(offset_s)]
    return float(known[-1]) if len(known) else float("nan")


# -- the ends of the files in which a process writes what its host counts --------------------------------


_FIRST_LOOK_BYTES = 2**15  # of some minutes


class CounterTail:
    """The end of the file of counters of one process, which may have several parts."""

    def __init__(self) -> None:
        self._files: dict[int, FollowedFile] = {}

    def added(self, parts: Parts) -> Floats:
        """Return the rows that were added, in the columns ``COUNTED``; none where nothing is counted.

        Args:
            parts: the parts of the timing file.
        """
        try:
            if any(number not in parts or file.is_replaced() for number, file in self._files.items()):
                self._files = {}
            found = list(self._read(parts))
        except (OSError, NotATimingFileError):  # an answer can do without
            found = []
        return np.concatenate([np.zeros((0, len(COUNTED))), *found])

    def _read(self, parts: Parts) -> Iterator[Floats]:
        since = max(self._files, default=max(parts))
        for number in sorted(part for part in parts if part >= since):
            path = HOST.path(parts[number])
            if not path.is_file():
                continue
            file = self._files.setdefault(number, FollowedFile(path, _FIRST_LOOK_BYTES))
            while added := file.added():
                yield counters_in(path, file.header + added)
        self._files = {number: self._files[number] for number in sorted(self._files)[-1:]}

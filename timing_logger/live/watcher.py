"""Watch a run in progress: by the digests of other hosts where these write some, else by its timing files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from timing_logger.analysis.hangs.sidecar_state import N_GROUPS
from timing_logger.live.collector import Collector
from timing_logger.live.digest import Digest, Key, ProcessPlace
from timing_logger.live.digest_folder import DigestFolder
from timing_logger.live.newest_files import NewestFiles
from timing_logger.live.snapshot import Snapshot, snapshot_of
from timing_logger.live.window import Window
from timing_logger.results import criteria
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


# -- what digests tell in turn of the groups of a process, as long as it stands still --------------------
# Then its counts stay as they are, so those of earlier digests are right. Of a process that goes on, only the
# counts of the newest digest are. A digest that is lost costs time: its groups have their turn again.


_Group = tuple[Any, Any]


class _Told(NamedTuple):
    progressed_counter_ns: Any
    groups: dict[_Group, dict[str, Any]]


class ToldGroups:
    """What was told of the groups of processes that are in more than a digest has room for."""

    def __init__(self) -> None:
        self._told: dict[Key, _Told] = {}

    def completed(self, digest: Digest) -> Digest:
        """Return the next digest of a host with what those before it told of the groups."""
        return digest._replace(processes=[self._completed(process) for process in digest.processes])

    def _completed(self, process: ProcessPlace) -> ProcessPlace:
        n_groups = process.sidecar.get(N_GROUPS)
        if n_groups is None:
            self._told.pop(process.key, None)
            return process
        told = self._with_told(process)
        groups = list(told.groups.values())
        sidecar = {**process.sidecar, "groups": groups}
        if sidecar.get("last_stall"):
            sidecar["last_stall"] = {**sidecar["last_stall"], "groups": groups}
        if len(groups) >= n_groups:
            del sidecar[N_GROUPS]
        return process._replace(sidecar=sidecar)

    def _with_told(self, process: ProcessPlace) -> _Told:
        progressed_counter_ns = process.sidecar.get("last_progress_counter_ns")
        told = self._told.get(process.key)
        if told is None or told.progressed_counter_ns != progressed_counter_ns:
            told = self._told[process.key] = _Told(progressed_counter_ns, {})
        told.groups.update({(one["group"], one["size"]): one for one in process.sidecar["groups"]})
        return told

"""Watch a run in progress: by the digests of other hosts where these write some, else by its timing files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from timing_logger.analysis.stragglers.coinciding.search import HostCounters
from timing_logger.engine.live.collector import Collector
from timing_logger.engine.live.digest_folder import DigestFolder
from timing_logger.engine.live.snapshot import Snapshot, snapshot_of
from timing_logger.engine.live.window import Window

WINDOW_S = 30.0
"""The length of the window, back from the newest row of the run, in seconds."""

_LATE_S = 30.0  # a host that has written no digest for so long is read itself, as far as its files are here


class Watcher:
    """Follow the newest timing file of each rank in a folder. Reading takes no lock and changes nothing.

    Args:
        folder: the folder that holds ``timing-rank*.csv``, now or later.
        window_s: length of the window, back from the newest row, in seconds.
        host: reads the host counters; None for verdicts without a cause.
        is_wanted: tells of a process by its sidecar whether it is followed.
    """

    def __init__(
        self,
        folder: Path,
        window_s: float = WINDOW_S,
        host: HostCounters | None = None,
        is_wanted: Callable[[dict[str, Any]], bool] = lambda sidecar: True,
    ) -> None:
        self._is_wanted = is_wanted
        self._collector = Collector(folder, is_wanted=self._is_read)
        self._digests = DigestFolder(folder)
        self._written_unix_s: dict[str, float] = {}
        self._window = Window(window_s)
        self._host = host

    def snapshot(self) -> Snapshot:
        """Read what was added since the last snapshot, and judge.

        Raises:
            NoTimingFilesError: there is no timing file (yet).
            NotATimingFileError: a file has another header.
        """
        for digest in self._digests.read():
            self._written_unix_s[digest.source] = digest.unix_s
            self._window.add(digest)
        self._window.add(self._collector.digest())
        return snapshot_of(self._window, self._host)

    def _is_read(self, sidecar: dict[str, Any]) -> bool:
        return (
            self._is_wanted(sidecar)
            and time.time() - self._written_unix_s.get(sidecar.get("host", ""), 0.0) > _LATE_S
        )

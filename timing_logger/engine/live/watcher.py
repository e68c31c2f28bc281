"""Watch a run in progress from the folder of its timing files."""

from __future__ import annotations

from pathlib import Path

from timing_logger.engine.live.collector import Collector
from timing_logger.engine.live.snapshot import Snapshot, snapshot_of
from timing_logger.engine.live.window import Window

WINDOW_S = 30.0
"""The length of the window, back from the newest row of the run, in seconds."""


class Watcher:
    """Follow the newest timing file of each rank in a folder. Reading takes no lock and changes nothing.

    Args:
        folder: the folder that holds ``timing-rank*.csv``, now or later.
        window_s: length of the window, back from the newest row, in seconds.
    """

    def __init__(self, folder: Path, window_s: float = WINDOW_S) -> None:
        self._collector = Collector(folder)
        self._window = Window(window_s)

    def snapshot(self) -> Snapshot:
        """Read what was added since the last snapshot, and judge.

        Raises:
            NoTimingFilesError: there is no timing file (yet).
            NotATimingFileError: a file has another header.
        """
        self._window.add(self._collector.digest())
        return snapshot_of(self._window)

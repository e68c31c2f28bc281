"""Follow a run in progress: from the ends of its files to a digest, from digests to a verdict."""

from __future__ import annotations

from timing_logger.engine.live.snapshot import RankNow, Snapshot
from timing_logger.engine.live.watcher import WINDOW_S, Watcher

__all__ = ["WINDOW_S", "RankNow", "Snapshot", "Watcher"]
